"""What two records of one key mean together, as Hudi merges them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from rli.hudi.metadata.records import Bound, ColumnStatistics, FileList, MetadataRecord, ValueType


def merged(older: MetadataRecord | None, newer: MetadataRecord) -> MetadataRecord:
    """The record that stands for two.

    Lists of files are united: a removed file takes an older entry away and stays itself if there is none. Statistics
    widen unless the newer ones are tight or deleted; their counts add up, so a file's statistics must not be written
    twice. Two statistics without a common order are unknown. Of other records the newer one stands.

    Args:
        older: None if the key had no record, or was deleted.
        newer: of the same key.
    """
    match older, newer:
        case FileList(), FileList():
            return _united(older, newer)
        case ColumnStatistics(), ColumnStatistics():
            return merged_statistics(older, newer)
        case _:
            return newer


def _united(older: FileList, newer: FileList) -> FileList:
    files = dict(older.files)
    for name, file in newer.files.items():
        known = files.get(name)
        if file.is_deleted and known is not None and not known.is_deleted:
            del files[name]
        elif known is None or known.is_deleted or file.is_deleted:
            files[name] = file
        else:
            # A log file that grew; on object stores a stale size may come later.
            files[name] = replace(file, size=max(file.size, known.size))
    return FileList(files, newer.lists_partitions)


def merged_statistics(older: ColumnStatistics, newer: ColumnStatistics) -> ColumnStatistics:
    """As ``merged``: the statistics that stand for two."""
    if newer.is_deleted or older.is_deleted or newer.is_tight:
        return newer
    if older.is_unknown or newer.is_unknown or older.value_type != newer.value_type:
        return _unknown(newer)
    try:
        minimum = _outer(older.minimum, newer.minimum, newer.value_type, min)
        maximum = _outer(older.maximum, newer.maximum, newer.value_type, max)
    except ValueError:
        return _unknown(newer)
    return replace(
        newer,
        minimum=minimum,
        maximum=maximum,
        value_count=_sum(older.value_count, newer.value_count),
        null_count=_sum(older.null_count, newer.null_count),
        total_size=_sum(older.total_size, newer.total_size),
        total_uncompressed_size=_sum(older.total_uncompressed_size, newer.total_uncompressed_size),
    )


def _unknown(statistics: ColumnStatistics) -> ColumnStatistics:
    return replace(statistics, minimum=None, maximum=None, value_count=None, null_count=None)


def _outer(
    older: Bound | None, newer: Bound | None, value_type: ValueType | None, choose: Callable[..., Bound]
) -> Bound | None:
    """The outer one of two bounds; ``ValueError`` if their order is not known."""
    if older is None or newer is None:
        return newer if older is None else older
    order = _ORDERS.get(older.wrapper)
    if order is None or order != _ORDERS.get(newer.wrapper) or not (_is_ordered(older) and _is_ordered(newer)):
        raise ValueError(f"bounds without a common order: {older.wrapper}, {newer.wrapper}")
    if value_type is not None and value_type.is_decimal:
        return choose(newer, older, key=lambda bound: int.from_bytes(bound.value, "big", signed=True))
    return choose(newer, older, key=lambda bound: bound.value)


def _is_ordered(bound: Bound) -> bool:
    return not (isinstance(bound.value, float) and math.isnan(bound.value))


def _sum(older: int | None, newer: int | None) -> int | None:
    return None if older is None or newer is None else older + newer


_ORDERS: Final = {
    **dict.fromkeys(("IntWrapper", "LongWrapper", "DateWrapper", "LocalDateWrapper"), "integers"),
    **dict.fromkeys(("FloatWrapper", "DoubleWrapper"), "fractions"),
    "TimeMicrosWrapper": "times",
    "TimestampMicrosWrapper": "moments",
    "BooleanWrapper": "flags",
    "StringWrapper": "strings",
    "BytesWrapper": "bytes",
    "DecimalWrapper": "decimals",
}
"""Wrapper → the order of its values. Releases of Hudi wrap one column's values differently."""
