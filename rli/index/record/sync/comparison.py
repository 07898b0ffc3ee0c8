"""The course of a comparison of index and table: first by sums, then key by key where the sums differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from rli.index.record.entries.stored_entries import StoredEntries
from rli.index.record.log.state import LogState
from rli.index.record.sync.comparing_entries import find_dangling, scan_shards
from rli.index.record.sync.comparing_slices import check_slice, hold_misplaced, hold_slice
from rli.index.record.sync.findings import NO_RECORDS, Compared, Held, SliceCheck
from rli.index.record.sync.key_sums import Fingerprints, Judged, KeySums, bucket_count
from rli.model import FileGroupId
from rli.tasks import TaskRunner
from rli.view.file_slices import FileSlice
from rli.view.snapshot import Snapshot

_MOST_HELD: Final = 1 << 20
"""Keys, about, whose fingerprints are held together."""

_SCANS: Final = 32
"""Tasks, at most, that the shards are shared out to: each gives the sums of all file groups."""


@dataclass(slots=True)
class Differences:
    """What the entries of the index and the records differ in.

    Attributes:
        entries: keys with a location in the index.
        repeated: records with the key of another record in the same base file.
        dangling: entries without a record.
        sample: keys of those.
    """

    entries: int = 0
    repeated: int = 0
    dangling: int = 0
    sample: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Checked:
    """One file group whose records were compared.

    Attributes:
        number: in the index; None if that does not know the group.
        sequence: as of which.
        cutoff: see ``Compared``.
        file_slice: None if the table did not have the group any more.
        check: what was found.
    """

    number: int | None
    sequence: int
    cutoff: str | None
    file_slice: FileSlice | None
    check: SliceCheck

    def compared(self) -> Compared | None:
        """The slice, to be compared again."""
        return None if self.file_slice is None else Compared(self.file_slice, self.number, self.cutoff)


class Comparison:
    """What is known so far of an index and its table.

    Args:
        index: the index.
        tasks: runs the work.
        sequence: as of which entries count that name none of the file groups that were checked.
        groups: how many file groups there are, about.
    """

    def __init__(self, index: StoredEntries, tasks: TaskRunner, sequence: int, groups: int) -> None:
        self._index = index
        self._tasks = tasks
        self._sequence = sequence
        self._buckets = bucket_count(groups)
        self._checked: dict[FileGroupId, _Checked] = {}
        self._cutoff: str | None = None
        self.differences = Differences()

    @property
    def checks(self) -> list[SliceCheck]:
        """What was found of the records of each file group."""
        return [checked.check for checked in self._checked.values()]

    def check(self, snapshot: Snapshot, log: LogState, groups: Iterable[FileGroupId]) -> list[FileGroupId]:
        """Compare the records of some file groups with the index.

        Args:
            snapshot: of the table.
            log: describes that; all of it is applied.
            groups: file groups of this snapshot, or of an earlier one.

        Returns:
            Those whose files were cleaned meanwhile: check them again, with a later snapshot.
        """
        wanted = list(groups)
        numbers, slices = log.dictionary.numbers_of(wanted), snapshot.slices.of_groups(wanted)
        checks: dict[FileGroupId, SliceCheck | None] = dict.fromkeys(wanted, NO_RECORDS)
        task = partial(check_slice, snapshot, self._index, log.head, self._buckets)
        cutoff = self._cutoff = self._index.cutoff(log)
        checks.update(self._tasks.run(task, [Compared(slices[group], numbers.get(group), cutoff) for group in slices]))
        for group, check in checks.items():
            if check is not None:
                self._checked[group] = _Checked(numbers.get(group), log.head, cutoff, slices.get(group), check)
        return [group for group, check in checks.items() if check is None]

    def examine(self, snapshot: Snapshot) -> list[FileGroupId]:
        """Compare the entries of the index with the records of all file groups that were checked; returns as ``check``."""
        rows = sorted((one for one in self._checked.values() if one.number is not None), key=_number)
        cutoffs = None if self._cutoff is None else (*(one.cutoff or "" for one in rows), self._cutoff)
        judged = Judged.of([(_number(one), one.sequence) for one in rows], self._sequence, self._buckets, cutoffs)
        self.differences = Differences()
        differing = self._scanned(judged) != _expected(rows, judged)
        for chosen in _portions(rows, differing):
            if gone := self._compare_keys(snapshot, judged, rows, chosen):
                return gone
        return []

    def _scanned(self, judged: Judged) -> KeySums:
        """The sums of all entries that count."""
        sums = judged.no_sums()
        for scanned in self._tasks.run(partial(scan_shards, self._index, judged), self._portions_of_shards()):
            self.differences.entries += scanned.entries
            sums += scanned.sums
        return sums

    def _compare_keys(
        self, snapshot: Snapshot, judged: Judged, rows: Sequence[_Checked], chosen: NDArray[np.bool_]
    ) -> list[FileGroupId]:
        """Compare keys one by one in some buckets (shape as the sums); returns as ``check``."""
        differing = [(one, chosen[row]) for row, one in enumerate(rows) if one.file_slice and chosen[row].any()]
        held: list[Fingerprints] = [np.empty(0, np.uint64)]
        gone: list[FileGroupId] = []
        for group, found in self._held(snapshot, judged, differing, chosen):
            if found is None:
                gone.append(group)
            else:
                held.append(found.fingerprints)
                self.differences.repeated += found.repeated
                self.differences.sample += found.sample
        if gone:
            return gone
        task = partial(find_dangling, self._index, judged, chosen, np.unique(np.concatenate(held)))
        for dangling in self._tasks.run(task, self._portions_of_shards()):
            self.differences.dangling += dangling.count
            self.differences.sample += dangling.sample
        return []

    def _held(
        self,
        snapshot: Snapshot,
        judged: Judged,
        differing: Sequence[tuple[_Checked, NDArray[np.bool_]]],
        chosen: NDArray[np.bool_],
    ) -> Iterator[tuple[FileGroupId, Held | None]]:
        """All keys that account for an entry in one of some buckets, by the file slices that hold them."""
        own = [(item, buckets) for one, buckets in differing if (item := one.compared()) is not None]
        yield from self._tasks.run(partial(hold_slice, snapshot, self._index), own)
        wrong = (one.compared() for one in self._checked.values() if one.check.misplaced)
        others = [item for item in wrong if item is not None]
        yield from self._tasks.run(partial(hold_misplaced, snapshot, self._index, judged, chosen), others)

    def _portions_of_shards(self) -> list[range]:
        count = self._index.settings.shard_count
        return [range(first, count, _SCANS) for first in range(min(count, _SCANS))]


def _number(checked: _Checked) -> int:
    return -1 if checked.number is None else checked.number


def _expected(rows: Sequence[_Checked], judged: Judged) -> KeySums:
    """The sums of all records whose keys are placed rightly."""
    sums = judged.no_sums()
    for row, checked in enumerate(rows):
        if checked.check.sums is not None:
            sums[row] = checked.check.sums
    return sums


def _portions(rows: Sequence[_Checked], differing: NDArray[np.bool_]) -> Iterator[NDArray[np.bool_]]:
    """The buckets that differ, in portions of so many keys as may be held together."""
    records = np.array([*(one.check.records for one in rows), 0])
    keys = np.cumsum(records * differing.mean(axis=1)) // _MOST_HELD
    portions = (differing & (keys == portion)[:, np.newaxis] for portion in np.unique(keys))
    yield from (portion for portion in portions if portion.any())
