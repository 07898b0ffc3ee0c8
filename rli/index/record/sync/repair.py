"""Repair: where the index does not say what the table says, it is corrected from the base files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rli.codec import entries as codec
from rli.codec import scoped_keys
from rli.errors import CorruptTableError, SettingsError
from rli.index.record.entries.stored_entries import StoredEntries
from rli.index.record.log.actions import REPAIR
from rli.index.record.log.record import RecordDraft
from rli.index.record.sync.comparing_slices import judge
from rli.index.record.sync.known_slices import known_slices
from rli.index.record.sync.verify import State, verify
from rli.index.record.sync.written_keys import entry_instants, live_keys, live_records, place_by_commit_time
from rli.index.reports import VerifyReport
from rli.locations import LocationUpdate
from rli.model import FileGroupId, KeyMode, Scope
from rli.tasks import TaskRunner
from rli.view.file_slices import FileSlice
from rli.view.snapshot import Snapshot


def repair(look: Callable[[], State], index: StoredEntries, tasks: TaskRunner) -> VerifyReport | None:
    """Make the index say what the table says. The caller holds the lease.

    Args:
        look: gives the state of table and index.
        index: the index.
        tasks: runs the work on each file slice and shard.

    Returns:
        What was wrong; None if something was committed meanwhile, or a server of the index was replaced: repair again.

    Raises:
        CorruptTableError: the table holds a record key twice.
        SettingsError: the index keeps digests, and some of them have no record.
    """
    applied = index.store.applied()
    state = look()
    snapshot, report = state.snapshot, verify(look, index, tasks)
    if report.agrees:
        return report
    if report.repeated:
        raise CorruptTableError(
            f"record keys occur twice in a base file: table={snapshot.table.location} records={report.repeated} "
            f"sample={list(report.sample)}",
            remedy=(
                "a record-level index needs keys that are unique in the table: delete these keys and insert their "
                "records again"
            ),
        )
    if report.doubled:
        raise CorruptTableError(
            f"record keys stand in more than one file: table={snapshot.table.location} records={report.doubled} "
            f"sample={list(report.sample)}",
            remedy="run: rli deduplicate TABLE, then repair the index again",
        )
    if report.dangling and index.settings.key_mode is KeyMode.DIGEST:
        raise SettingsError(
            f"keys without a record cannot be told from their digests: index={index.url} dangling={report.dangling} "
            "key_mode=digest",
            remedy="bootstrap the index again: rli index bootstrap TABLE",
        )
    slices = known_slices(snapshot, index)
    log = index.log.refresh()
    cutoff = index.cutoff(log)
    instants = entry_instants(snapshot, slices, cutoff, tasks)
    if log.head != state.sequence:
        return None
    # Appended right behind that state, or not at all: a later sequence would win over what was committed meanwhile.
    draft = RecordDraft(
        instant=None,
        action=REPAIR,
        writer=uuid4().hex,
        located_at=(snapshot.timeline.latest_time or "", *instants),
        file_groups=tuple(file_slice.group for file_slice in slices),
    )
    appended = index.log.append(log, draft)
    if appended is None:
        return None
    first = state.sequence + 1
    # What dangles goes first: of a key that is placed wrongly, the entry that follows carries a later sequence.
    if report.dangling:
        for _ in tasks.run(partial(remove_dangling, snapshot, index, first, cutoff), range(index.settings.shard_count)):
            pass
    items = [(file_slice, first + 1, instants) for file_slice in slices]
    for _ in tasks.run(partial(_correct, snapshot, index, cutoff), items):
        pass
    return report if index.store.mark_applied(applied, appended.head) else None


def _correct(
    snapshot: Snapshot, index: StoredEntries, cutoff: str | None, item: tuple[FileSlice, int, Sequence[str]]
) -> None:
    file_slice, first, instants = item
    if cutoff is None:
        correct_slice(snapshot, index, (file_slice, first + instants.index(file_slice.instant)))
    else:
        correct_live_keys(snapshot, index, cutoff, (first, instants), file_slice)


def correct_slice(snapshot: Snapshot, index: StoredEntries, item: tuple[FileSlice, int]) -> None:
    """Place the records of one file slice that are indexed wrongly: a task."""
    file_slice, sequence = item
    log = index.log.refresh()
    number = log.dictionary.number_of(file_slice.group)
    for keys in snapshot.record_keys(file_slice):
        absent, wrong = judge(number, index.get(index.codec.stored_keys_in(file_slice.group.partition_path, keys)))
        chosen = keys.filter(pa.array(absent | wrong))
        index.apply(LocationUpdate.placing(chosen, file_slice.group), log, sequence)


def correct_live_keys(
    snapshot: Snapshot, index: StoredEntries, cutoff: str, sequences: tuple[int, Sequence[str]], file_slice: FileSlice
) -> None:
    """As ``correct_slice``, where keys expire: by the commits that wrote the records of the slice last. A task.

    Args:
        snapshot: of the table.
        index: the index.
        cutoff: see ``StoredEntries.cutoff``.
        sequences: see ``place_by_commit_time``.
        file_slice: the slice.
    """
    log = index.log.refresh()
    number = log.dictionary.number_of(file_slice.group)

    def wrong() -> Iterator[tuple[pa.Array, pa.Array]]:
        for keys, times in live_records(snapshot, file_slice, cutoff):
            entries = index.get(index.codec.stored_keys_in(file_slice.group.partition_path, keys))
            absent, misplaced = judge(number, entries)
            known = index.locations(keys, entries).column("instant_time")
            # An entry here has the age of the record. What is elsewhere may be newer.
            older, aged = (pc.fill_null(told(known, times), True).to_numpy() for told in (pc.less, pc.not_equal))
            chosen = pa.array(absent | (misplaced & older) | (~misplaced & aged))
            yield keys.filter(chosen), times.filter(chosen)

    place_by_commit_time(index, log, file_slice, wrong(), sequences)


def remove_dangling(snapshot: Snapshot, index: StoredEntries, sequence: int, cutoff: str | None, shard: int) -> None:
    """Delete the keys of one shard that have no record where the index places them: a task."""
    log = index.log.refresh()
    for update in _dangling_keys(snapshot, index, cutoff, shard):
        index.apply(update, log, sequence)


def _dangling_keys(
    snapshot: Snapshot, index: StoredEntries, cutoff: str | None, shard: int
) -> Iterable[LocationUpdate]:
    """Removes the keys of a shard without a record, in batches. Reads the key columns of the file groups that a batch names."""
    for keys, entries in index.scan(shard):
        live = np.flatnonzero(codec.is_live(entries))
        numbers = codec.file_groups(entries[live])
        distinct = np.unique(numbers)
        names = index.log_of(entries).dictionary.groups_of(distinct)
        groups = zip(*(column.to_pylist() for column in names), strict=True)
        for number, group in zip(distinct, groups, strict=True):
            named = keys.take(pa.array(live[numbers == number]))
            file_slice = snapshot.slices.get(FileGroupId(*group))
            if file_slice is not None:
                for held in live_keys(snapshot, file_slice, cutoff):
                    stored = index.codec.stored_keys_in(file_slice.group.partition_path, held)
                    named = named.filter(pc.invert(pc.is_in(named, value_set=stored)))
            if len(named):
                yield _removal_of(index, named)


def _removal_of(index: StoredEntries, stored_keys: pa.Array) -> LocationUpdate:
    """The changes that delete stored keys."""
    if index.scope is Scope.GLOBAL:
        return LocationUpdate.removing(stored_keys)
    partition_paths, record_keys = scoped_keys.split(stored_keys)
    return replace(LocationUpdate.removing(record_keys), partition_paths=partition_paths)
