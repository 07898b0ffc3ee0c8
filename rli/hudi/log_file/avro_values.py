"""Columns of values in Avro's binary encoding: an element is one value's bytes, or a part of them.

A value of several parts is a list of columns, which ``joined`` puts together row by row. An element is null where the
value is null; its parts then take no bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

_DECIMAL_BYTES: Final = 16
_DIGIT_BITS: Final = 7
_WORD_DIGITS: Final = 8
_MOST_DIGITS: Final = 10
_GOES_ON: Final = np.uint64(0x8080808080808080)
"""The bit of each digit that says that another one follows."""

_SPREAD: Final = (
    (np.uint64(0x000000000FFFFFFF), np.uint64(4)),
    (np.uint64(0x00003FFF00003FFF), np.uint64(2)),
    (np.uint64(0x007F007F007F007F), np.uint64(1)),
)
"""Move groups of 28, 14 and 7 bits apart."""

Parts: TypeAlias = "list[pa.Array | pa.Scalar]"


def joined(parts: Sequence[pa.Array | pa.Scalar]) -> pa.BinaryArray:
    """One binary array with the parts of each row one after the other.

    Raises:
        pyarrow.ArrowInvalid: it would have 2 GiB or more.
    """
    return pc.binary_join_element_wise(*parts, pa.scalar(b""), null_handling="replace", null_replacement=b"")


def with_sizes(values: pa.BinaryArray) -> bytes:
    """All values one after the other, each after int32 bytes of it.

    Args:
        values: without nulls.
    """
    sizes = pc.binary_length(values).to_numpy().astype(">i4")
    heads = pa.FixedSizeBinaryArray.from_buffers(pa.binary(4), len(sizes), [None, pa.py_buffer(sizes)])
    return joined([heads.cast(pa.binary()), values]).buffers()[2].to_pybytes()


def numbers(column: pa.Array) -> pa.BinaryArray:
    """Encodings of ``int`` and ``long``: in zigzag form, seven bits in a byte, the lowest first.

    Args:
        column: of integers.
    """
    signed = _values(column.cast(pa.int64()))
    value: NDArray[np.uint64] = ((signed << 1) ^ (signed >> 63)).view(np.uint64)
    bits = int(value.max(initial=0)).bit_length()
    if bits <= _DIGIT_BITS:
        return _binary(value.astype(np.uint8), np.ones(len(value), np.int32), column)
    digits, sizes = _digits(value) if bits <= _WORD_DIGITS * _DIGIT_BITS else _many_digits(value)
    return _binary(digits[np.arange(digits.shape[1]) < sizes[:, None]], sizes, column)


def _digits(value: NDArray[np.uint64]) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    """Digits of numbers of up to 56 bits, in the bytes of a word; and how many there are."""
    for low, shift in _SPREAD:
        value = value & low | (value & ~low) << shift
    sizes = np.ones(len(value), np.int32)
    for place in range(1, _WORD_DIGITS):
        sizes += value >= np.uint64(1 << 8 * place)
    value = value | _GOES_ON & ((np.uint64(1) << (8 * (sizes - 1)).astype(np.uint64)) - np.uint64(1))
    return value.astype("<u8").view(np.uint8).reshape(-1, _WORD_DIGITS), sizes


def _many_digits(value: NDArray[np.uint64]) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    digits = np.empty((len(value), _MOST_DIGITS), np.uint8)
    sizes = np.ones(len(value), np.int32)
    for place in range(_MOST_DIGITS):
        digits[:, place] = value & np.uint64(0x7F)
        value = value >> np.uint64(_DIGIT_BITS)
        goes_on = value != 0
        digits[goes_on, place] |= 0x80
        sizes += goes_on
    return digits, sizes


def strings(column: pa.Array) -> Parts:
    """Encodings of ``string`` and ``bytes``: the number of bytes, and the bytes.

    Args:
        column: of strings or binary values.
    """
    binary = column.cast(pa.binary())
    return [numbers(pc.binary_length(binary)), binary]


def fixed(column: pa.Array) -> pa.BinaryArray:
    """Encodings of ``float`` and ``double``: their bytes, the lowest first.

    Args:
        column: of floating-point numbers.
    """
    values = _values(column)
    return _binary(values, np.full(len(values), values.itemsize, np.int32), column)


def flags(column: pa.Array) -> pa.BinaryArray:
    """Encodings of ``boolean``: a byte.

    Args:
        column: of booleans.
    """
    values = _values(column.cast(pa.uint8()))
    return _binary(values, np.ones(len(values), np.int32), column)


def decimals(column: pa.Array, width: int) -> pa.BinaryArray:
    """Two's complement, the highest byte first, all of one width.

    Args:
        column: of decimals of 128 bits.
        width: bytes, enough for each value.
    """
    content = np.frombuffer(column.buffers()[1], np.uint8).reshape(-1, _DECIMAL_BYTES)
    digits = content[column.offset : column.offset + len(column), width - 1 :: -1]
    return _binary(digits, np.full(len(column), width, np.int32), column)


def _values(column: pa.Array) -> NDArray[Any]:
    """Zeros stand for nulls."""
    return pc.fill_null(column, 0).to_numpy(zero_copy_only=False)


def _binary(content: NDArray[Any], sizes: NDArray[np.int32], column: pa.Array) -> pa.BinaryArray:
    """Binary values of some sizes, null where the column is."""
    offsets = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    encoded = pa.BinaryArray.from_buffers(
        pa.binary(), len(sizes), [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(content))]
    )
    return encoded if not column.null_count else pc.if_else(column.is_valid(), encoded, None)
