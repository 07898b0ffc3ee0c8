"""xxHash: of 32 bits for many strings at once, of 64 bits for one string.

Source: the specification of the algorithm, github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md. The seed of 32-bit
hashes is 0.
"""

from __future__ import annotations

import struct
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

_FIRST_LONG: Final = 0x9E3779B185EBCA87
_SECOND_LONG: Final = 0xC2B2AE3D27D4EB4F
_THIRD_LONG: Final = 0x165667B19E3779F9
_FOURTH_LONG: Final = 0x85EBCA77C2B2AE63
_FIFTH_LONG: Final = 0x27D4EB2F165667C5
_LONG_MASK: Final = (1 << 64) - 1
_LONG_STRIPE: Final = struct.Struct("<4Q")
_LONG: Final = struct.Struct("<Q")
_INT: Final = struct.Struct("<I")

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


def long_xx_hash(data: bytes, seed: int) -> int:
    """The 64-bit hash of a few octets: from 0 to 2⁶⁴ - 1.

    Args:
        data: the octets; plain Python hashes some hundred thousand of them in a second.
        seed: from 0 to 2⁶⁴ - 1.

    Example:
        >>> hex(long_xx_hash(b"", 0))
        '0xef46db3751d8e999'
    """
    striped = len(data) - len(data) % _LONG_STRIPE.size
    value = (_long_lanes(data[:striped], seed) if striped else seed + _FIFTH_LONG) + len(data) & _LONG_MASK
    position = striped
    while position + _LONG.size <= len(data):
        value ^= _long_round(0, *_LONG.unpack_from(data, position))
        value = _long_rotated(value, 27) * _FIRST_LONG + _FOURTH_LONG & _LONG_MASK
        position += _LONG.size
    if position + _INT.size <= len(data):
        value ^= _INT.unpack_from(data, position)[0] * _FIRST_LONG & _LONG_MASK
        value = _long_rotated(value, 23) * _SECOND_LONG + _THIRD_LONG & _LONG_MASK
        position += _INT.size
    for octet in data[position:]:
        value = _long_rotated(value ^ (octet * _FIFTH_LONG & _LONG_MASK), 11) * _FIRST_LONG & _LONG_MASK
    value = (value ^ value >> 33) * _SECOND_LONG & _LONG_MASK
    value = (value ^ value >> 29) * _THIRD_LONG & _LONG_MASK
    return value ^ value >> 32


def _long_lanes(stripes: bytes, seed: int) -> int:
    """The four lanes of whole stripes, as one number."""
    starts = (seed + _FIRST_LONG + _SECOND_LONG, seed + _SECOND_LONG, seed, seed - _FIRST_LONG)
    lanes = [start & _LONG_MASK for start in starts]
    for words in _LONG_STRIPE.iter_unpack(stripes):
        lanes = [_long_round(lane, word) for lane, word in zip(lanes, words, strict=True)]
    value = sum(_long_rotated(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & _LONG_MASK
    for lane in lanes:
        value = (value ^ _long_round(0, lane)) * _FIRST_LONG + _FOURTH_LONG & _LONG_MASK
    return value


def _long_round(lane: int, word: int) -> int:
    return _long_rotated(lane + word * _SECOND_LONG & _LONG_MASK, 31) * _FIRST_LONG & _LONG_MASK


def _long_rotated(number: int, bits: int) -> int:
    return (number << bits | number >> 64 - bits) & _LONG_MASK
