"""How the schema of a table changes by a write: columns and struct fields are added, and types grow wider.

Files are not rewritten for it: readers bring the records of older files into the table's newest types. So a type grows only
into one that holds every value of both, and that Hudi's readers promote in the same way.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from rli.errors import SchemaError
from rli.hudi.column_names import below
from rli.hudi.meta_columns import IS_DELETED
from rli.hudi.schema import CHECKED_CONVERSIONS, MAX_DECIMAL_PRECISION, conform
from rli.model import MissingColumns

_FITTING: Final = frozenset(
    [
        (pa.int32(), pa.int64()),
        (pa.float32(), pa.float64()),
        (pa.int32(), pa.float64()),
        # Arrow refuses integers that no double holds.
        (pa.int64(), pa.float64()),
    ]
)
"""Types of numbers (of records, of the table) whose values fit into the table's type."""

_GROWING: Final = {(pa.int32(), pa.int64()), (pa.float32(), pa.float64())}
"""Types of numbers (of the table, of records): the table takes the type of the records."""

_STRUCTS_SINCE: Final = 19
"""The release of pyarrow that reads a struct with added fields from older files."""


def missing_columns(stored: pa.Schema, incoming: pa.Schema) -> list[str]:
    """The columns of a table that its incoming records lack."""
    return [name for name in stored.names if name not in incoming.names]


def evolved_schema(
    stored: pa.Schema,
    incoming: pa.Schema,
    *,
    missing: MissingColumns = MissingColumns.FAIL,
    fixed: Collection[str] = (),
) -> pa.Schema:
    """The table's schema after records of ``incoming`` (a ``written_schema``) are written.

    New columns and new fields of structs are appended as nullable, at every level. Narrower numbers fit into wider columns,
    and wider ones make a column wider: int to bigint, float to double, and decimals. Integers fit into columns of doubles,
    and the other way round, if no value changes: ``conform`` checks the values.

    Args:
        stored: of the table.
        incoming: of the records.
        missing: what becomes of columns and struct fields that the records lack. They may always lack the column that
            marks deletes.
        fixed: columns whose types stay: the table's keys and partition paths are formed of them.

    Raises:
        SchemaError: a column or struct field of the table is missing in the records, or its type does not fit, or a new
            one differs from one of the table in letter case alone.
    """
    evolution = _Evolution(frozenset(fixed))
    fields = [
        evolution.column(known, incoming.field(known.name), "") if known.name in incoming.names else known
        for known in stored
    ]
    require_columns(stored, incoming, missing, evolution.lacking)
    return pa.schema([*fields, *_added(stored, incoming, "")])


def require_columns(
    stored: pa.Schema, incoming: pa.Schema, missing: MissingColumns, lacking_fields: Sequence[str] = ()
) -> None:
    """Raise ``SchemaError`` if records that will be written lack columns of the table that they must have.

    Args:
        stored: of the table.
        incoming: of the records.
        missing: what becomes of columns that they lack.
        lacking_fields: struct fields that they lack.
    """
    lacking = missing_columns(stored, incoming)
    if required := [name for name in lacking if not stored.field(name).nullable]:
        raise SchemaError(
            f"the records lack columns of the table that hold no nulls: columns={required}",
            remedy="add them to the records",
        )
    # Records without marks are no deletes.
    _require_none_missing([name for name in lacking if name != IS_DELETED], lacking_fields, missing)


def grows(stored: pa.DataType, arriving: pa.DataType) -> bool:
    """Whether a column of numbers takes the type of the records, which is wider."""
    if pa.types.is_decimal(stored) and pa.types.is_decimal(arriving):
        return arriving == smallest_decimal(stored, arriving) != stored
    return (stored, arriving) in _GROWING


def smallest_decimal(stored: pa.DataType, arriving: pa.DataType) -> pa.DataType | None:
    """The smallest decimal that holds all values of two decimals; None if it has more digits than a table holds."""
    scale = max(stored.scale, arriving.scale)
    digits = max(stored.precision - stored.scale, arriving.precision - arriving.scale) + scale
    return pa.decimal128(digits, scale) if digits <= MAX_DECIMAL_PRECISION else None


def fitted(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    """Values of one column of records as those of a column of the table, whose type stays.

    Raises:
        SchemaError: their type does not fit, or a value would change.
    """
    if _Evolution(frozenset()).column(field, pa.field(field.name, column.type), "").type != field.type:
        raise _unfit(field.type, column.type, field.name)
    return conform(pa.table({field.name: column}), pa.schema([field])).column(0)


def _unfit(stored: pa.DataType, arriving: pa.DataType, path: str) -> SchemaError:
    return SchemaError(
        f"a column's type does not fit the table: column={path} table={stored} records={arriving}",
        remedy="cast it, add a column with another name, or write all records into a new table",
    )


def _require_none_missing(columns: Sequence[str], fields: Sequence[str], missing: MissingColumns) -> None:
    if missing is MissingColumns.FAIL and columns:
        raise SchemaError(
            f"the records lack columns of the table: columns={[*columns, *fields]}",
            remedy=(
                "add them, or write with "
                'missing="null" (they become null) or missing="keep" (stored records keep their values)'
            ),
        )
    if missing is MissingColumns.FAIL and fields:
        raise SchemaError(
            f"the records lack fields of structs in the table: fields={fields}",
            remedy=('add them, or write with missing="null" (they become null)'),
        )
    if missing is MissingColumns.KEEP and fields:
        raise SchemaError(
            f'the records lack fields of structs, and missing="keep" keeps whole columns: fields={fields}',
            remedy=('add the fields, leave the columns out, or write with missing="null"'),
        )


def _added(stored: pa.Schema | pa.StructType, incoming: pa.Schema | pa.StructType, path: str) -> list[pa.Field]:
    """The new fields of one level."""
    known = {of_table.name.casefold(): of_table.name for of_table in stored}
    added = [arriving for arriving in incoming if known.get(arriving.name.casefold()) != arriving.name]
    for arriving in added:
        if (name := known.get(arriving.name.casefold())) is not None:
            raise SchemaError(
                f"a column has the name of one of the table but for letter case: column={below(path, arriving.name)} "
                f"table={below(path, name)}",
                remedy="rename it",
            )
    return added


@dataclass(slots=True)
class _Evolution:
    """Forms the types of a table's columns after a write.

    Attributes:
        fixed: columns whose types stay.
        lacking: paths of the struct fields that the records lack; it is filled as types are formed.
    """

    fixed: frozenset[str]
    lacking: list[str] = dataclasses.field(default_factory=list)

    def column(self, stored: pa.Field, arriving: pa.Field, above: str) -> pa.Field:
        """A column, or a field of a struct, after the write."""
        path = below(above, stored.name)
        kind = self._kind(stored.type, arriving.type, path)
        if kind != stored.type and path in self.fixed:
            raise SchemaError(
                f"the type of a key or partition column stays: column={path} table={stored.type} "
                f"records={arriving.type}",
                remedy="cast it, or write the records into a new table",
            )
        return stored if kind is stored.type else stored.with_type(kind)

    def _kind(self, stored: pa.DataType, arriving: pa.DataType, path: str) -> pa.DataType:
        if arriving == stored or pa.types.is_null(arriving):
            return stored
        if pa.types.is_struct(arriving) and pa.types.is_struct(stored):
            return self._struct(stored, arriving, path)
        if pa.types.is_list(arriving) and pa.types.is_list(stored):
            kind = self._kind(stored.value_type, arriving.value_type, f"{path}.element")
            return stored if kind == stored.value_type else pa.list_(stored.value_field.with_type(kind))
        if pa.types.is_map(arriving) and pa.types.is_map(stored):
            kind = self._kind(stored.item_type, arriving.item_type, f"{path}.value")
            same = kind == stored.item_type
            return stored if same else pa.map_(stored.key_field, stored.item_field.with_type(kind))
        return _single(stored, arriving, path)

    def _struct(self, stored: pa.StructType, arriving: pa.StructType, path: str) -> pa.DataType:
        given = {one.name: one for one in arriving}
        self.lacking.extend(below(path, one.name) for one in stored if one.name not in given)
        fields = [self.column(one, given[one.name], path) if one.name in given else one for one in stored]
        added = _added(stored, arriving, path)
        if added:
            _require_structs(path, added)
        kind = pa.struct([*fields, *added])
        return stored if kind == stored else kind


def _single(stored: pa.DataType, arriving: pa.DataType, path: str) -> pa.DataType:
    """The type of values that have no parts."""
    if pa.types.is_decimal(arriving) and pa.types.is_decimal(stored):
        return _decimal(stored, arriving, path)
    if grows(stored, arriving):
        return arriving
    is_checked = "." not in path and (arriving, stored) in CHECKED_CONVERSIONS
    if is_checked or (arriving, stored) in _FITTING:
        return stored
    raise _unfit(stored, arriving, path)


def _decimal(stored: pa.DataType, arriving: pa.DataType, path: str) -> pa.DataType:
    """The smallest decimal that holds all values of both."""
    kind = smallest_decimal(stored, arriving)
    if kind is None:
        raise SchemaError(
            f"no decimal of {MAX_DECIMAL_PRECISION} digits holds the values of the table and of the records: "
            f"column={path} table={stored} records={arriving}",
            remedy="cast the records to the table's type",
        )
    return stored if kind == stored else kind


def _require_structs(path: str, added: list[pa.Field]) -> None:
    if int(pa.__version__.partition(".")[0]) < _STRUCTS_SINCE:
        raise SchemaError(
            f"this release of pyarrow cannot read structs with added fields: column={path} "
            f"fields={[one.name for one in added]} pyarrow={pa.__version__}",
            remedy=f"install pyarrow>={_STRUCTS_SINCE}",
        )
