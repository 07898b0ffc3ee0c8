"""Bootstrap: building the index of a table that has records already."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

from rli.errors import CorruptTableError, IndexNotReadyError
from rli.hudi.table_features import remedy_for_repeats
from rli.index.record.entries.stored_entries import StoredEntries
from rli.index.record.entries.time_to_live import expired_before
from rli.index.record.log.actions import BOOTSTRAP
from rli.index.record.log.record import RecordDraft
from rli.index.record.sync.known_slices import known_slices
from rli.index.record.sync.repeated_keys import repeated_keys
from rli.index.record.sync.written_keys import entry_instants, live_records, place_by_commit_time
from rli.locations import LocationUpdate
from rli.tasks import TaskRunner
from rli.telemetry import events
from rli.view.definition import TableDefinition
from rli.view.file_slices import FileSlice
from rli.view.flushed_commits import sync_table
from rli.view.snapshot import Snapshot
from rli.view.time_travel import verified_snapshot


def bootstrap(table: TableDefinition, index: StoredEntries, tasks: TaskRunner) -> int:
    """Fill an empty index with the locations of all records; returns how many there are.

    Keys are placed with one commit sequence for each instant that wrote a live base file, so look-ups report that
    instant; where keys expire, with one for each instant that wrote a record last. Commits that complete meanwhile are
    found by the next sync.

    Raises:
        CorruptTableError: a record key lives in more than one place, or a base file is lost.
        IndexNotReadyError: a server of the index was replaced meanwhile.
    """
    began = time.monotonic()
    # Before the first entry, so that ``mark_applied`` notices a server that was replaced at any time during the build
    # (P14).
    applied = index.store.applied()
    snapshot = verified_snapshot(table)
    # What the index has followed, the table must not lose (P17), of any writer.
    sync_table(snapshot)
    completed = [instant.time for instant in snapshot.timeline.completed]
    instants = completed or sorted({file_slice.instant for file_slice in snapshot.slices.values()})
    rows, sequence = _fill(snapshot, index, instants[-1], tasks) if instants else (0, 0)
    if not index.store.mark_applied(applied, sequence):
        raise IndexNotReadyError(
            f"a server of the index was replaced during the bootstrap, and may have lost entries: index={index.url}",
            remedy="bootstrap the index again",
        )
    events.INDEX_BUILT.log(table=table.location, index=index.url, records=rows, seconds=time.monotonic() - began)
    return rows


def _fill(snapshot: Snapshot, index: StoredEntries, last: str, tasks: TaskRunner) -> tuple[int, int]:
    """Place the keys of all records; returns how many there are, and the last sequence of their entries.

    Args:
        snapshot: the state of the table.
        index: empty.
        last: the newest instant of the table.
        tasks: runs the work on each base file.
    """
    slices = known_slices(snapshot, index)
    # The log of the new index names no instant yet, which would be its clock.
    cutoff = expired_before(index.ttl, last)
    located_at = entry_instants(snapshot, slices, cutoff, tasks) or [last]
    # The record first: entries need the numbers that it gives out. Until the watermark is set, nobody shows them
    # (P8), and a build that dies leaves an index that was never bootstrapped.
    log = index.log.append(index.log.refresh(), _draft(snapshot, last, located_at))
    if log is None:
        raise CorruptTableError(
            f"the index is being bootstrapped by another process: index={index.url}",
            remedy="wait for it, or drop the index and bootstrap it again",
        )
    first = log.records[-1].first_sequence
    if cutoff is None:
        items = [(file_slice, first + located_at.index(file_slice.instant)) for file_slice in slices]
        rows = sum(tasks.run(partial(place_keys_of, snapshot, index), items))
    else:
        rows = sum(tasks.run(partial(place_live_keys_of, snapshot, index, cutoff, (first, located_at)), slices))
    _require_distinct_keys(snapshot, index, tasks, rows)
    return rows, log.head


def _draft(snapshot: Snapshot, last: str, located_at: Sequence[str]) -> RecordDraft:
    return RecordDraft(
        instant=last,
        action=BOOTSTRAP,
        writer=BOOTSTRAP,
        located_at=tuple(located_at),
        # The log names all partitions: also an index of some of them has to know whether there are others.
        file_groups=tuple(sorted(snapshot.slices)),
        covers=tuple(instant.time for instant in snapshot.timeline.completed),
    )


def place_keys_of(snapshot: Snapshot, index: StoredEntries, item: tuple[FileSlice, int]) -> int:
    """Place the keys of one file slice with a commit sequence; returns how many: a task."""
    file_slice, sequence = item
    rows, log = 0, index.log.refresh()
    for keys in snapshot.record_keys(file_slice):
        index.apply(LocationUpdate.placing(keys, file_slice.group), log, sequence)
        rows += len(keys)
    return rows


def place_live_keys_of(
    snapshot: Snapshot, index: StoredEntries, cutoff: str, sequences: tuple[int, list[str]], file_slice: FileSlice
) -> int:
    """Place the keys of one file slice that have not expired, by the commits that wrote them; returns how many: a task."""
    records = live_records(snapshot, file_slice, cutoff)
    return place_by_commit_time(index, index.log.refresh(), file_slice, records, sequences)


def _require_distinct_keys(snapshot: Snapshot, index: StoredEntries, tasks: TaskRunner, rows: int) -> None:
    entries = index.store.stats().live_entries
    if entries == rows:
        return
    found = repeated_keys(snapshot, index, tasks)
    sample = "; ".join(f"{key!r} in {', '.join(files)}" for key, files in found.items())
    raise CorruptTableError(
        f"record keys are stored more than once: table={snapshot.table.location} records={rows} keys={entries} sample: "
        f"{sample} (a record-level index needs keys that are unique in the table)",
        remedy=remedy_for_repeats(snapshot.table.properties),
    )
