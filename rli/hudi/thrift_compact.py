"""Thrift's compact protocol, as far as Parquet's footers need it: structs whose fields are identified by their numbers.

Source of the format: https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md. pyarrow reads
footers, but does not tell where page indexes are, and writes no footer for pages that are there already.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias

_TRUE: Final = 1
_FALSE: Final = 2
_BYTE: Final = 3
I32: Final = 5
I64: Final = 6
_DOUBLE: Final = 7
BINARY: Final = 8
LIST: Final = 9
_SET: Final = 10
STRUCT: Final = 12
"""Types of fields and elements."""

_BITS: Final = {4: 16, I32: 32, I64: 64}
"""Of numbers."""

_DOUBLE_BYTES: Final = 8
_LONG_LIST: Final = 15
"""Length in the head of a list whose length follows."""

_MOST_BITS: Final = 70
"""Bits in the ten bytes that a number of 64 bits takes at most, seven in each."""

_MOST_NESTED: Final = 64


class Elements(NamedTuple):
    """A list.

    Attributes:
        kind: type of the elements.
        values: the elements.
    """

    kind: int
    values: Sequence[Any]


Struct: TypeAlias = dict[int, tuple[int, Any]]
"""The number of each field → its type and its value: an integer, bytes, a truth value, ``Elements`` or a struct."""


def read_struct(data: bytes, start: int = 0) -> tuple[Struct, int]:
    """Read a struct.

    Args:
        data: holds the struct.
        start: of the struct in ``data``.

    Returns:
        The struct, and where it ends in ``data``.

    Raises:
        ValueError: no struct begins there, or it is cut off.
    """
    try:
        return _struct(data, start, 0)
    except IndexError as error:
        raise ValueError("a struct of Thrift is cut off") from error


def value_of(fields: Struct, number: int, kind: int) -> Any:
    """The value of a field that has to be there.

    Raises:
        ValueError: it is not, or has another type.
    """
    found, value = fields.get(number, (None, None))
    if found != kind:
        raise ValueError(f"a struct of Thrift lacks a field: number={number} wanted={kind} found={found}")
    return value


def structs_of(fields: Struct, number: int) -> Sequence[Struct]:
    """The structs of a list that has to be there; raises ``ValueError`` as ``value_of`` does."""
    found: Elements = value_of(fields, number, LIST)
    if found.kind != STRUCT:
        raise ValueError(f"a list of Thrift has no structs: number={number} found={found.kind}")
    return found.values


def write_struct(fields: Struct) -> bytes:
    """The bytes of a struct."""
    out = bytearray()
    _write_struct(out, fields)
    return bytes(out)


def _struct(data: bytes, at: int, nested: int) -> tuple[Struct, int]:
    if nested > _MOST_NESTED:
        raise ValueError("structs of Thrift are nested too deeply")
    fields, number = Struct(), 0
    while (head := data[at]) != 0:
        at += 1
        kind, delta = head & 15, head >> 4
        if delta:
            number += delta
        else:
            number, at = _zigzag(data, at)
        if kind in (_TRUE, _FALSE):
            fields[number] = kind, kind == _TRUE
        else:
            value, at = _value(data, at, kind, nested)
            fields[number] = kind, value
    return fields, at + 1


def _value(data: bytes, at: int, kind: int, nested: int) -> tuple[Any, int]:
    if kind in _BITS:
        number, at = _zigzag(data, at)
        if number >> (_BITS[kind] - 1) not in (0, -1):
            raise ValueError("a number of Thrift is too large")
        return number, at
    if kind == STRUCT:
        return _struct(data, at, nested + 1)
    if kind == BINARY:
        length, at = _varint(data, at)
        return _bytes(data, at, length)
    if kind in (LIST, _SET):
        return _elements(data, at, nested)
    if kind in (_BYTE, _TRUE, _FALSE):
        return data[at], at + 1
    if kind == _DOUBLE:
        return _bytes(data, at, _DOUBLE_BYTES)
    raise ValueError(f"a type of Thrift that no footer has: type={kind}")


def _elements(data: bytes, at: int, nested: int) -> tuple[Elements, int]:
    if nested > _MOST_NESTED:
        raise ValueError("lists of Thrift are nested too deeply")
    kind, length = data[at] & 15, data[at] >> 4
    at += 1
    if length == _LONG_LIST:
        length, at = _varint(data, at)
    values = list[Any]()
    for _ in range(length):
        value, at = _value(data, at, kind, nested + 1)
        values.append(value)
    return Elements(kind, values), at


def _bytes(data: bytes, at: int, length: int) -> tuple[bytes, int]:
    if at + length > len(data):
        raise ValueError("a string of Thrift is cut off")
    return data[at : at + length], at + length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    number, bits = byte & 0x7F, 7
    while byte >= 0x80:
        at += 1
        byte = data[at]
        number |= (byte & 0x7F) << bits
        bits += 7
        if bits > _MOST_BITS:
            raise ValueError("a number of Thrift is too large")
    return number, at + 1


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    number, at = _varint(data, at)
    return number >> 1 ^ -(number & 1), at


def _write_struct(out: bytearray, fields: Struct) -> None:
    last = 0
    for number, (kind, value) in sorted(fields.items()):
        delta = number - last
        if 0 < delta <= 15:
            out.append(delta << 4 | kind)
        else:
            out.append(kind)
            _write_zigzag(out, number)
        last = number
        if kind not in (_TRUE, _FALSE):
            _write_value(out, kind, value)
    out.append(0)


def _write_value(out: bytearray, kind: int, value: Any) -> None:
    if kind in _BITS:
        _write_zigzag(out, value)
    elif kind == STRUCT:
        _write_struct(out, value)
    elif kind == BINARY:
        _write_varint(out, len(value))
        out += value
    elif kind in (LIST, _SET):
        length = len(value.values)
        out.append(min(length, _LONG_LIST) << 4 | value.kind)
        if length >= _LONG_LIST:
            _write_varint(out, length)
        for element in value.values:
            _write_value(out, value.kind, element)
    elif kind == _DOUBLE:
        out += value
    else:
        out.append(value)


def _write_varint(out: bytearray, number: int) -> None:
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def _write_zigzag(out: bytearray, number: int) -> None:
    _write_varint(out, (number << 1 ^ number >> 63) & 0xFFFF_FFFF_FFFF_FFFF)
