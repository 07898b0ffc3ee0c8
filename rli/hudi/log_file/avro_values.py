"""Columns of values in Avro's binary encoding: an element is one value's bytes, or a part of them.

A value of several parts is a list of columns, which ``joined`` puts together row by row. An element is null where the
value is null; its parts then take no bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Parts: TypeAlias = "list[pa.Array | pa.Scalar]"


def joined(parts: Sequence[pa.Array | pa.Scalar]) -> pa.BinaryArray:
    """One binary array with the parts of each row one after the other.

    Raises:
        pyarrow.ArrowInvalid: it would have 2 GiB or more.
    """
    return pc.binary_join_element_wise(*parts, pa.scalar(b""), null_handling="replace", null_replacement=b"")


def numbers(column: pa.Array) -> pa.BinaryArray:
    """Encodings of ``int`` and ``long``: in zigzag form, seven bits in a byte, the lowest first.

    Args:
        column: of integers.
    """
    signed = _values(column.cast(pa.int64()))
    rest: NDArray[np.uint64] = ((signed << 1) ^ (signed >> 63)).view(np.uint64)
    width = max(1, -(-int(rest.max(initial=0)).bit_length() // 7))
    digits = np.empty((len(rest), width), np.uint8)
    sizes = np.ones(len(rest), np.int32)
    for place in range(width):
        digits[:, place] = rest & 0x7F
        rest = rest >> np.uint64(7)
        goes_on = rest != 0
        digits[goes_on, place] |= 0x80
        sizes += goes_on
    if width == 1:
        return _binary(np.ascontiguousarray(digits), sizes, column)
    return _binary(digits[np.arange(width) < sizes[:, None]], sizes, column)


def texts(column: pa.Array) -> Parts:
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
