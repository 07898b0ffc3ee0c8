"""Which statistics of the metadata table prove something, whoever wrote them.

Hudi takes them from Parquet footers, and footers may lack bounds. It stores then, as read from tables of Hudi 1.2.0:

- for a floating-point column with NaN, and for one of nulls alone, 0.0 as both bounds;
- for strings too long for a footer of its own writer no bounds, and as many nulls as values;
- where only some row groups of a file, or files of a partition, have bounds, those of them.

So bounds count where such a gap would show.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import pyarrow as pa

from rli.hudi.metadata.records import Bound, ColumnStatistics, ValueType
from rli.hudi.metadata.statistic_values import bound_value

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


@dataclass(frozen=True, slots=True)
class Proven:
    """What is proven of the values of a column in a file or partition.

    Attributes:
        least: no value is less; None if that is not known.
        greatest: no value is greater; None likewise.
        may_hold_null: False if there is no null.
    """

    least: pa.Scalar | None = None
    greatest: pa.Scalar | None = None
    may_hold_null: bool = True


NOTHING: Final = Proven()


def is_trusted(kind: pa.DataType) -> bool:
    """Whether statistics of a column's type may prove anything."""
    return any(fits(kind) for fits, _, _ in _WRAPPERS)


def proven_of_file(statistics: ColumnStatistics, kind: pa.DataType) -> Proven:
    """What statistics prove of a file; ``kind`` is the type of the column in the table."""
    if not _is_counted(statistics):
        return NOTHING
    has_nulls = statistics.null_count != 0
    rows = statistics.value_count or 0
    is_gapless = not pa.types.is_string(kind) or (not has_nulls and rows < _ONE_ROW_GROUP)
    return Proven(*_bounds(statistics, kind) if is_gapless else (None, None), may_hold_null=has_nulls)


def proven_of_partition(statistics: ColumnStatistics | None, rows: int | None, kind: pa.DataType) -> Proven:
    """What statistics prove of a partition.

    Args:
        statistics: of the column.
        rows: the number of values of a column that each file has statistics of: with fewer, files of the partition
            are missing from the statistics.
        kind: the type of the column in the table.
    """
    if statistics is None or not _is_counted(statistics) or statistics.value_count != rows or statistics.null_count:
        return NOTHING
    # A file whose footer has no bounds of the strings may be among them.
    ends = (None, None) if pa.types.is_string(kind) else _bounds(statistics, kind)
    return Proven(*ends, may_hold_null=False)


def _is_counted(statistics: ColumnStatistics) -> bool:
    """Whether the statistics are those of a footer that had some: a column without any counts as nulls alone."""
    values, nulls = statistics.value_count, statistics.null_count
    return values is not None and nulls is not None and 0 <= nulls < values


def _bounds(statistics: ColumnStatistics, kind: pa.DataType) -> tuple[pa.Scalar | None, pa.Scalar | None]:
    ends = [_typed(end, statistics.value_type, kind) for end in (statistics.minimum, statistics.maximum)]
    least, greatest = ends
    if least is None or greatest is None:
        return None, None
    if pa.types.is_floating(kind) and least.as_py() <= 0 <= greatest.as_py():
        # The zeros of a column with NaN would not show.
        return None, None
    return (least if _is_of_our_calendar(least) else None), (greatest if _is_of_our_calendar(greatest) else None)


def _typed(bound: Bound | None, value_type: ValueType | None, kind: pa.DataType) -> pa.Scalar | None:
    """A bound in the type of a column; None unless the file has the column in a type whose order is the same."""
    if bound is None:
        return None
    for fits, ordinals, wrappers in _WRAPPERS:
        if fits(kind):
            is_alike = bound.wrapper in wrappers if value_type is None else value_type.ordinal in ordinals
            return bound_value(bound, value_type, kind) if is_alike else None
    return None


def _is_of_our_calendar(bound: pa.Scalar) -> bool:
    kind = bound.type
    if pa.types.is_date32(kind):
        return bool(bound.value >= _DATE_FROM)
    return not pa.types.is_timestamp(kind) or bool(bound.value >= _MOMENT_FROM * _UNITS[kind.unit])
