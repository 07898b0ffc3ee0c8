"""Bounds of columns from the footers of Parquet files.

Statistics that are absent, of a type whose order is in doubt, or of a column that pyarrow converts without keeping the
order, say nothing. Source of the format: https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift
(Statistics, ColumnOrder); pyarrow itself passes over statistics of old writers that are known to be wrong.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from rli.filters.column_bounds import ColumnBounds, bound_type, concat_bounds, is_bytes
from rli.filters.predicates import Column

_UNITS: Final = {"ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
_EXACT: Final = Context(prec=80)
"""Has more digits than any decimal."""

_WIDER: Final = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float64())
"""Each holds the values of those before it, in their order."""


RowGroupChoice: TypeAlias = Callable[[pq.FileMetaData], NDArray[np.bool_]]
"""Tells which row groups of a file are wanted, by its footer; shape (row groups,)."""


class _Run(NamedTuple):
    """Files one after the other whose Parquet schemas are equal: all names, the leaves, that schema, and the row groups."""

    names: frozenset[str]
    places: dict[Column, tuple[int, pa.DataType]]
    schema: pq.ParquetSchema
    groups: list[pq.RowGroupMetaData]


@dataclass(frozen=True)
class FooterBounds:
    """The bounds of columns in the row groups of some files; a unit is a row group, in the order of the files.

    Attributes:
        footers: of the files.
        schema: of the table's records.
        absent: columns of which a file that lacks them does not say that they are null.
    """

    footers: Sequence[pq.FileMetaData]
    schema: pa.Schema
    absent: frozenset[str] = frozenset()

    @property
    def units(self) -> int:
        return sum(footer.num_row_groups for footer in self.footers)

    def of(self, column: Column) -> ColumnBounds | None:
        _, kind = self._places.get(column, (None, None))
        if kind is None or not _is_ordered(kind) or not self.footers:
            return None
        return concat_bounds([self._of_run(run, column, kind) for run in self._runs])

    @cached_property
    def _places(self) -> dict[Column, tuple[int, pa.DataType]]:
        return leaf_places(self.schema)

    @cached_property
    def _runs(self) -> list[_Run]:
        runs: list[_Run] = []
        for footer in self.footers:
            if not runs or not runs[-1].schema.equals(footer.schema):
                schema = footer.schema.to_arrow_schema()
                runs.append(_Run(frozenset(schema.names), leaf_places(schema), footer.schema, []))
            runs[-1].groups.extend(footer.row_group(number) for number in range(footer.num_row_groups))
        return runs

    def _of_run(self, run: _Run, column: Column, kind: pa.DataType) -> ColumnBounds:
        units = len(run.groups)
        if column[0] not in run.names:
            is_null = len(column) == 1 and column[0] not in self.absent
            return _unknown(kind, units, may_hold_values=not is_null)
        place = run.places.get(column)
        if place is None:
            return _unknown(kind, units)
        position, stored_kind = place
        if run.schema.column(position).path != ".".join(column):
            return _unknown(kind, units)
        statistics = [_statistics(group, position) for group in run.groups]
        convert = _conversion(run.schema.column(position), stored_kind, kind)
        nulls = [one.null_count if one is not None and one.has_null_count else None for one in statistics]
        return ColumnBounds(
            _converted([None if one is None else _raw(one, "min_raw") for one in statistics], convert, kind),
            _converted([None if one is None else _raw(one, "max_raw") for one in statistics], convert, kind),
            np.array([count != 0 for count in nulls], np.bool_),
            np.array([count != group.num_rows for count, group in zip(nulls, run.groups, strict=True)], np.bool_),
        )


def string_bounds(statistics: Any) -> tuple[bytes, bytes] | None:
    """Between which two values the texts of a row group lie, as bytes; None if its statistics do not say."""
    if statistics is None:
        return None
    least, greatest = _raw(statistics, "min_raw"), _raw(statistics, "max_raw")
    return (least, greatest) if isinstance(least, bytes) and isinstance(greatest, bytes) else None


def leaf_places(schema: pa.Schema) -> dict[Column, tuple[int, pa.DataType]]:
    """The columns that are no lists, maps or structs: where each stands among the leaves of a schema, and its type.

    Args:
        schema: of a file or a table. Columns whose name is there twice are left out.
    """
    return dict(_leaf_places((), list(schema), 0))


def _leaf_places(
    parent: Column, fields: Sequence[pa.Field], position: int
) -> Iterator[tuple[Column, tuple[int, pa.DataType]]]:
    names = [field.name for field in fields]
    for name, kind in zip(names, (field.type for field in fields), strict=True):
        column = (*parent, name)
        if names.count(name) == 1:
            if not pa.types.is_nested(kind):
                yield column, (position, kind)
            elif pa.types.is_struct(kind):
                yield from _leaf_places(column, list(kind), position)
        position += _leaves(kind)


def _statistics(group: Any, position: int) -> Any:
    try:
        return group.column(position).statistics
    except pa.ArrowException:
        return None


def _raw(statistics: Any, name: str) -> Any:
    """A bound as it is stored; None if it is missing."""
    try:
        return getattr(statistics, name) if statistics.has_min_max else None
    except (pa.ArrowException, ValueError):
        return None


def _unknown(kind: pa.DataType, units: int, *, may_hold_values: bool = True) -> ColumnBounds:
    nothing = pa.nulls(units, bound_type(kind))
    return ColumnBounds(nothing, nothing, np.ones(units, np.bool_), np.full(units, may_hold_values))


def _leaves(kind: pa.DataType) -> int:
    if not pa.types.is_nested(kind):
        return 1
    return sum(_leaves(kind.field(number).type) for number in range(kind.num_fields))


def _is_ordered(kind: pa.DataType) -> bool:
    """Whether the statistics of a column are of use."""
    return is_bytes(kind) or any(
        is_kind(kind)
        for is_kind in (
            pa.types.is_boolean,
            pa.types.is_signed_integer,
            pa.types.is_float32,
            pa.types.is_float64,
            pa.types.is_date32,
            pa.types.is_timestamp,
            pa.types.is_time,
            pa.types.is_decimal128,
        )
    )


_Conversion = Callable[[list[Any]], pa.Array]


def _converted(values: list[Any], convert: _Conversion | None, kind: pa.DataType) -> pa.Array:
    """Stored bounds as values of the table's type; nulls where they cannot be."""
    if convert is not None:
        try:
            return convert(values)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            if len(values) > 1:
                return pa.concat_arrays([_converted([value], convert, kind) for value in values])
    return pa.nulls(len(values), bound_type(kind))


def _conversion(leaf: Any, stored: pa.DataType, kind: pa.DataType) -> _Conversion | None:
    """How the stored bounds of a column become bounds of the table's type; None if the order may not be kept.

    Args:
        leaf: the column's description in the file.
        stored: its type in pyarrow.
        kind: its type in the table.
    """
    if pa.types.is_dictionary(stored):
        stored = stored.value_type
    if is_bytes(kind):
        return (lambda values: pa.array(values, pa.binary())) if is_bytes(stored) else None
    if not _keeps_order(stored, kind):
        return None
    if pa.types.is_decimal(stored):
        scale = stored.scale
        return lambda values: pa.array([_decimal(value, scale) for value in values], stored).cast(kind)
    if pa.types.is_date32(stored) or pa.types.is_time(stored) or pa.types.is_timestamp(stored):
        if not pa.types.is_date32(stored) and not _has_unit(leaf, stored.unit):
            return None
        number = pa.int32() if leaf.physical_type == "INT32" else pa.int64()
        return lambda values: pa.array(values, number).cast(stored).cast(kind)
    return lambda values: _cast(pa.array(values, stored), kind)


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    return values if values.type == kind else values.cast(kind)


def _keeps_order(stored: pa.DataType, kind: pa.DataType) -> bool:
    """Whether pyarrow keeps the order of values as it converts a stored type to the table's."""
    if stored == kind:
        return True
    if stored in _WIDER and kind in _WIDER:
        return _WIDER.index(stored) < _WIDER.index(kind)
    if pa.types.is_decimal(stored) and pa.types.is_decimal(kind):
        return stored.scale <= kind.scale
    is_moment = pa.types.is_timestamp(stored) and pa.types.is_timestamp(kind)
    return is_moment or (stored, kind) == (pa.float32(), pa.float64())


def _has_unit(leaf: Any, unit: str) -> bool:
    """Whether numbers of a column are stored in a unit of time."""
    try:
        return json.loads(leaf.logical_type.to_json()).get("timeUnit") == _UNITS.get(unit, "")
    except ValueError:
        return False


def _decimal(value: object, scale: int) -> Decimal | None:
    """A decimal from its stored form: a whole number, or one in big-endian bytes."""
    if value is None:
        return None
    number = int.from_bytes(value, "big", signed=True) if isinstance(value, bytes) else value
    if not isinstance(number, int):
        raise TypeError("no decimal")
    return Decimal(number).scaleb(-scale, _EXACT)
