"""Bootstrap: building the index of a table that has records already."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Self

from rli.errors import CorruptTableError, IndexNotReadyError, RepeatedKeyError
from rli.hudi.table_features import remedy_of_bootstrap
from rli.index.record.entries.builds import BuildNotes, state_of_build, unfinished_build
from rli.index.record.entries.stored_entries import StoredEntries
from rli.index.record.entries.time_to_live import expired_before
from rli.index.record.log.actions import BOOTSTRAP
from rli.index.record.log.record import LogRecord, RecordDraft
from rli.index.record.sync.archived_commits import note_beginning
from rli.index.record.sync.known_slices import known_slices
from rli.index.record.sync.placing import place_in_order, place_shard
from rli.index.record.sync.repeated_keys import repeated_keys
from rli.index.record.sync.written_keys import entry_instants
from rli.store.contract import Watermarks
from rli.tasks import TaskRunner, runs_in_turn
from rli.telemetry import events
from rli.view.definition import TableDefinition
from rli.view.flushed_commits import sync_table
from rli.view.shards import shards
from rli.view.snapshot import Snapshot
from rli.view.time_travel import verified_snapshot


def bootstrap(table: TableDefinition, index: StoredEntries, tasks: TaskRunner, build: Bootstrap | None = None) -> int:
    """Fill an index with the locations of all records; returns how many there are. Raises as ``Bootstrap.finish``.

    Args:
        table: the table.
        index: empty, or that of ``build``.
        tasks: runs the work on shards of files.
        build: that goes on; None to begin one.
    """
    return (build or Bootstrap.begun(table, index, tasks)).finish(tasks)


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """A build of a record index that has begun.

    Attributes:
        index: that is filled.
        snapshot: the state of the table whose records it gets.
        applied: watermarks of the store from before the first entry.
        record: of the build in the log; None where the table has no records.
    """

    index: StoredEntries
    snapshot: Snapshot
    applied: Watermarks
    record: LogRecord | None

    @classmethod
    def begun(cls, table: TableDefinition, index: StoredEntries, tasks: TaskRunner) -> Self:
        """Begin to fill an empty index.

        Raises:
            CorruptTableError: another process has begun, or a file is lost.
        """
        # Before the first entry, so that ``mark_applied`` notices a server that was replaced at any time during the build
        # (P14).
        applied = index.store.applied()
        snapshot = verified_snapshot(table)
        # What the index has followed, the table must not lose (P17), of any writer.
        sync_table(snapshot)
        # What completes during the build may be archived before the first sync.
        note_beginning(index, snapshot.timeline)
        completed = [instant.time for instant in snapshot.timeline.completed]
        instants = completed or sorted({file_slice.instant for file_slice in snapshot.slices.values()})
        if not instants:
            return cls(index, snapshot, applied, None)
        last = instants[-1]
        # The log of the new index names no instant yet, which would be its clock.
        cutoff = expired_before(index.ttl, last)
        located_at = entry_instants(snapshot, known_slices(snapshot, index), cutoff, tasks) or [last]
        # The record first: entries need the numbers that it gives out. Until the watermark is set, nobody shows them
        # (P8), and a build that dies leaves an index that was never bootstrapped.
        log = index.log.append(index.log.refresh(), _draft(snapshot, last, located_at))
        if log is None:
            raise CorruptTableError(
                f"the index is being bootstrapped by another process: index={index.url}",
                remedy="wait for it, or bootstrap again: two processes share the work",
            )
        BuildNotes(index.store).begin(applied)
        return cls(index, snapshot, applied, log.records[-1])

    @classmethod
    def resumed(cls, table: TableDefinition, index: StoredEntries) -> Self | None:
        """The build that another process has begun, of the state that it began with; None if it has to begin again.

        Raises:
            CorruptTableError: a file is lost or damaged.
        """
        begun = unfinished_build(index)
        if begun is None:
            return None
        applied, record = begun
        state = state_of_build(verified_snapshot(table), record)
        return None if state is None else cls(index, state, applied, record)

    def finish(self, tasks: TaskRunner) -> int:
        """Place all keys that are not there yet, compare their number with the records, and let readers use the index.

        Keys are placed with one commit sequence for each instant that wrote a live base file, so look-ups report that
        instant; where keys expire, with one for each instant that wrote a record last. Commits that complete meanwhile are
        found by the next sync.

        Args:
            tasks: runs the work on shards of files.

        Returns:
            How many records there are.

        Raises:
            RepeatedKeyError: a record key lives in more than one place.
            CorruptTableError: a file is lost.
            IndexNotReadyError: a server of the index was replaced meanwhile.
        """
        began, index, rows = time.monotonic(), self.index, 0
        if self.record is not None:
            cutoff = expired_before(index.ttl, self.record.instant)
            rows = self._placed(self.record, cutoff, tasks)
            # Another process may have finished the same build, and writers have gone on since.
            if index.store.applied_sequence() is None:
                _require_distinct_keys(self.snapshot, index, tasks, rows)
        sequence = 0 if self.record is None else self.record.last_sequence
        if not index.store.mark_applied(self.applied, sequence):
            raise IndexNotReadyError(
                f"a server of the index was replaced during the bootstrap, and may have lost entries: index={index.url}",
                remedy="bootstrap the index again",
            )
        seconds = time.monotonic() - began
        events.INDEX_BUILT.log(table=self.snapshot.table.location, index=index.url, records=rows, seconds=seconds)
        return rows

    def _placed(self, record: LogRecord, cutoff: str | None, tasks: TaskRunner) -> int:
        """Place all keys that are not there yet; returns how many there are in all."""
        lots = [*shards(known_slices(self.snapshot, self.index))]
        if cutoff is None and self.index.store.build_batch and runs_in_turn(tasks):
            return place_in_order(self.snapshot, self.index, record, lots, tasks)
        return sum(tasks.run(partial(place_shard, self.snapshot, self.index, cutoff, record), lots))


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


def _require_distinct_keys(snapshot: Snapshot, index: StoredEntries, tasks: TaskRunner, rows: int) -> None:
    entries = index.store.stats().live_entries
    if entries == rows:
        return
    # The next build is of a table whose records are mended by then, not of the state with the repeated keys.
    BuildNotes(index.store).give_up()
    found = repeated_keys(snapshot, index, tasks)
    sample = "; ".join(f"{key!r} in {', '.join(files)}" for key, files in found.items())
    raise RepeatedKeyError(
        f"record keys are stored more than once: table={snapshot.table.location} records={rows} keys={entries} sample: "
        f"{sample} (a record-level index needs keys that are unique in the table)",
        remedy=remedy_of_bootstrap(snapshot.table.properties),
    )
