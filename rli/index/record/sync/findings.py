"""The values of a comparison of index and table: its items, and the findings of its tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rli.index.record.sync.key_sums import Fingerprints, KeySums
from rli.view.file_slices import FileSlice

SAMPLE: Final = 10
"""Keys, at most, that a finding names."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A file slice that is compared. Picklable.

    Attributes:
        file_slice: the slice.
        number: of its file group; None for a group that the index does not know.
        cutoff: of what was written last before it, nothing is compared; None where keys do not expire.
    """

    file_slice: FileSlice
    number: int | None
    cutoff: str | None = None


@dataclass(frozen=True, slots=True)
class SliceCheck:
    """How the records of one file slice are indexed.

    Attributes:
        records: in the slice.
        missing, misplaced: how many the index does not hold, or places elsewhere.
        newer: how many have an entry that is newer than the comparison.
        sample: keys of those that are missing or misplaced.
        sums: of the keys that are placed here; None where there are none.
    """

    records: int
    missing: int
    misplaced: int
    newer: int
    sample: tuple[str, ...]
    sums: KeySums | None


NO_RECORDS: Final = SliceCheck(0, 0, 0, 0, (), None)


@dataclass(frozen=True, slots=True)
class Scanned:
    """What the index holds.

    Attributes:
        entries: keys with a location.
        sums: of the entries that count, by file group.
    """

    entries: int
    sums: KeySums


@dataclass(frozen=True, slots=True)
class Held:
    """Keys of one file slice whose sums differ from those of the index.

    Attributes:
        fingerprints: of the keys, ascending, distinct.
        repeated: how many records have the key of another one.
        sample: keys of those.
    """

    fingerprints: Fingerprints
    repeated: int
    sample: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Dangling:
    """Entries without a record.

    Attributes:
        count: how many.
        sample: a few of the keys; none where the index keeps digests.
    """

    count: int
    sample: tuple[str, ...]
