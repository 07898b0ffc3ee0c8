"""Values of the records that commits write, in Avro, as ``METADATA_SCHEMA`` writes them.

A commit writes statistics of each column of each file and partition, the changed lists of files, and where its records are. A library for
Avro looks the schema up for each value, which takes several times as long.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from rli.hudi.hfile.encoding import as_varint
from rli.hudi.metadata.record_locations import location_fields
from rli.hudi.metadata.records import Bound, ColumnStatistics, ListedFile, RecordLocation, ValueType
from rli.hudi.metadata.schema import METADATA_SCHEMA

_NULL: Final = b"\0"
_VALUE: Final = b"\x02"
"""Branches of a union of null and another type."""

_END_OF_MAP: Final = b"\0"
_NAMES: Final = [field["name"] for field in METADATA_SCHEMA["fields"]]
_INT_BITS, _LONG_BITS = 32, 64
_LEAST_OF_TWO_BYTES: Final = 64
_MOST_REMEMBERED: Final = 4_096
"""Names of files, columns and partitions that stand in many records of a commit."""


def encode_statistics(statistics: ColumnStatistics, kind: int) -> bytes | None:
    """The value of statistics; None if a bound has a type that this function does not write.

    Args:
        statistics: the record.
        kind: number of its type in the metadata table.

    Raises:
        ValueError: a value does not fit its field.
    """
    minimum, maximum = _bound(statistics.minimum), _bound(statistics.maximum)
    if minimum is None or maximum is None:
        return None
    return b"".join([
        _before("ColumnStatsMetadata", kind),
        _name(statistics.file_name),
        _name(statistics.column),
        minimum,
        maximum,
        _count(statistics.value_count),
        _count(statistics.null_count),
        _count(statistics.total_size),
        _count(statistics.total_uncompressed_size),
        _flag(statistics.is_deleted),
        _flag(statistics.is_tight),
        _value_type(statistics.value_type),
        _behind("ColumnStatsMetadata"),
    ])  # fmt: skip


def encode_files(files: Mapping[str, ListedFile], kind: int) -> bytes:
    """The value of a list of files, or of the list of partitions; arguments and errors as for ``encode_statistics``."""
    entries = b"".join(_string(name) + _long(file.size) + _flag(file.is_deleted) for name, file in files.items())
    # A map is rows of entries with their number in front; none are left out.
    content = (_long(len(files)) + entries if files else b"") + _END_OF_MAP
    return _before("filesystemMetadata", kind) + content + _behind("filesystemMetadata")


def encode_location(location: RecordLocation, kind: int) -> bytes:
    """The value of an entry of the record index; arguments and errors as for ``encode_statistics``."""
    fields = location_fields(location)
    return b"".join([
        _before("recordIndexMetadata", kind),
        _name(fields["partitionName"]),
        _count(fields["fileIdHighBits"]),
        _count(fields["fileIdLowBits"]),
        _VALUE + _int(fields["fileIndex"]),
        _name(fields["fileId"]),
        _count(fields["instantTime"]),
        _int(fields["fileIdEncoding"]),
        _count(fields["position"]),
        _behind("recordIndexMetadata"),
    ])  # fmt: skip


@lru_cache(_MOST_REMEMBERED)
def _before(name: str, kind: int) -> bytes:
    """A record up to the content of one of its fields: the others are null, but the type and the key, which is empty."""
    place, type_place = _NAMES.index(name), _NAMES.index("type")
    return _NULL * type_place + _int(kind) + _NULL * (place - type_place - 1) + _VALUE


@lru_cache(_MOST_REMEMBERED)
def _behind(name: str) -> bytes:
    """The fields behind one of a record."""
    return _NULL * (len(_NAMES) - _NAMES.index(name) - 1)


@lru_cache(_MOST_REMEMBERED)
def _name(value: str | None) -> bytes:
    return _NULL if value is None else _VALUE + _string(value)


def _count(value: int | None) -> bytes:
    return _NULL if value is None else _VALUE + _long(value)


@lru_cache(_MOST_REMEMBERED)
def _value_type(value: ValueType | None) -> bytes:
    return _NULL if value is None else _VALUE + _int(value.ordinal) + _name(value.details)


def _bound(bound: Bound | None) -> bytes | None:
    if bound is None:
        return _NULL
    found = _WRAPPERS.get(bound.wrapper)
    if found is None:
        return None
    branch, encode = found
    return branch + encode(bound.value)


def _number(value: int, bits: int) -> bytes:
    if -_LEAST_OF_TWO_BYTES <= value < _LEAST_OF_TWO_BYTES:
        return _ONE_BYTE[value]
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise ValueError(f"a number has more than {bits} bits: {value}")
    return as_varint(value << 1 ^ value >> bits - 1)


_ONE_BYTE: Final = {
    value: as_varint(value << 1 ^ value >> _LONG_BITS - 1) for value in range(-_LEAST_OF_TWO_BYTES, _LEAST_OF_TWO_BYTES)
}


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
_STATISTICS: Final = METADATA_SCHEMA["fields"][_NAMES.index("ColumnStatsMetadata")]["type"][1]
_BOUNDS: Final = next(field["type"] for field in _STATISTICS["fields"] if field["name"] == "minValue")
_WRAPPERS: Final = {
    name: (_int(number), _OF_KIND[name])
    for number, wrapper in enumerate(_BOUNDS)
    if number and (name := wrapper["name"].rpartition(".")[2]) in _OF_KIND
}
"""Name → its branch in the union, and how its value is written; decimals are left to the library."""
