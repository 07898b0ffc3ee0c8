"""Which statistics of the metadata table prove something, whoever wrote them.

Hudi takes them from Parquet footers, and footers may lack bounds. It stores then, as read from tables of Hudi 1.2.0:

- for a floating-point column with NaN, and for one of nulls alone, 0.0 as both bounds;
- for strings too long for a footer of its own writer no bounds, and as many nulls as values;
- where only some row groups of a file, or files of a partition, have bounds, those of them.

So bounds count where such a gap would show.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rli.filters.column_bounds import ColumnBounds, bound_type
from rli.hudi.metadata.statistic_values import bound_values

Truths: TypeAlias = NDArray[np.bool_]
Numbers: TypeAlias = NDArray[np.int64]

_ONE_ROW_GROUP: Final = 100_000
"""A file of rli with fewer rows is one row group, unless its records take more than 128 MiB."""

_DATE_FROM: Final = (datetime(1583, 1, 1, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)).days
_MOMENT_FROM: Final = int(datetime(1901, 1, 1, tzinfo=UTC).timestamp())
"""Days and seconds since 1970: Spark moves earlier ones in files whose writer had another calendar."""

_DATE, _DECIMAL, _STRING = 12, 10, 7
_INTEGERS: Final = (3, 4)
_TIMES: Final = (13, 14)
_MOMENTS: Final = (15, 16, 17, 18, 19, 20)
_UNITS: Final = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}

_WRAPPERS: Final[tuple[tuple[Callable[[pa.DataType], bool], tuple[int, ...], tuple[str, ...]], ...]] = (
    (pa.types.is_boolean, (2,), ("BooleanWrapper",)),
    (pa.types.is_integer, _INTEGERS, ("IntWrapper", "LongWrapper")),
    (pa.types.is_float32, (5,), ("FloatWrapper",)),
    (pa.types.is_float64, (5, 6), ("FloatWrapper", "DoubleWrapper")),
    (pa.types.is_string, (_STRING,), ("StringWrapper",)),
    (pa.types.is_decimal, (_DECIMAL,), ("DecimalWrapper",)),
    (pa.types.is_date32, (_DATE,), ("DateWrapper", "LocalDateWrapper")),
    # Statistics of version 1 do not say in which unit a file has its times.
    (pa.types.is_time, _TIMES, ()),
    (pa.types.is_timestamp, _MOMENTS, ()),
)
"""Types of columns; types of stored bounds of version 2, and wrappers of version 1, whose order is that of the column.

Binary columns are not among them: Java compares their bounds as signed bytes."""


def is_trusted(kind: pa.DataType) -> bool:
    """Whether statistics of a column's type may prove anything."""
    return any(fits(kind) for fits, _, _ in _WRAPPERS)


def bounds_of_files(statistics: pa.RecordBatch, kind: pa.DataType) -> ColumnBounds:
    """What statistics prove of files.

    Args:
        statistics: as ``statistics_columns`` gives them, a row for each file.
        kind: the type of the column in the table.
    """
    is_counted, nulls, rows = _counts(statistics)
    is_gapless = is_counted & (nulls == 0) & (rows < _ONE_ROW_GROUP) if pa.types.is_string(kind) else is_counted
    return _bounds(statistics, kind, is_gapless, ~is_counted | (nulls != 0))


def bounds_of_partitions(statistics: pa.RecordBatch, of_all: pa.RecordBatch, kind: pa.DataType) -> ColumnBounds:
    """What statistics prove of partitions.

    Args:
        statistics: of the column, as ``statistics_columns`` gives them, a row for each partition.
        of_all: of a column without nulls that each file has statistics of: if the column has fewer values, its statistics
            lack files of the partition.
        kind: the type of the column in the table.
    """
    is_counted, nulls, rows = _counts(statistics)
    is_known = of_all["valueCount"].is_valid().to_numpy(zero_copy_only=False)
    is_whole = is_counted & (nulls == 0) & is_known & (rows == _numbers(of_all["valueCount"]))
    # A file whose footer has no bounds of the strings may be among them.
    has_ends = np.zeros(len(rows), np.bool_) if pa.types.is_string(kind) else is_whole
    return _bounds(statistics, kind, has_ends, ~is_whole)


def stored_type(kind: pa.DataType) -> pa.DataType:
    """The type in which an index on an expression stores bounds of a type: version 1 does not tell the unit of a time."""
    if pa.types.is_timestamp(kind) or pa.types.is_time64(kind):
        return pa.int64()
    return pa.int32() if pa.types.is_date32(kind) or pa.types.is_time32(kind) else kind


def bounds_of_values(statistics: pa.RecordBatch, kind: pa.DataType, *, trusts_all: bool) -> ColumnBounds:
    """What an index on an expression proves of files.

    rli writes as many uncompressed bytes as bytes; Hudi twice as many, and its number of values is without nulls.

    Args:
        statistics: as ``statistics_columns`` gives them, a row for each file.
        kind: the type of the expression.
        trusts_all: whether what Hudi has written counts, too.
    """
    rows, nulls, sizes = (statistics[name] for name in ("valueCount", "nullCount", "totalSize"))
    is_ours = pc.fill_null(pc.equal(sizes, statistics["totalUncompressedSize"]), False).to_numpy(zero_copy_only=False)
    is_known = pc.and_(rows.is_valid(), nulls.is_valid()).to_numpy(zero_copy_only=False)
    is_counted = is_known & (is_ours | trusts_all)
    stored = stored_type(kind)
    least, greatest = (_typed(statistics, name, stored, is_counted) for name in ("minValue", "maxValue"))
    # One bound alone proves nothing: rli could not read the other.
    is_proven = pc.and_(least.is_valid(), greatest.is_valid())
    low, high = (_as_type(pc.if_else(is_proven, end, None), kind).cast(bound_type(kind)) for end in (least, greatest))
    has_no_values = is_counted & is_ours & (_numbers(rows) == _numbers(nulls))
    return ColumnBounds(low, high, ~is_counted | (_numbers(nulls) != 0), ~has_no_values)


def _as_type(bounds: pa.Array, kind: pa.DataType) -> pa.Array:
    return bounds if bounds.type == kind else bounds.view(kind)


def _counts(statistics: pa.RecordBatch) -> tuple[Truths, Numbers, Numbers]:
    """Whether the file's footer had statistics of the column; the number of nulls; the number of values, nulls included.

    Hudi writes a column without statistics as nulls alone.
    """
    rows, nulls = statistics["valueCount"], statistics["nullCount"]
    is_known = pc.and_(rows.is_valid(), nulls.is_valid()).to_numpy(zero_copy_only=False)
    values, empty = _numbers(rows), _numbers(nulls)
    return is_known & (empty >= 0) & (empty < values), empty, values


def _numbers(counts: pa.Array) -> Numbers:
    return pc.fill_null(counts, 0).to_numpy()


def _bounds(statistics: pa.RecordBatch, kind: pa.DataType, has_ends: Truths, may_hold_null: Truths) -> ColumnBounds:
    least, greatest = (_typed(statistics, name, kind, has_ends) for name in ("minValue", "maxValue"))
    is_proven = pc.and_(least.is_valid(), greatest.is_valid())
    if pa.types.is_floating(kind):
        # The zeros of a column with NaN would not show.
        zero = pa.scalar(0, kind)
        beside_zero = pc.or_(pc.greater(least, zero), pc.less(greatest, zero))
        is_proven = pc.and_(is_proven, pc.fill_null(beside_zero, False))
    low, high = (
        pc.if_else(pc.and_(is_proven, _are_of_our_calendar(end)), end, None).cast(bound_type(kind))
        for end in (least, greatest)
    )
    return ColumnBounds(low, high, may_hold_null, np.ones(len(may_hold_null), np.bool_))


def _typed(statistics: pa.RecordBatch, name: str, kind: pa.DataType, has_ends: Truths) -> pa.Array:
    """Bounds in the type of a column; null unless the file has the column in a type whose order is the same."""
    ordinals, wrappers = next((found[1:] for found in _WRAPPERS if found[0](kind)), ((), ()))
    value_types, bounds = statistics["valueType"], statistics[name]
    is_alike = pc.is_in(pc.struct_field(value_types, "typeOrdinal"), value_set=pa.array(ordinals, pa.int32()))
    for wrapper in wrappers:
        is_alike = pc.or_(is_alike, pc.and_(value_types.is_null(), pc.struct_field(bounds, wrapper).is_valid()))
    return bound_values(bounds, value_types, pc.and_(is_alike, pa.array(has_ends)), kind)


def _are_of_our_calendar(bounds: pa.Array) -> pa.Array:
    kind = bounds.type
    if pa.types.is_date32(kind):
        return pc.greater_equal(bounds.view(pa.int32()), pa.scalar(_DATE_FROM, pa.int32()))
    if pa.types.is_timestamp(kind):
        return pc.greater_equal(bounds.view(pa.int64()), pa.scalar(_MOMENT_FROM * _UNITS[kind.unit], pa.int64()))
    return pa.repeat(True, len(bounds))
