"""Entries as numbers: what the index keeps for a record key, in 64 bits.

The high 32 bits are the commit sequence, the low 32 bits the file-group number, so that a newer entry is the
larger number and a store compares versions with one integer comparison. Stores that keep bytes keep the number
big-endian. Sequences start at 1: the number 0 is no entry and stands for a key that is absent.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Entries: TypeAlias = NDArray[np.uint64]

ENTRY_WIDTH: Final = 8
"""Bytes of an entry."""

ABSENT: Final = np.uint64(0)
"""Stands for a key that the store does not hold."""

TOMBSTONE: Final = 0xFFFF_FFFF
"""The file-group number of a deleted key."""

MAX_FILE_GROUP: Final = TOMBSTONE - 1
MAX_SEQUENCE: Final = 0xFFFF_FFFF

_SEQUENCE_SHIFT: Final = np.uint64(32)
_FILE_GROUP_MASK: Final = np.uint64(0xFFFF_FFFF)


def pack(sequence: int | NDArray[np.integer], file_groups: NDArray[np.integer]) -> Entries:
    """Entries of one commit sequence, or of one for each entry, and of file-group numbers (shape (n,)).

    >>> entries = pack(7, np.array([0, 3, TOMBSTONE]))
    >>> sequences(entries).tolist(), is_live(entries).tolist()
    ([7, 7, 7], [True, True, False])
    """
    high: Entries = np.asarray(sequence, np.uint64) << _SEQUENCE_SHIFT
    return high | file_groups.astype(np.uint64)


def sequences(entries: Entries) -> NDArray[np.uint32]:
    """Commit sequence of each entry, 0 where absent."""
    return (entries >> _SEQUENCE_SHIFT).astype(np.uint32)


def file_groups(entries: Entries) -> NDArray[np.uint32]:
    """File-group number of each entry; ``TOMBSTONE`` where deleted, meaningless where absent."""
    return (entries & _FILE_GROUP_MASK).astype(np.uint32)


def is_live(entries: Entries) -> NDArray[np.bool_]:
    """Where a key is neither absent nor deleted."""
    return (entries != ABSENT) & ((entries & _FILE_GROUP_MASK) != np.uint64(TOMBSTONE))


def supersedes(new: Entries, stored: Entries) -> NDArray[np.bool_]:
    """Where a new entry may replace the stored one: its sequence is greater, or nothing is stored.

    >>> supersedes(pack(7, np.array([1, 1, 1])), pack(np.array([6, 7, 8]), np.array([2, 2, 2]))).tolist()
    [True, False, False]
    """
    return (new >> _SEQUENCE_SHIFT) > (stored >> _SEQUENCE_SHIFT)


def is_old_tombstone(entries: Entries, sequence: int | NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Where a key was deleted by a commit up to a sequence, or up to one for each entry."""
    return (file_groups(entries) == TOMBSTONE) & (sequences(entries) <= sequence) & (entries != ABSENT)
