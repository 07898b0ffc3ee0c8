"""Batches of encoded keys, the form in which record keys travel between the index and a store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

_LEADING_BITS: Final = np.uint64(48)
"""Of a key, beside the 16 of its shard."""


@dataclass(frozen=True, slots=True)
class EncodedKeys:
    """Encoded keys of one width, each with its shard.

    A batch of record keys becomes one ``EncodedKeys`` per width that occurs in it, so that a store works on
    arrays of fixed-width items and never has to frame a key.

    Attributes:
        keys: shape (n,), dtype ``V<width>``: the encoded keys. Compared as unsigned bytes.
        shards: shape (n,), the shard of each key.

    >>> keys = EncodedKeys(np.array([b"k1", b"k2"], dtype="V2"), np.array([0, 5], dtype=np.uint16))
    >>> keys.width, keys.to_bytes(), keys.take(np.array([1])).shards.tolist()
    (2, [b'k1', b'k2'], [5])
    """

    keys: NDArray[np.void]
    shards: NDArray[np.uint16]

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def width(self) -> int:
        """Bytes of each key; at least 1."""
        return self.keys.dtype.itemsize

    def take(self, positions: NDArray[np.integer] | NDArray[np.bool_] | slice) -> EncodedKeys:
        """The keys at the positions (or where the mask is true), in that order; those of a slice are not copied."""
        return EncodedKeys(self.keys[positions], self.shards[positions])

    def to_bytes(self) -> list[bytes]:
        """Each key as a ``bytes`` object."""
        return self.keys.tolist()

    def sort_order(self) -> NDArray[np.intp]:
        """Positions that order the keys by shard, then by unsigned bytes; equal ones stay in their order."""
        words = as_words(self.keys, ">u8")
        # One number of shard and first bytes tells most keys apart, and is sorted several times as fast as columns are.
        leading = (self.shards.astype(np.uint64) << _LEADING_BITS) | (words[:, 0] >> (np.uint64(64) - _LEADING_BITS))
        order = np.argsort(leading)
        ranked = leading[order]
        equal_to_next = ranked[1:] == ranked[:-1]
        tied = np.zeros(len(order), dtype=np.bool_)
        tied[1:] |= equal_to_next
        tied[:-1] |= equal_to_next
        if tied.any():
            positions = np.sort(order[tied])
            columns: list[NDArray[np.generic]] = [
                words[positions, column] for column in reversed(range(words.shape[1]))
            ]
            order[tied] = positions[np.lexsort((*columns, self.shards[positions]))]
        return order


def as_words(keys: NDArray[np.void], order: Literal["<u8", ">u8"]) -> NDArray[np.uint64]:
    """The bytes of each key, padded with zeros, as 64-bit numbers of one byte order: shape (n, words)."""
    width = keys.dtype.itemsize
    matrix = np.ascontiguousarray(keys).view(np.uint8).reshape(len(keys), width)
    if width % 8:
        # ``np.pad`` takes a tenth of a millisecond, however few the keys are.
        padded = np.zeros((len(keys), width + -width % 8), np.uint8)
        padded[:, :width] = matrix
        matrix = padded
    return np.ascontiguousarray(matrix).view(order).astype(np.uint64)
