"""Java's hash codes of many strings, and of lists of strings, at once.

Source: the documentation of ``java.lang.String.hashCode`` (over UTF-16 code units) and ``java.util.List.hashCode``.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_FACTOR: Final = 31
_INVERSE: Final = pow(_FACTOR, -1, 1 << 32)
_STRINGS_AT_ONCE: Final = 2_048
"""So that the working arrays stay in the cache of the processor."""

_KEPT_POWERS: Final = 1 << 17
"""Of a number: more than so many strings have units, unless they are long."""


def string_hashes(strings: pa.Array) -> NDArray[np.uint32]:
    """``String.hashCode`` of each string, modulo 2³²; 0 for a null.

    Args:
        strings: string array, shape (n,).

    Returns:
        Shape (n,).
    """
    parts = [_hashes(strings.slice(start, _STRINGS_AT_ONCE)) for start in range(0, len(strings), _STRINGS_AT_ONCE)]
    return np.concatenate([np.empty(0, np.uint32), *parts])


def list_hashes(lists: pa.ListArray) -> NDArray[np.uint32]:
    """``List.hashCode`` of each list of strings, modulo 2³²; a null string counts as 0.

    Args:
        lists: array of lists of strings, shape (n,), without null lists.

    Returns:
        Shape (n,).
    """
    offsets = lists.offsets.to_numpy()
    lengths = np.diff(offsets)
    hashes = string_hashes(lists.flatten())
    starts = offsets[:-1] - offsets[0] if len(offsets) else offsets
    found = np.ones(len(lists), np.uint32)
    for position in range(lengths.max(initial=0)):
        longer = np.flatnonzero(lengths > position)
        found[longer] = found[longer] * np.uint32(_FACTOR) + hashes[starts[longer] + position]
    return found


def _hashes(strings: pa.Array) -> NDArray[np.uint32]:
    """The sum of unit * 31 ** (units behind it) over each string.

    Strings of one length are rows of a matrix. Else it comes out of one running sum over all strings: a unit's power is counted from the
    end of all strings. Powers of 31 can be divided out again modulo 2³².
    """
    if strings.null_count:
        strings = strings.fill_null("")
    units, ends = _utf16_units(strings)
    lengths = np.diff(ends)
    if (lengths == lengths[0]).all():
        matrix = units.reshape(len(strings), lengths[0]).astype(np.uint32)
        return matrix @ _powers(_FACTOR, lengths[0])[::-1]
    powers = _powers(_INVERSE, len(units) + 1)
    sums = np.zeros(len(units) + 1, np.uint32)
    np.cumsum(units.astype(np.uint32) * powers[:-1], dtype=np.uint32, out=sums[1:])
    raised = _powers(_FACTOR, len(units) + 1)
    # The last unit of a string has the power 0; the empty string has no units, so its power does not matter.
    return (sums[ends[1:]] - sums[ends[:-1]]) * raised[np.maximum(ends[1:] - 1, 0)]


def _powers(base: int, count: int) -> NDArray[np.uint32]:
    """The first powers of a number modulo 2³²: shape (count,), the first one 1."""
    return _kept_powers(base)[:count] if count <= _KEPT_POWERS else _computed_powers(base, count)


@cache
def _kept_powers(base: int) -> NDArray[np.uint32]:
    powers = _computed_powers(base, _KEPT_POWERS)
    powers.flags.writeable = False
    return powers


def _computed_powers(base: int, count: int) -> NDArray[np.uint32]:
    factors = np.full(count, base, np.uint32)
    factors[:1] = 1
    return np.cumprod(factors, dtype=np.uint32)


def _utf16_units(strings: pa.Array) -> tuple[NDArray[np.uint16], NDArray[np.int64]]:
    """The UTF-16 code units of all strings, one behind the other, and where each string begins and the last one ends."""
    _, offset_buffer, data = strings.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32, len(strings) + 1, offset=4 * strings.offset).astype(np.int64)
    start, end = int(offsets[0]), int(offsets[-1])
    content = memoryview(data)[start:end] if data is not None else memoryview(b"")
    octets = np.frombuffer(content, np.uint8)
    offsets = offsets - start
    if octets.max(initial=0) < 0x80:
        return octets.astype(np.uint16), offsets
    units = np.frombuffer(str(content, "utf-8").encode("utf-16-le"), np.uint16)
    # A character of one to three octets is one unit, of four octets two; the other octets of a character begin with 10.
    counts = ((octets & 0xC0) != 0x80).astype(np.int64) + (octets >= 0xF0)
    return units, np.concatenate([[0], np.cumsum(counts)])[offsets]
