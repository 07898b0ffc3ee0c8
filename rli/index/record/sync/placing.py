"""How a bootstrap places the keys of the table's records: shard by shard, each as a task, or in the order of the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rli.index.record.entries.builds import BuildNotes
from rli.index.record.entries.shard_puts import Batch, ShardPuts
from rli.index.record.entries.stored_entries import StoredEntries
from rli.index.record.log.record import LogRecord
from rli.index.record.log.state import LogState
from rli.index.record.sync.written_keys import live_records, place_by_commit_time
from rli.locations import LocationUpdate
from rli.tasks import InThreads, TaskRunner
from rli.view.file_slices import FileSlice
from rli.view.snapshot import Snapshot

_KEYS_AT_ONCE: Final = 1 << 20
"""Keys that are put as one batch: some 100 MiB."""


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
    notes, log = BuildNotes(index.store), index.log.refresh()

    def entries_of(file_slice: FileSlice) -> list[Batch]:
        sequence = record.first_sequence + record.located_at.index(file_slice.instant)
        found = snapshot.record_keys(file_slice)
        updates = (LocationUpdate.placing(keys, file_slice.group) for keys in found)
        return [batch for update in updates for batch in index.encoded(update, log, sequence)]

    with ShardPuts(index.store, index.codec.settings.shard_count) as puts:

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
    if cutoff is None:
        rows = _place(snapshot, index, log, sequences, shard)
    else:
        rows = 0
        for file_slice in shard:
            records = live_records(snapshot, file_slice, cutoff)
            rows += place_by_commit_time(index, log, file_slice, records, sequences)
    notes.finish(shard, rows)
    return rows


def _place(
    snapshot: Snapshot,
    index: StoredEntries,
    log: LogState,
    sequences: tuple[int, Sequence[str]],
    shard: Sequence[FileSlice],
) -> int:
    """Place the keys of some file slices in large batches, which the store can sort."""
    first, instants = sequences
    updates, numbers, rows = [], [], 0
    for file_slice in shard:
        for keys in snapshot.record_keys(file_slice):
            updates.append(LocationUpdate.placing(keys, file_slice.group))
            numbers.append(np.full(len(keys), first + instants.index(file_slice.instant), np.int64))
            rows += len(keys)
            if sum(map(len, numbers)) >= _KEYS_AT_ONCE:
                _apply(index, log, updates, numbers)
                updates, numbers = [], []
    _apply(index, log, updates, numbers)
    return rows


def _apply(
    index: StoredEntries, log: LogState, updates: Sequence[LocationUpdate], numbers: Sequence[NDArray[np.int64]]
) -> None:
    """Put updates as one batch, each with the sequences of its keys; one by one if a key is repeated."""
    keys = pa.chunked_array([part.record_keys for part in updates], pa.string())
    if updates and pc.count_distinct(keys).as_py() == len(keys):
        index.apply(LocationUpdate.joined(updates), log, np.concatenate(numbers))
        return
    # A store counts the keys of a batch, each of which is in the batch once.
    for part, sequence in zip(updates, numbers, strict=True):
        index.apply(part, log, sequence)
