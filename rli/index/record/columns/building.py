"""How the index of a column is filled: in shards, each of them the records of some files of the table.

A shard is noted once the store has it (``ShardPuts``). A build that died goes on behind its last finished shard, and two processes that
fill one index at a time put the same entries. Readers use the index once all shards are there and its watermark says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from rli.codec.entries import pack
from rli.index.record.columns.entry_keys import NO_FILE_GROUP, entry_keys
from rli.index.record.entries.builds import BuildNotes, state_of_build, unfinished_build
from rli.index.record.entries.shard_puts import ShardPuts
from rli.index.record.entries.stored_entries import Batch, StoredEntries
from rli.index.record.log.actions import BOOTSTRAP
from rli.index.record.log.record import RecordDraft
from rli.index.record.sync.archived_commits import note_beginning
from rli.index.roles import OnFiles
from rli.store.contract import Watermarks
from rli.tasks import InThreads
from rli.view.column_values import ColumnValues
from rli.view.definition import TableDefinition
from rli.view.file_slices import FileSlice
from rli.view.flushed_commits import sync_table
from rli.view.shards import shards
from rli.view.snapshot import Snapshot
from rli.view.time_travel import verified_snapshot


@dataclass(frozen=True, slots=True)
class Build:
    """A build that has begun.

    Attributes:
        index: that is filled.
        snapshot: the state of the table whose records it gets.
        applied: watermarks of the store from before the first entry.
        sequence: of the entries; 0 where the table has no records.
    """

    index: StoredEntries
    snapshot: Snapshot
    applied: Watermarks
    sequence: int

    @classmethod
    def begun(cls, index: StoredEntries, table: TableDefinition) -> Build | None:
        """Begin to fill an empty index; None if another process has begun.

        Raises:
            CorruptTableError: a file is lost or damaged.
        """
        # In the order of a bootstrap of the record index, for the same reasons (P14, P17).
        applied, snapshot = index.store.applied(), verified_snapshot(table)
        sync_table(snapshot)
        note_beginning(index, snapshot.timeline)
        completed = [instant.time for instant in snapshot.timeline.completed]
        if not completed:
            return cls(index, snapshot, applied, 0)
        state = index.log.append(index.log.refresh(), _draft(completed))
        if state is None:
            return None
        BuildNotes(index.store).begin(applied)
        return cls(index, snapshot, applied, state.head)

    @classmethod
    def resumed(cls, index: StoredEntries, table: TableDefinition) -> Build | None:
        """The build that another process has begun, of the state that it began with; None if it has to begin again.

        Raises:
            CorruptTableError: a file is lost or damaged.
        """
        begun = unfinished_build(index)
        if begun is None:
            return None
        applied, record = begun
        snapshot = verified_snapshot(table)
        state = state_of_build(snapshot, record)
        if state is None or state.schema != snapshot.schema:
            # The column of this name may have been another one.
            return None
        return cls(index, state, applied, record.last_sequence)

    def fill(self, values: ColumnValues, on_files: OnFiles) -> int:
        """Put the entries of all shards that are not there yet; returns how many records the table had.

        Memory is bounded by the entries of a few shards.

        Args:
            values: reads the column.
            on_files: is told what was read.

        Raises:
            CorruptTableError: a file is lost or damaged.
        """
        slices = sorted(self.snapshot.slices.values(), key=lambda one: one.group) if self.sequence else []
        notes = BuildNotes(self.index.store)
        rows = read = 0
        with ShardPuts(self.index) as puts:
            for shard in shards(slices):
                if (known := notes.rows_of(shard)) is None:
                    parts = [*InThreads().run(partial(self._entries, values), shard)]
                    known = sum(count for count, _ in parts)
                    puts.add(shard, known, [batch for _, batches in parts for batch in batches])
                rows, read = rows + known, read + len(shard)
                on_files(read, len(slices))
            puts.finish()
        return rows

    def _entries(self, values: ColumnValues, file_slice: FileSlice) -> tuple[int, list[Batch]]:
        """How many records a slice has, and their entries."""
        rows = values.of_slice(file_slice, with_instants=False)
        found, keys = (rows[name].combine_chunks() for name in ("value", "key"))
        encoded = entry_keys(found, keys, self.index.settings.shard_count)
        return len(rows), [(batch, pack(self.sequence, np.full(len(batch), NO_FILE_GROUP))) for batch in encoded]


def _draft(completed: Sequence[str]) -> RecordDraft:
    last = completed[-1]
    return RecordDraft(instant=last, action=BOOTSTRAP, writer=BOOTSTRAP, located_at=(last,), covers=tuple(completed))
