"""Finds some strings among many that come in parts: what is sought is hashed once, not again for each part."""

from __future__ import annotations

from typing import Final, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rli.codec.string_fingerprints import string_fingerprints

_SLOTS_OF_STRING: Final = 32
"""So one in so many of the strings that are not sought takes a closer look."""

_FEW: Final = 32_768
"""A hash table of so many strings is made sooner, for each part, than all strings of the parts are hashed by NumPy."""

_FEW_LENGTHS: Final = 16
"""NumPy hashes strings of one length at a time."""


class SoughtStrings:
    """Strings that are sought.

    Args:
        strings: distinct string array, shape (n,), no nulls.
        few: number of strings up to which Arrow finds them, as it does strings of many lengths.
    """

    def __init__(self, strings: pa.Array, few: int = _FEW) -> None:
        self._strings = strings
        by_arrow = len(strings) <= few or len(pc.binary_length(strings).unique()) > _FEW_LENGTHS
        self._table = None if by_arrow else _HashTable.of(string_fingerprints(strings))

    def found_in(self, strings: pa.Array) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Which of other strings are sought.

        Args:
            strings: string array, shape (m,); may hold a string twice, and nulls, which are not sought.

        Returns:
            Their positions, in rising order, and the position of each among the sought ones; both of shape (k,).
        """
        if self._table is None:
            found = pc.index_in(strings, value_set=self._strings)
            return np.flatnonzero(found.is_valid()), found.drop_null().to_numpy()
        rows, numbers = self._table.found_in(string_fingerprints(strings))
        same = pc.equal(strings.take(pa.array(rows)), self._strings.take(pa.array(numbers)))
        is_same = pc.fill_null(same, False).to_numpy(zero_copy_only=False)
        return rows[is_same], numbers[is_same]


class _HashTable(NamedTuple):
    """Hashes, by which strings are found.

    Attributes:
        hashes: in rising order, shape (n,).
        order: position of the string of each, shape (n,).
        is_taken: whether a hash begins with the bits that are the position, shape (a power of 2,).
        shift: leaves these bits of a hash.
    """

    hashes: NDArray[np.uint64]
    order: NDArray[np.intp]
    is_taken: NDArray[np.bool_]
    shift: np.uint64

    @classmethod
    def of(cls, hashes: NDArray[np.uint64]) -> Self | None:
        """A table of the hashes of strings, shape (n,); None if two are equal, which hardly ever happens."""
        order = np.argsort(hashes)
        ordered = hashes[order]
        if (ordered[1:] == ordered[:-1]).any():
            return None
        bits = (len(hashes) * _SLOTS_OF_STRING).bit_length()
        shift, is_taken = np.uint64(64 - bits), np.zeros(1 << bits, np.bool_)
        is_taken[hashes >> shift] = True
        return cls(ordered, order, is_taken, shift)

    def found_in(self, hashes: NDArray[np.uint64]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Positions, in rising order, of hashes that are in the table, and the string of each."""
        rows = np.flatnonzero(self.is_taken[hashes >> self.shift])
        near = hashes[rows]
        # Beyond the greatest, any place will do: its hash is another one.
        places = np.searchsorted(self.hashes[:-1], near)
        is_equal = self.hashes[places] == near
        return rows[is_equal], self.order[places[is_equal]]
