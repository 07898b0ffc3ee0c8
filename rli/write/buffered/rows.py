"""Rows and batches of callers in one form: Arrow tables of the writer's schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.compute as pc

from rli.arrow_tables import as_arrow_table
from rli.errors import InvalidInputError, InvalidKeyError, SchemaError
from rli.hudi.schema import conform, written_schema
from rli.hudi.schema_evolution import evolved_schema, fitted
from rli.model import MissingColumns
from rli.write.buffered.cells import Check, check_of
from rli.write.rows.change_batches import DELETES

Row = dict[str, Any]

_LONGEST: Final = 60
"""Letters of a value that an error shows."""

_GIVE_SCHEMA: Final = "give the types of all columns: schema=pa.schema(...)"


@dataclass(frozen=True, slots=True)
class RowChoices:
    """What rows must have.

    Attributes:
        keys: columns of record keys, without nulls.
        op: the column of operations; None where rows are records. Deletes may lack columns.
        missing: what becomes of columns that rows lack: only "null" lets them.
    """

    keys: tuple[str, ...]
    op: str | None
    missing: MissingColumns


@dataclass(frozen=True, slots=True)
class RowForm:
    """The columns of a writer's rows, and how they are checked.

    Attributes:
        schema: of the columns.
        choices: what rows must have.
        checks: for each column its quick check, and whether it may be null.
    """

    schema: pa.Schema
    choices: RowChoices
    checks: tuple[tuple[str, Check, bool], ...]
    names: frozenset[str]

    @classmethod
    def of(cls, schema: pa.Schema, choices: RowChoices) -> Self:
        """The form of rows with these columns; raises ``SchemaError`` if a table cannot hold them."""
        written = written_schema(schema)
        if lacking := sorted({*choices.keys} - {*written.names}):
            raise SchemaError(f"the schema lacks columns of the record key: columns={lacking}", remedy=_GIVE_SCHEMA)
        checks = [(field.name, check_of(field.type), field.name not in choices.keys) for field in written]
        if len(choices.keys) == 1:
            checks = [
                (name, check if is_nullable else _filled(check), is_nullable) for name, check, is_nullable in checks
            ]
        return cls(written, choices, tuple(checks), frozenset(written.names))

    @classmethod
    def inferred(cls, given: Any, choices: RowChoices) -> Self:
        """The form of the first rows of a table that has no columns yet."""
        rows = rows_in(given)
        if rows is not None and not rows:
            raise InvalidInputError("the table has no columns yet, and there is no row", remedy=_GIVE_SCHEMA)
        schema = (as_arrow_table(given) if rows is None else _as_table(rows)).schema
        if unknown := [field.name for field in schema if pa.types.is_null(field.type)]:
            raise SchemaError(
                f"the table has no columns yet, and the first rows do not tell a type: columns={unknown}",
                remedy=_GIVE_SCHEMA,
            )
        return cls.of(schema, choices)

    def size_of(self, row: Row) -> int | None:
        """The bytes that a row takes in memory, about; None for a row that must go the slow way."""
        if row.keys() != self.names:
            return None
        size = 0
        for name, check, is_nullable in self.checks:
            value = row[name]
            if value is None:
                if not is_nullable:
                    return None
                continue
            taken = check(value)
            if taken is None:
                return None
            size += taken
        return size

    def plain(self, rows: Sequence[Row]) -> pa.Table:
        """Rows that have passed the quick check, as a table."""
        return pa.Table.from_struct_array(pa.array(rows, pa.struct(self.schema)))

    def table_of(self, rows: Sequence[Row]) -> pa.Table:
        """Any rows as a table.

        Raises:
            SchemaError: a row lacks a column, has an unknown one, or a value that does not fit.
            InvalidKeyError: a record key is null.
        """
        for number, row in enumerate(rows):
            self._require_columns(number, row)
        columns = [self._column(field, [row.get(field.name) for row in rows]) for field in self.schema]
        return self._with_keys(pa.table(columns, schema=self.schema))

    def conformed(self, records: Any) -> pa.Table:
        """Arrow data as a table of the schema; raises as ``table_of``."""
        table = as_arrow_table(records)
        if table.schema != self.schema:
            table = self._evolved(table)
        return self._with_keys(table)

    def _evolved(self, table: pa.Table) -> pa.Table:
        incoming = written_schema(table.schema)
        incoming = pa.schema([field for field in incoming if not pa.types.is_null(field.type)])
        if self._are_deletes(table):
            incoming = pa.schema([*incoming, *(field for field in self.schema if field.name not in incoming.names)])
        nulls = MissingColumns.NULL if self.choices.missing is MissingColumns.NULL else MissingColumns.FAIL
        evolved = evolved_schema(self.schema, incoming, missing=nulls)
        if evolved != self.schema:
            changed = [field.name for field in evolved if field not in self.schema]
            raise SchemaError(
                f"columns of the records are not those of the writer: columns={changed}",
                remedy="name them and their types in the writer's schema=",
            )
        return conform(table, self.schema)

    def _are_deletes(self, table: pa.Table) -> bool:
        op = self.choices.op
        if op is None or op not in table.column_names or not table.num_rows:
            return False
        deletes = pc.is_in(pc.utf8_lower(table[op].cast(pa.string())), pa.array(sorted(DELETES)))
        return bool(pc.all(deletes).as_py())

    def _require_columns(self, number: int, row: Row) -> None:
        if not isinstance(row, dict):
            raise InvalidInputError(
                f"not a row: row={number} type={type(row).__name__}", remedy="give dicts", row=number
            )
        if unknown := sorted(map(str, row.keys() - self.names)):
            raise SchemaError(
                f"a row has a column that the table lacks: row={number} column={unknown[0]}",
                remedy="leave it out, or name all columns in the writer's schema=",
                row=number,
            )
        op = self.choices.op
        if self.choices.missing is MissingColumns.NULL or (op and str(row.get(op)).lower() in DELETES):
            return
        if lacking := [name for name in self.schema.names if name not in row]:
            raise SchemaError(
                f"a row lacks a column: row={number} column={lacking[0]}",
                remedy='give it, or choose missing="null" for null, or missing="keep" with schema= for the stored value',
                row=number,
            )

    def _column(self, field: pa.Field, values: list[Any]) -> pa.ChunkedArray:
        try:
            return _fitted(field, values)
        except (SchemaError, pa.ArrowException, OverflowError, UnicodeError, TypeError, ValueError):
            for number, value in enumerate(values):
                try:
                    _fitted(field, [value])
                except (SchemaError, pa.ArrowException, OverflowError, UnicodeError, TypeError, ValueError) as error:
                    raise SchemaError(
                        f"a value does not fit its column: row={number} column={field.name} type={field.type} "
                        f"value={_shown(value)}",
                        remedy="convert it",
                        row=number,
                    ) from error
            return pa.chunked_array([_fitted(field, [value]).combine_chunks() for value in values], field.type)

    def _with_keys(self, table: pa.Table) -> pa.Table:
        for name in self.choices.keys:
            column = table[name]
            if column.null_count:
                row = pc.index(pc.is_null(column), value=True).as_py()
                raise InvalidKeyError(
                    f"a record key is null: row={row} column={name}", remedy="give it a value", row=row
                )
            if len(self.choices.keys) == 1 and pa.types.is_string(column.type):
                row = pc.index(column, value="").as_py()
                if row >= 0:
                    raise InvalidKeyError(
                        f"a record key is empty: row={row} column={name}", remedy="give it a value", row=row
                    )
        return table


def with_op(schema: pa.Schema, op: str | None) -> pa.Schema:
    """The columns of changes of a table: its own, and the column of operations."""
    return schema if op is None or op in schema.names else schema.append(pa.field(op, pa.string()))


def rows_in(given: Any) -> Sequence[Row] | None:
    """The rows, if a caller gave some: a dict, or a list of dicts; None for Arrow data."""
    if isinstance(given, Mapping):
        return [dict(given)]
    if isinstance(given, list | tuple) and all(isinstance(row, Mapping) for row in given):
        return [dict(row) for row in given]
    return None


def _filled(check: Check) -> Check:
    """The check of a sole record key, which is not empty."""
    return lambda value: check(value) or None


def _as_table(rows: Sequence[Row]) -> pa.Table:
    try:
        return pa.Table.from_struct_array(pa.array(rows))
    except (pa.ArrowException, OverflowError, UnicodeError, TypeError, ValueError) as error:
        raise SchemaError(f"the types of the first rows do not agree ({error})", remedy=_GIVE_SCHEMA) from error


def _fitted(field: pa.Field, values: list[Any]) -> pa.ChunkedArray:
    column = pa.chunked_array([pa.array(values)])
    if pa.types.is_null(column.type):
        return pa.chunked_array([pa.nulls(len(values), field.type)])
    if column.type == field.type:
        return column
    given = pa.table({field.name: column})
    return fitted(conform(given, written_schema(given.schema)).column(0), field)


def _shown(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}…"
