"""How a bootstrap places the keys of the table's records: shard by shard, each as a task, or in the order of the store."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from rli.index.record.entries.builds import BuildNotes
from rli.index.record.entries.shard_puts import ShardPuts, joined
from rli.index.record.entries.stored_entries import Batch, StoredEntries
from rli.index.record.log.record import LogRecord
from rli.index.record.log.state import LogState
from rli.index.record.sync.written_keys import live_records, place_by_commit_time
from rli.locations import LocationUpdate
from rli.tasks import InThreads, TaskRunner
from rli.view.file_slices import FileSlice
from rli.view.snapshot import Snapshot


def place_in_order(
    snapshot: Snapshot,
    index: StoredEntries,
    record: LogRecord,
    lots: Sequence[Sequence[FileSlice]],
    tasks: TaskRunner,
) -> int:
    """As ``place_shard`` of all shards, for a store that gets many entries best in its own order.

    Args:
        snapshot: the state of the table.
        index: that is built.
        record: of the build.
        lots: the shards.
        tasks: runs the work in turn.
    """
    notes, entries_of = BuildNotes(index.store), partial(_entries_of, snapshot, index, index.log.refresh(), record)
    with ShardPuts(index) as puts:

        def place(shard: Sequence[FileSlice]) -> int:
            rows = notes.rows_of(shard)
            if rows is None:
                batches = [batch for some in InThreads().run(entries_of, shard) for batch in some]
                rows = sum(len(keys) for keys, _ in batches)
                puts.add(shard, rows, batches)
            return rows

        rows = sum(tasks.run(place, lots))
        puts.finish()
    return rows


def place_shard(
    snapshot: Snapshot, index: StoredEntries, cutoff: str | None, record: LogRecord, shard: Sequence[FileSlice]
) -> int:
    """Place the keys of some file slices, unless that is done; returns how many: a task.

    Args:
        snapshot: the state of the table.
        index: that is built.
        cutoff: see ``StoredEntries.cutoff``.
        record: of the build.
        shard: the slices.
    """
    notes = BuildNotes(index.store)
    rows = notes.rows_of(shard)
    if rows is not None:
        return rows
    log, sequences = index.log.refresh(), (record.first_sequence, record.located_at)
    rows = 0
    if cutoff is None:
        batches = [batch for one in shard for batch in _entries_of(snapshot, index, log, record, one)]
        rows = sum(len(keys) for keys, _ in batches)
        index.put_all(joined(batches))
    else:
        for file_slice in shard:
            records = live_records(snapshot, file_slice, cutoff)
            rows += place_by_commit_time(index, log, file_slice, records, sequences)
    notes.finish(shard, rows)
    return rows


def _entries_of(
    snapshot: Snapshot, index: StoredEntries, log: LogState, record: LogRecord, file_slice: FileSlice
) -> list[Batch]:
    """The entries of the records of a slice."""
    sequence = record.first_sequence + record.located_at.index(file_slice.instant)
    updates = (LocationUpdate.placing(keys, file_slice.group) for keys in snapshot.record_keys(file_slice))
    return [batch for update in updates for batch in index.encoded(update, log, sequence)]
