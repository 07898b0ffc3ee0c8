"""Values of column statistics in Avro, as ``METADATA_SCHEMA`` writes them.

A commit writes statistics of each column of each file and partition. A library for Avro looks the schema up for each value, which
takes several times as long.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from rli.hudi.hfile.encoding import as_varint
from rli.hudi.metadata.records import Bound, ColumnStatistics, ValueType
from rli.hudi.metadata.schema import METADATA_SCHEMA

_NULL: Final = b"\0"
_VALUE: Final = b"\x02"
"""Branches of a union of null and another type."""

_NAMES: Final = [field["name"] for field in METADATA_SCHEMA["fields"]]
_PLACE: Final = _NAMES.index("ColumnStatsMetadata")
_BEHIND: Final = _NULL * (len(_NAMES) - _PLACE - 1)
_INT_BITS, _LONG_BITS = 32, 64


def encode_statistics(statistics: ColumnStatistics, kind: int) -> bytes | None:
    """The value of a record; None if a bound has a type that this function does not write.

    Args:
        statistics: the record.
        kind: number of its type in the metadata table.

    Raises:
        ValueError: a value does not fit its field.
    """
    bounds = [_bound(bound) for bound in (statistics.minimum, statistics.maximum)]
    if None in bounds:
        return None
    counts = (
        statistics.value_count,
        statistics.null_count,
        statistics.total_size,
        statistics.total_uncompressed_size,
    )
    parts = [
        # Fields before the type are null, but the key, which is empty.
        _NULL * _NAMES.index("type"),
        _number(kind, _INT_BITS),
        _NULL * (_PLACE - _NAMES.index("type") - 1),
        _VALUE,
        _optional(statistics.file_name, _string),
        _optional(statistics.column, _string),
        *bounds,
        *(_optional(count, _long) for count in counts),
        _flag(statistics.is_deleted),
        _flag(statistics.is_tight),
        _optional(statistics.value_type, _value_type),
        _BEHIND,
    ]
    return b"".join(parts)  # type: ignore[arg-type]


def _optional(value: Any, encode: Callable[[Any], bytes]) -> bytes:
    return _NULL if value is None else _VALUE + encode(value)


def _bound(bound: Bound | None) -> bytes | None:
    if bound is None:
        return _NULL
    found = _WRAPPERS.get(bound.wrapper)
    if found is None:
        return None
    branch, encode = found
    return branch + encode(bound.value)


def _number(value: int, bits: int) -> bytes:
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise ValueError(f"a number has more than {bits} bits: {value}")
    return as_varint(value << 1 ^ value >> bits - 1)


def _int(value: int) -> bytes:
    return _number(value, _INT_BITS)


def _long(value: int) -> bytes:
    return _number(value, _LONG_BITS)


def _bytes(value: bytes) -> bytes:
    return _long(len(value)) + value


def _string(value: str) -> bytes:
    return _bytes(value.encode())


def _flag(value: bool) -> bytes:  # noqa: FBT001  (it is the value)
    return b"\1" if value else b"\0"


def _value_type(value: ValueType) -> bytes:
    return _int(value.ordinal) + _optional(value.details, _string)


_OF_KIND: Final[dict[str, Callable[[Any], bytes]]] = {
    "BooleanWrapper": _flag,
    "IntWrapper": _int,
    "LongWrapper": _long,
    "FloatWrapper": struct.Struct("<f").pack,
    "DoubleWrapper": struct.Struct("<d").pack,
    "BytesWrapper": _bytes,
    "StringWrapper": _string,
    "DateWrapper": _int,
    "TimeMicrosWrapper": _long,
    "TimestampMicrosWrapper": _long,
    "LocalDateWrapper": _int,
}
_BOUNDS: Final = next(
    field["type"] for field in METADATA_SCHEMA["fields"][_PLACE]["type"][1]["fields"] if field["name"] == "minValue"
)
_WRAPPERS: Final = {
    name: (_int(number), _OF_KIND[name])
    for number, wrapper in enumerate(_BOUNDS)
    if number and (name := wrapper["name"].rpartition(".")[2]) in _OF_KIND
}
"""Name → its branch in the union, and how its value is written; decimals are left to the library."""
