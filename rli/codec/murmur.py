"""32-bit MurmurHash3, computed on whole arrays of items of one width."""

from __future__ import annotations

from itertools import repeat
from typing import Final

import mmh3
import numpy as np
from numpy.typing import NDArray

_FEW: Final = 2048
"""Up to that many items are hashed one by one: the calls for whole arrays cost as much."""

_WIDEST: Final = 64
"""Bytes of items that are hashed together: a call for each longer one costs no more."""

_C1: Final = np.uint32(0xCC9E2D51)
_C2: Final = np.uint32(0x1B873593)
_M1: Final = np.uint32(0x85EBCA6B)
_M2: Final = np.uint32(0xC2B2AE35)
_ADDED: Final = np.uint32(0xE6546B64)


def murmur3(items: NDArray[np.void], seed: int) -> NDArray[np.uint32]:
    """The hash of each item's bytes (shape (n,), dtype ``V<width>``), as ``mmh3.mmh3_32_uintdigest`` gives it."""
    width = items.dtype.itemsize
    if len(items) <= _FEW or width > _WIDEST:
        return np.fromiter(map(mmh3.mmh3_32_uintdigest, items.tolist(), repeat(seed)), np.uint32, count=len(items))
    whole = width // 4
    matrix = np.ascontiguousarray(items).view(np.uint8).reshape(len(items), width)
    hashes = np.full(len(items), seed, np.uint32)
    for word in range(whole):
        hashes ^= _mixed(np.ascontiguousarray(matrix[:, 4 * word : 4 * word + 4]).view("<u4")[:, 0].astype(np.uint32))
        hashes = _rotated(hashes, 13)
        hashes *= np.uint32(5)
        hashes += _ADDED
    if width % 4:
        tail = np.zeros((len(items), 4), np.uint8)
        tail[:, : width % 4] = matrix[:, 4 * whole :]
        hashes ^= _mixed(tail.view("<u4")[:, 0].astype(np.uint32))
    hashes ^= np.uint32(width)
    hashes ^= hashes >> np.uint32(16)
    hashes *= _M1
    hashes ^= hashes >> np.uint32(13)
    hashes *= _M2
    hashes ^= hashes >> np.uint32(16)
    return hashes


def _mixed(words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    words *= _C1
    words = _rotated(words, 15)
    words *= _C2
    return words


def _rotated(words: NDArray[np.uint32], bits: int) -> NDArray[np.uint32]:
    return (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))
