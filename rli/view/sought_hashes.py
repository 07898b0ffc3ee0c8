"""Record keys that are sought among the records of a base file by their hashes alone."""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rli.hudi.key_hashes import Hashes, KeyHashes, Tails

Rows: TypeAlias = NDArray[np.intp]

_HASHES: Final = 1 << 16
"""How many values a hash of 16 bits has."""

_BITS_OF_TAIL: Final = np.uint64(32)
_BITS_OF_HALF: Final = np.uint32(16)


class SoughtHashes:
    """The hashes of sought keys, with their tails.

    Args:
        record_keys: distinct string array, shape (n,), at least one.
    """

    def __init__(self, record_keys: pa.Array) -> None:
        hashes, tails = KeyHashes.of(record_keys)
        joined = _joined(hashes, tails)
        self._order = np.argsort(joined)
        self._joined = joined[self._order]
        self._first = hashes[0]
        self._has_hash, self._has_half = _marked(hashes), _marked(_first_half(tails))

    @property
    def are_alike(self) -> NDArray[np.bool_]:
        """Which keys share hash and tail with another of them, shape (n,)."""
        is_equal = self._joined[1:] == self._joined[:-1]
        found = np.zeros(len(self._joined), np.bool_)
        found[self._order[:-1]] = is_equal
        found[self._order[1:]] |= is_equal
        return found

    def candidates(self, hashes: Hashes) -> Rows:
        """The rows, rising, whose keys have the hash of a sought key, given the hashes of all rows in their order."""
        if len(self._joined) == 1:
            return np.flatnonzero(hashes == self._first)
        return np.flatnonzero(self._has_hash[hashes])

    def matches(self, hashes: Hashes, tails: Tails) -> tuple[Rows, Rows]:
        """Which of some candidates have hash and tail of a sought key.

        Args:
            hashes: of the candidates.
            tails: the same.

        Returns:
            Their numbers, rising, and the number of the sought key of each: of several alike ones, any.
        """
        # A look into a table takes a fraction of the time of a search.
        likely = np.flatnonzero(self._has_half[_first_half(tails)])
        joined = _joined(hashes[likely], tails[likely])
        places = np.minimum(np.searchsorted(self._joined, joined), len(self._joined) - 1)
        is_sought = self._joined[places] == joined
        return likely[is_sought], self._order[places[is_sought]]


def _marked(values: NDArray[np.uint16]) -> NDArray[np.bool_]:
    """For each number of 16 bits, whether it is among some."""
    found = np.zeros(_HASHES, np.bool_)
    found[values] = True
    return found


def _first_half(tails: Tails) -> NDArray[np.uint16]:
    return (tails >> _BITS_OF_HALF).astype(np.uint16)


def _joined(hashes: Hashes, tails: Tails) -> NDArray[np.uint64]:
    return (hashes.astype(np.uint64) << _BITS_OF_TAIL) | tails
