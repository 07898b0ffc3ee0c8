"""Schemas of tables: which types are written, and how records are made to fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from rli.errors import SchemaError
from rli.hudi.column_names import require_names

RESERVED_PREFIX: Final = "_rli_"
MAX_DECIMAL_PRECISION: Final = 38

_WIDENED: Final[dict[pa.DataType, pa.DataType]] = {
    pa.int8(): pa.int32(),
    pa.int16(): pa.int32(),
    pa.uint8(): pa.int32(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
}
_BITS: Final = {pa.float32(): pa.int32(), pa.float64(): pa.int64()}
_WRITTEN_AS_IS: Final = frozenset(
    [
        pa.bool_(),
        pa.int32(),
        pa.int64(),
        pa.float32(),
        pa.float64(),
        pa.string(),
        pa.binary(),
        pa.date32(),
        # A column of nulls alone fits any column of the table; as a new column it is refused by `to_avro`.
        pa.null(),
    ]
)

CHECKED_CONVERSIONS: Final = frozenset(
    [
        (pa.int64(), pa.float64()),
        *(
            (float_type, int_type)
            for float_type in (pa.float32(), pa.float64())
            for int_type in (pa.int32(), pa.int64())
        ),
    ]
)
"""Types of numbers (of records, of the column) between which values are converted as far as none of them changes."""


def written_schema(schema: pa.Schema) -> pa.Schema:
    """The schema that records of ``schema`` are written with: every type the smallest one that holds all its values.

    Raises:
        SchemaError: a column has a type that a table cannot hold, or a column or struct field has a name that no table
            can hold, a reserved name, or the name of another one but for letter case.
    """
    require_names(schema)
    for name in schema.names:
        if name.startswith(RESERVED_PREFIX):
            raise SchemaError(f"a column has a reserved name: column={name}", remedy="rename it")
    return pa.schema([pa.field(field.name, _written_type(field.type, field.name)) for field in schema])


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Records with exactly the columns and types of ``schema``; columns that they lack are null.

    Raises:
        SchemaError: a value does not fit its column, for instance a timestamp finer than microseconds.
    """
    if table.schema.equals(schema):
        return table.replace_schema_metadata(schema.metadata)
    columns, names = [], frozenset(table.column_names)
    for field in schema:
        if field.name not in names:
            columns.append(pa.nulls(table.num_rows, field.type))
            continue
        column = table.column(field.name)
        try:
            columns.append(column if column.type == field.type else _cast(column, field))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise SchemaError(
                f"a value does not fit its column: column={field.name} type={field.type} ({error})",
                remedy="cast or round the column first",
            ) from error
    return pa.table(columns, schema=schema)


def holds_same(left: pa.Table, right: pa.Table) -> bool:
    """Whether two tables of one schema have the same rows, bit for bit: NaN equals itself, -0.0 is not 0.0."""
    return all(
        _bits(one.combine_chunks()).equals(_bits(other.combine_chunks()))
        for one, other in zip(left.columns, right.columns, strict=True)
    )


def _bits(column: pa.Array) -> pa.Array:
    compared = _compared_as(column.type)
    return column if compared == column.type else column.view(compared)


def _compared_as(kind: pa.DataType) -> pa.DataType:
    """The type of integers with the bits of floating-point numbers, inside of nested types too."""
    if kind in _BITS:
        return _BITS[kind]
    if pa.types.is_list(kind):
        return pa.list_(_field_of_bits(kind.value_field))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_field, _field_of_bits(kind.item_field))
    if pa.types.is_struct(kind):
        return pa.struct([_field_of_bits(field) for field in kind])
    return kind


def _field_of_bits(field: pa.Field) -> pa.Field:
    return field.with_type(_compared_as(field.type))


def _cast(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    if pa.types.is_floating(column.type) and pa.types.is_string(field.type):
        # Hudi has let such a column grow into text. It would spell 1e+20 as 1.0E20.
        raise SchemaError(
            f"numbers would become strings, which no two engines spell in one way: column={field.name} "
            f"from={column.type} type={field.type}",
            remedy="write all records of the table with the engine that changed the column",
        )
    if (column.type, field.type) not in CHECKED_CONVERSIONS:
        return column.cast(field.type)
    if pa.types.is_floating(column.type):
        # Data frames without nulls in integer columns have doubles, and NaN for a missing value.
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
    converted = column.cast(field.type, safe=False)
    is_changed = pc.fill_null(pc.not_equal(converted.cast(column.type, safe=False), column), False)
    if pc.any(is_changed).as_py():
        row = pc.index(is_changed, True).as_py()
        raise SchemaError(
            f"a value would change in its column: column={field.name} type={field.type} row={row} "
            f"value={column[row].as_py()!r}",
            row=row,
            remedy="correct the value, or write it to a column of another type",
        )
    return converted


def _written_type(kind: pa.DataType, column: str) -> pa.DataType:
    if kind in _WRITTEN_AS_IS:
        return kind
    if kind in _WIDENED:
        return _WIDENED[kind]
    for matches, convert in _NESTED:
        if matches(kind):
            return convert(kind, column)
    raise SchemaError(
        f"a column has a type that cannot be written: column={column} type={kind}",
        remedy="cast it to a type of numbers, string, bytes, date, timestamp, decimal, list, map or struct",
    )


def _timestamp(_kind: pa.DataType, _column: str) -> pa.DataType:
    # A timestamp without a time zone counts as UTC: not every Hudi reader knows the type that has none.
    return pa.timestamp("us", tz="UTC")


def _decimal(kind: pa.DataType, column: str) -> pa.DataType:
    if kind.precision > MAX_DECIMAL_PRECISION:
        raise SchemaError(
            f"a decimal has too many digits: column={column} type={kind} most={MAX_DECIMAL_PRECISION}", remedy="cast it"
        )
    return pa.decimal128(kind.precision, kind.scale)


def _list(kind: pa.DataType, column: str) -> pa.DataType:
    return pa.list_(pa.field("element", _written_type(kind.value_type, f"{column}.element")))


def _map(kind: pa.DataType, column: str) -> pa.DataType:
    key = _written_type(kind.key_type, f"{column}.key")
    if key != pa.string():
        raise SchemaError(
            f"the keys of a map are no strings: column={column} type={kind}", remedy="cast them to string"
        )
    return pa.map_(key, _written_type(kind.item_type, f"{column}.value"))


def _struct(kind: pa.DataType, column: str) -> pa.DataType:
    if not kind.num_fields:
        raise SchemaError(f"a struct has no fields: column={column}", remedy="add a field, or drop the column")
    return pa.struct([pa.field(field.name, _written_type(field.type, f"{column}.{field.name}")) for field in kind])


_NESTED: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType, str], pa.DataType]], ...]] = (
    (pa.types.is_timestamp, _timestamp),
    (pa.types.is_decimal, _decimal),
    (lambda kind: pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind), _list),
    (pa.types.is_map, _map),
    (pa.types.is_struct, _struct),
    (pa.types.is_dictionary, lambda kind, column: _written_type(kind.value_type, column)),
    (pa.types.is_fixed_size_binary, lambda _kind, _column: pa.binary()),
)
