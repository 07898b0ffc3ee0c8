"""Verify: does the index say what the table says? And repair, where it does not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rli.codec import entries as codec
from rli.codec.entries import Entries
from rli.errors import SettingsError
from rli.index.changes import LocationChanges
from rli.index.record_index import RecordIndex
from rli.layout.file_slices import FileSlice
from rli.model import FileGroupId, KeyMode
from rli.table.file_groups.tasks import TaskRunner
from rli.table.state.snapshot import Snapshot

_SAMPLE: Final = 10
REPAIR: Final = "repair"
"""Action in the commit log: entries that were corrected from base files."""


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """How index and table agree.

    Attributes:
        records: records in the table.
        entries: keys with a location in the index.
        missing: records whose key the index does not hold.
        misplaced: records whose key the index places elsewhere.
        dangling: keys of the index without a record in the table.
        sample: record keys that are wrong, a few of each kind.
    """

    records: int
    entries: int
    missing: int
    misplaced: int
    dangling: int
    sample: tuple[str, ...]

    @property
    def agrees(self) -> bool:
        """Whether index and table say the same."""
        return not (self.missing or self.misplaced or self.dangling)


@dataclass(frozen=True, slots=True)
class SliceCheck:
    """How the records of one file slice are indexed.

    Attributes:
        records: in the slice.
        missing, misplaced: how many the index does not hold, or places elsewhere.
        sample: keys of those.
    """

    records: int
    missing: int
    misplaced: int
    sample: tuple[str, ...]


def verify(snapshot: Snapshot, index: RecordIndex, tasks: TaskRunner, applied: int = 0) -> VerifyReport:
    """Compare the index with the table, key by key, both ways.

    Raises:
        IndexNotReadyError: the store has lost entries of commits up to the sequence ``applied``.
    """
    checks = list(tasks.run(partial(check_slice, snapshot, index, applied=applied), list(snapshot.slices.values())))
    records = sum(check.records for check in checks)
    missing = sum(check.missing for check in checks)
    misplaced = sum(check.misplaced for check in checks)
    entries = index.store.stats().live_entries
    sample = [key for check in checks for key in check.sample][:_SAMPLE]
    # Every record whose key is in the index accounts for one entry, and only what is left over is looked for.
    dangling = max(0, entries - (records - missing))
    if dangling and index.settings.key_mode is KeyMode.EXACT:
        shards = tasks.run(partial(sample_dangling, snapshot, index), range(index.settings.shard_count))
        sample += [key for shard in shards for key in shard][:_SAMPLE]
    return VerifyReport(records, entries, missing, misplaced, dangling, tuple(sample))


def repair(snapshot: Snapshot, index: RecordIndex, tasks: TaskRunner, sequence: int) -> VerifyReport | None:
    """Make the index say what the table says. The caller holds the lease.

    Args:
        snapshot: the state of the table.
        index: its index.
        tasks: runs the work on each file slice and shard.
        sequence: the last commit sequence of that state.

    Returns:
        What was wrong; None if something was committed after that state, or a server of the index was replaced
        meanwhile: sync and repair again.

    Raises:
        SettingsError: the index keeps digests, and some of them have no record.
    """
    applied = index.store.applied()
    report = verify(snapshot, index, tasks)
    if report.agrees:
        return report
    if report.dangling and index.settings.key_mode is KeyMode.DIGEST:
        raise SettingsError(
            f"keys without a record cannot be told from their digests: index={index.url} dangling={report.dangling} "
            "key_mode=digest; bootstrap the index again: rli index bootstrap TABLE"
        )
    slices = sorted(snapshot.slices.values(), key=lambda file_slice: file_slice.path)
    instants = sorted({file_slice.instant for file_slice in slices})
    log = index.log.refresh()
    if log.head != sequence:
        return None
    # Appended right behind that state, or not at all: a later sequence would win over what was committed meanwhile.
    appended = index.log.append(
        log,
        None,
        REPAIR,
        file_groups=[file_slice.group for file_slice in slices],
        writer=uuid4().hex,
        located_at=(snapshot.timeline.latest_time or "", *instants),
    )
    if appended is None:
        return None
    first = sequence + 1
    # What dangles goes first: of a key that is placed wrongly, the entry that follows carries a later sequence.
    if report.dangling:
        for _ in tasks.run(partial(remove_dangling, snapshot, index, first), range(index.settings.shard_count)):
            pass
    items = [(file_slice, first + 1 + instants.index(file_slice.instant)) for file_slice in slices]
    for _ in tasks.run(partial(correct_slice, snapshot, index), items):
        pass
    return report if index.store.mark_applied(applied, appended.head) else None


def find_repeated_keys(snapshot: Snapshot, index: RecordIndex, tasks: TaskRunner) -> list[str]:
    """Some record keys that live in more than one place, given an index of all of them."""
    checks = tasks.run(partial(check_slice, snapshot, index), list(snapshot.slices.values()))
    elsewhere = [key for check in checks for key in check.sample]
    return sorted(set(elsewhere))[:_SAMPLE] or ["(within one file)"]


def check_slice(snapshot: Snapshot, index: RecordIndex, file_slice: FileSlice, *, applied: int = 0) -> SliceCheck:
    """Compare the records of one file slice with the index, which has applied all commits so far: a task."""
    number = index.log.refresh().number_of(file_slice.group)
    records = missing = misplaced = 0
    sample: list[str] = []
    for keys in snapshot.record_keys(file_slice):
        absent, wrong = _judge(number, index.get(keys, applied))
        records += len(keys)
        missing += int(absent.sum())
        misplaced += int(wrong.sum())
        sample += keys.filter(pa.array(absent | wrong)).slice(0, _SAMPLE - len(sample)).to_pylist()
    return SliceCheck(records, missing, misplaced, tuple(sample))


def correct_slice(snapshot: Snapshot, index: RecordIndex, item: tuple[FileSlice, int]) -> None:
    """Place the records of one file slice that are indexed wrongly: a task."""
    file_slice, sequence = item
    number = index.log.refresh().number_of(file_slice.group)
    for keys in snapshot.record_keys(file_slice):
        absent, wrong = _judge(number, index.get(keys))
        chosen = keys.filter(pa.array(absent | wrong))
        LocationChanges.placing(chosen, file_slice.group).apply(index, sequence)


def sample_dangling(snapshot: Snapshot, index: RecordIndex, shard: int) -> list[str]:
    """A few keys of one shard that have no record where the index places them: a task."""
    sample: list[str] = []
    for keys in _dangling_keys(snapshot, index, shard):
        sample += keys.slice(0, _SAMPLE - len(sample)).to_pylist()
        if len(sample) == _SAMPLE:
            break
    return sample


def remove_dangling(snapshot: Snapshot, index: RecordIndex, sequence: int, shard: int) -> None:
    """Delete the keys of one shard that have no record where the index places them: a task."""
    for keys in _dangling_keys(snapshot, index, shard):
        LocationChanges.removing(keys).apply(index, sequence)


def _judge(number: int | None, entries: Entries) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    live = codec.is_live(entries)
    return ~live, live & (codec.file_groups(entries) != (-1 if number is None else number))


def _dangling_keys(snapshot: Snapshot, index: RecordIndex, shard: int) -> Iterable[pa.Array]:
    """Keys of a shard without a record, in batches. Reads the key columns of the file groups that a batch names."""
    for keys, entries in index.scan(shard):
        live = np.flatnonzero(codec.is_live(entries))
        numbers = codec.file_groups(entries[live])
        distinct = np.unique(numbers)
        groups = zip(*(column.to_pylist() for column in index.log_of(entries).groups_of(distinct)), strict=True)
        for number, group in zip(distinct, groups, strict=True):
            named = keys.take(pa.array(live[numbers == number]))
            file_slice = snapshot.slices.get(FileGroupId(*group))
            if file_slice is not None:
                for held in snapshot.record_keys(file_slice):
                    named = named.filter(pc.invert(pc.is_in(named, value_set=held)))
            if len(named):
                yield named
