"""The 32-bit xxHash of many strings at once.

Source: the specification of the algorithm, github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md; the seed is 0.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_FIRST, _SECOND, _THIRD, _FOURTH, _FIFTH = (
    np.uint32(prime) for prime in (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1)
)
_STARTS: Final = np.array([0x24234428, 0x85EBCA77, 0, 0x61C8864F], np.uint32)
"""Of the four lanes."""

_STRIPE: Final = 16
_WORD: Final = 4
_OCTETS_AT_ONCE: Final = 4 * 1024 * 1024
"""So that the working arrays stay small."""


def xx_hashes(strings: pa.Array) -> NDArray[np.uint32]:
    """The hash of the UTF-8 form of each string.

    Strings of one length are hashed together.

    Args:
        strings: string array, shape (n,), without nulls.

    Returns:
        Shape (n,).
    """
    _, offset_buffer, data = strings.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32, len(strings) + 1, offset=4 * strings.offset).astype(np.int64)
    octets = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    lengths = np.diff(offsets)
    order = np.argsort(lengths, kind="stable")
    found = np.empty(len(strings), np.uint32)
    values, starts = np.unique(lengths[order], return_index=True)
    bounds = pairwise([*starts.tolist(), len(order)])
    for length, rows in zip(values.tolist(), (order[slice(*bound)] for bound in bounds), strict=True):
        step = max(1, _OCTETS_AT_ONCE // max(length, 1))
        for start in range(0, len(rows), step):
            some = rows[start : start + step]
            found[some] = _hashes(octets[offsets[some][:, None] + np.arange(length)])
    return found


def _hashes(rows: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """The hash of each row of octets: shape (n, length) → (n,)."""
    count, length = rows.shape
    striped, worded = length - length % _STRIPE, length - length % _WORD
    if striped:
        lanes = np.tile(_STARTS, (count, 1))
        for start in range(0, striped, _STRIPE):
            lanes = _rotated(lanes + _words(rows[:, start : start + _STRIPE]) * _SECOND, 13) * _FIRST
        mixed = sum(_rotated(lanes[:, lane], bits) for lane, bits in enumerate((1, 7, 12, 18)))
        hashes = np.asarray(mixed, np.uint32)
    else:
        hashes = np.full(count, _FIFTH, np.uint32)
    hashes = hashes + np.uint32(length)
    for word in _words(rows[:, striped:worded]).T:
        hashes = _rotated(hashes + word * _THIRD, 17) * _FOURTH
    for octet in rows[:, worded:].T:
        hashes = _rotated(hashes + octet.astype(np.uint32) * _FIFTH, 11) * _FIRST
    hashes = (hashes ^ (hashes >> np.uint32(15))) * _SECOND
    hashes = (hashes ^ (hashes >> np.uint32(13))) * _THIRD
    return hashes ^ (hashes >> np.uint32(16))


def _words(rows: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Four octets each as one number: shape (n, 4 m) → (n, m)."""
    return np.ascontiguousarray(rows).view("<u4")


def _rotated(numbers: NDArray[np.uint32], bits: int) -> NDArray[np.uint32]:
    return (numbers << np.uint32(bits)) | (numbers >> np.uint32(32 - bits))
