"""Which type a column of a text file gets: the table's where it has the column, and a key keeps its spelling."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from rli.cli.output import print_note
from rli.errors import InvalidInputError
from rli.table.table import Table


@dataclass(frozen=True, slots=True)
class ExpectedColumns:
    """What a table knows of the columns that records for it have.

    Attributes:
        schema: of its records; None in a table that was never written.
        keys: record-key and partition columns, whose spelling counts: ``007`` is not ``7``.
    """

    schema: pa.Schema | None
    keys: frozenset[str]

    @classmethod
    def of(cls, table: Table) -> ExpectedColumns:
        properties = table.definition.properties
        return cls(table.schema, frozenset((*properties.record_key_fields, *properties.partition_fields)))

    def type_of(self, name: str) -> pa.DataType | None:
        """The table's type of a column; None for a new column."""
        position = -1 if self.schema is None else self.schema.get_field_index(name)
        return None if self.schema is None or position < 0 else self.schema.field(position).type


def types_to_read(inferred: pa.Table, expected: ExpectedColumns, *, is_csv: bool) -> dict[str, pa.DataType]:
    """The columns that must not be read as what they look like, with the type to read them as."""
    wanted: dict[str, pa.DataType] = {}
    for field in inferred.schema:
        kind = _type_to_read(field, expected, is_csv=is_csv)
        if kind is not None and kind != field.type:
            wanted[field.name] = kind
    return wanted


def fit_columns(records: pa.Table, inferred: pa.Schema, expected: ExpectedColumns, path: str) -> pa.Table:
    """The records as read, columns brought to the table's types where reading could not do it.

    Args:
        records: read with ``types_to_read``.
        inferred: what the columns looked like.
        expected: what the table knows.
        path: of the file, for messages.

    Raises:
        InvalidInputError: a value does not fit its column, or a key would change its spelling.
    """
    columns: dict[str, pa.ChunkedArray] = {}
    empty = []
    for name in records.column_names:
        column, known = records.column(name), expected.type_of(name)
        if known is None and pa.types.is_null(column.type):
            empty.append(name)
        elif name in expected.keys and pa.types.is_string(column.type):
            columns[name] = _key_column(column, known, inferred.field(name).type, f"file={path} column={name}")
        else:
            columns[name] = _converted(column, known)
    if empty:
        print_note(f"left out, as they hold no value: file={path} columns={empty}")
    return pa.table(columns)


def _type_to_read(field: pa.Field, expected: ExpectedColumns, *, is_csv: bool) -> pa.DataType | None:
    known = expected.type_of(field.name)
    if field.name in expected.keys and (is_csv or pa.types.is_timestamp(field.type)):
        return pa.string()
    if known is None:
        # Tables hold no times of day.
        return pa.string() if pa.types.is_time(field.type) else None
    if not is_csv and (_is_converted_later(field.type, known)):
        return None
    if pa.types.is_timestamp(known):
        # Times without an offset count as UTC, and pyarrow refuses them for a type that has a zone.
        return None if pa.types.is_timestamp(field.type) else pa.timestamp("us")
    return known


def _is_converted_later(found: pa.DataType, known: pa.DataType) -> bool:
    """Whether the JSON reader cannot give the type, but what it gives can be cast to it."""
    return (pa.types.is_timestamp(found) and pa.types.is_date(known)) or (
        pa.types.is_integer(found) and pa.types.is_string(known)
    )


def _converted(column: pa.ChunkedArray, known: pa.DataType | None) -> pa.ChunkedArray:
    if known is None or not _is_converted_later(column.type, known):
        return column
    return pc.cast(column, known)


def _key_column(
    column: pa.ChunkedArray, known: pa.DataType | None, looks_like: pa.DataType, where: str
) -> pa.ChunkedArray:
    """A key column that was read as text, in the table's type, or in the one that it looks like if no value changes."""
    if known is not None and pa.types.is_string(known):
        return column
    if known is None and not _is_key_type(looks_like):
        return column
    kind = looks_like if known is None else known
    try:
        typed = column.cast(kind)
        changed = pc.not_equal(typed.cast(pa.string()), column)
        first = pc.index(changed, True).as_py()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        if known is None:
            return column
        raise InvalidInputError(
            f"a value does not fit its column: {where} type={kind} ({error}); correct the file"
        ) from error
    if first < 0:
        return typed
    if known is None:
        return column
    raise InvalidInputError(
        f"a key would change its spelling: {where} value={column[first].as_py()!r} becomes "
        f"{typed.cast(pa.string())[first].as_py()!r}, as the table's column is of type {kind}; correct the file"
    )


def _is_key_type(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_date(kind) or pa.types.is_boolean(kind)
