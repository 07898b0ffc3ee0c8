"""Schemas of tables: which types are written, how records are made to fit, and how a schema may grow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from rli.errors import SchemaError
from rli.hudi.column_names import require_names
from rli.hudi.meta_columns import IS_DELETED

RESERVED_PREFIX: Final = "_rli_"
_MAX_DECIMAL_PRECISION: Final = 38

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


def written_schema(schema: pa.Schema) -> pa.Schema:
    """The schema that records of ``schema`` are written with: every type the smallest one that holds all its values.

    Raises:
        SchemaError: a column has a type that a table cannot hold, or a column or struct field has a name that no table
            can hold, a reserved name, or the name of another one but for letter case.
    """
    require_names(schema)
    for name in schema.names:
        if name.startswith(RESERVED_PREFIX):
            raise SchemaError(f"a column has a reserved name: column={name}; rename it")
    return pa.schema([pa.field(field.name, _written_type(field.type, field.name)) for field in schema])


def missing_columns(stored: pa.Schema, incoming: pa.Schema) -> list[str]:
    """The columns of a table that its incoming records lack."""
    return [name for name in stored.names if name not in incoming.names]


def evolved_schema(stored: pa.Schema, incoming: pa.Schema, *, may_lack: bool = False) -> pa.Schema:
    """The table's schema after records of ``incoming`` (a ``written_schema``) are written.

    New columns are appended as nullable; narrower numbers fit into wider columns. Integers fit into columns of doubles,
    and the other way round, as far as the values do: ``conform`` checks them.

    Args:
        stored: of the table.
        incoming: of the records.
        may_lack: whether the records may lack nullable columns of the table. They may always lack the one that marks deletes.

    Raises:
        SchemaError: a column of the table is missing in the records, or its type does not fit, or a new column differs
            from one of the table in letter case alone.
    """
    missing = missing_columns(stored, incoming)
    # Records without marks are no deletes.
    required_of_all = [name for name in missing if name != IS_DELETED]
    if required_of_all and not may_lack:
        raise SchemaError(
            f"the records lack columns of the table: columns={required_of_all}; add them, or upsert with "
            'missing="null" (they become null) or missing="keep" (stored records keep their values)'
        )
    if required := [name for name in missing if not stored.field(name).nullable]:
        raise SchemaError(
            f"the records lack columns of the table that hold no nulls: columns={required}; add them to the records"
        )
    for field in stored:
        if field.name in missing:
            continue
        _require_fit(incoming.field(field.name).type, field)
    added = [field for field in incoming if field.name not in stored.names]
    known = {name.casefold(): name for name in stored.names}
    for field in added:
        if (name := known.get(field.name.casefold())) is not None:
            raise SchemaError(
                f"a column has the name of one of the table but for letter case: column={field.name} table={name}; "
                "rename it"
            )
    return pa.schema([*stored, *added])


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
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise SchemaError(
                f"a value does not fit its column: column={field.name} type={field.type} ({error}); "
                "cast or round the column first"
            ) from error
    return pa.table(columns, schema=schema)


def fitted(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    """Values of one column of records as those of a column of the table.

    Raises:
        SchemaError: their type does not fit, or a value would change.
    """
    _require_fit(column.type, field)
    return conform(pa.table({field.name: column}), pa.schema([field])).column(0)


def _require_fit(arriving: pa.DataType, field: pa.Field) -> None:
    if not (_fits(arriving, field.type) or (arriving, field.type) in _CHECKED_CONVERSIONS):
        raise SchemaError(
            f"a column's type does not fit the table: column={field.name} table={field.type} records={arriving}; "
            "cast it, or add a column with another name"
        )


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
    if (column.type, field.type) not in _CHECKED_CONVERSIONS:
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
            f"value={column[row].as_py()!r}; correct the value, or write it to a column of another type"
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
        f"a column has a type that cannot be written: column={column} type={kind}; cast it to a type of numbers, "
        "text, bytes, date, timestamp, decimal, list, map or struct"
    )


def _timestamp(_kind: pa.DataType, _column: str) -> pa.DataType:
    # A timestamp without a time zone counts as UTC: not every Hudi reader knows the type that has none.
    return pa.timestamp("us", tz="UTC")


def _decimal(kind: pa.DataType, column: str) -> pa.DataType:
    if kind.precision > _MAX_DECIMAL_PRECISION:
        raise SchemaError(
            f"a decimal has too many digits: column={column} type={kind} most={_MAX_DECIMAL_PRECISION}; cast it"
        )
    return pa.decimal128(kind.precision, kind.scale)


def _list(kind: pa.DataType, column: str) -> pa.DataType:
    return pa.list_(pa.field("element", _written_type(kind.value_type, f"{column}.element")))


def _map(kind: pa.DataType, column: str) -> pa.DataType:
    key = _written_type(kind.key_type, f"{column}.key")
    if key != pa.string():
        raise SchemaError(f"the keys of a map are not text: column={column} type={kind}; cast them to text")
    return pa.map_(key, _written_type(kind.item_type, f"{column}.value"))


def _struct(kind: pa.DataType, column: str) -> pa.DataType:
    if not kind.num_fields:
        raise SchemaError(f"a struct has no fields: column={column}; add a field, or drop the column")
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


def _fits(arriving: pa.DataType, stored: pa.DataType) -> bool:
    """Whether every value of a type fits into a column of the table."""
    if pa.types.is_null(arriving):
        return True
    if pa.types.is_struct(arriving) and pa.types.is_struct(stored):
        return {field.name for field in arriving} == {field.name for field in stored} and all(
            _fits(arriving.field(field.name).type, field.type) for field in stored
        )
    if pa.types.is_list(arriving) and pa.types.is_list(stored):
        return _fits(arriving.value_type, stored.value_type)
    if pa.types.is_map(arriving) and pa.types.is_map(stored):
        return _fits(arriving.item_type, stored.item_type)
    if pa.types.is_decimal(arriving) and pa.types.is_decimal(stored):
        return arriving.scale <= stored.scale and arriving.precision - arriving.scale <= stored.precision - stored.scale
    return arriving == stored or (arriving, stored) in _SAFE_WIDENINGS


_CHECKED_CONVERSIONS: Final = frozenset(
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

_SAFE_WIDENINGS: Final = frozenset([(pa.int32(), pa.int64()), (pa.float32(), pa.float64()), (pa.int32(), pa.float64())])
