"""Sums of keys by file group: whether files and index hold the same keys, told without keeping any of them.

The keys of a file group are spread over buckets by their fingerprints, and the fingerprints in a bucket are added up.
Where the sums of table and index are equal, so are their keys. Where they differ, only the keys of that bucket need to
be looked at. All sums of a table together have a fixed size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rli.codec.encoded_keys import EncodedKeys
from rli.codec.fingerprints import fingerprints, mixed

Fingerprints: TypeAlias = NDArray[np.uint64]
KeySums: TypeAlias = NDArray[np.uint64]
"""For each bucket of a file group (last axis) the sum of its fingerprints, modulo 2⁶⁴."""

_MOST_SUMS: Final = 1 << 18
"""Of a table; 2 MiB."""

_MOST_BUCKETS: Final = 1 << 12


def bucket_count(groups: int) -> int:
    """Into how many buckets the keys of each of so many file groups are spread."""
    return min(_MOST_BUCKETS, max(1, _MOST_SUMS // (groups + 1)))


def placed_fingerprints(keys: EncodedKeys, numbers: NDArray[np.integer]) -> Fingerprints:
    """A fingerprint of each key together with the number of its file group (shape (n,))."""
    return mixed(fingerprints(keys.keys), numbers.astype(np.uint64))


def buckets_of(found: Fingerprints, buckets: int) -> NDArray[np.intp]:
    """The bucket of each fingerprint."""
    return (found % np.uint64(buckets)).astype(np.intp)


def add_to(sums: KeySums, positions: NDArray[np.intp], found: Fingerprints) -> None:
    """Add each fingerprint to the sum at its position in ``sums`` (shape (buckets,))."""
    np.add.at(sums, positions, found)


@dataclass(frozen=True, slots=True)
class Judged:
    """Which entries of the index count in a comparison, and in which row of the sums.

    Attributes:
        numbers: of the file groups, ascending, shape (n,); row n is for all other numbers.
        sequences: for each row the greatest commit sequence that counts, shape (n + 1,).
        buckets: of each row.
        cutoffs: for each row the instant before which an entry has expired; None where keys do not expire.
    """

    numbers: NDArray[np.uint32]
    sequences: NDArray[np.uint32]
    buckets: int
    cutoffs: tuple[str, ...] | None = None

    @classmethod
    def of(
        cls,
        sequences: Sequence[tuple[int, int]],
        others: int,
        buckets: int,
        cutoffs: tuple[str, ...] | None = None,
    ) -> Judged:
        """From pairs of file-group number and sequence, ordered by number, and the sequence for other numbers."""
        numbers = np.array([number for number, _ in sequences], np.uint32)
        return cls(numbers, np.array([*(sequence for _, sequence in sequences), others], np.uint32), buckets, cutoffs)

    def rows_of(self, numbers: NDArray[np.uint32]) -> NDArray[np.intp]:
        """The row of each file-group number."""
        rows = np.searchsorted(self.numbers, numbers)
        known = np.append(self.numbers, np.uint32(0))[rows] == numbers
        return np.where(known & (rows < len(self.numbers)), rows, len(self.numbers))

    def no_sums(self) -> KeySums:
        """Sums of no keys, shape (n + 1, buckets)."""
        return np.zeros((len(self.sequences), self.buckets), np.uint64)
