"""The record index as the index of a table: it follows the timeline and answers its writers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rli.codec import entries as codec
from rli.codec.entries import Entries
from rli.errors import ConflictError, IndexNotFoundError
from rli.file_group.journal import Journal, SectionsOf
from rli.index.contract import ChangedKeys, IndexState, PointIndex
from rli.index.locators import Locator
from rli.index.record.entries.expiring import expire
from rli.index.record.entries.identity import give_identity, identity_of, require_applied
from rli.index.record.entries.purging import floor_of_look_ups, purge
from rli.index.record.entries.sections import Sections
from rli.index.record.index_of_table import IndexOfTable
from rli.index.record.record_index import RecordIndex
from rli.index.record.sync.actions import action_of
from rli.index.record.sync.following import Evidence
from rli.index.record.sync.repair import repair
from rli.index.record.sync.result import SyncResult
from rli.index.record.sync.sync import Progress, Sync, unseen_instants
from rli.index.record.sync.verify import verify, whole_state
from rli.index.record.table.location import relocate
from rli.index.reports import IndexFacts, SomeKeys, Unseen, VerifyReport, sum_of
from rli.storage import Storage
from rli.store.contract import Store
from rli.store.purging import SupportsPurge
from rli.tasks import TaskRunner
from rli.telemetry import events
from rli.view.definition import TableDefinition

_SAMPLE: Final = 5
_LEAST_TOMBSTONES: Final = 1024
_ENTRIES_PER_TOMBSTONE: Final = 4


class RecordTableIndex(IndexOfTable, PointIndex):
    """The record index of one table."""

    kind = "record"

    @property
    def identity(self) -> str | None:
        return identity_of(self.store)

    @property
    def shared_store(self) -> Store | None:
        return self.store

    # Following the table ---------------------------------------------------------------------------------------

    def sync(
        self,
        table: TableDefinition,
        tasks: TaskRunner,
        on_registered: Callable[[], None] = lambda: None,
        on_part: Callable[[], None] = lambda: None,
        held: Sequence[Journal] = (),
    ) -> SyncResult:
        told = {Progress.REGISTERED: on_registered, Progress.PART: on_part}
        return Sync(table, self, tasks, held).run(lambda progress: told[progress]())

    def unseen(self, table: TableDefinition) -> tuple[SyncResult, Unseen]:
        return unseen_instants(table, self)

    def prepare_for_writing(self) -> None:
        give_identity(self.store)

    # Questions of a writer -------------------------------------------------------------------------------------

    def locator(self, state: IndexState, instant: str | None = None) -> RecordLocator:
        return RecordLocator(self, _own(state).sequence, self.expired_before(state, instant))

    def expired_before(self, state: IndexState, instant: str | None = None) -> str | None:
        return self.cutoff(_own(state).log, instant)

    @property
    def sections_of(self) -> SectionsOf:
        return Sections(self.codec)

    def changes(self, before: IndexState, now: IndexState) -> RecordChanges | None:
        sequence = _own(before).sequence
        later = _own(now).log.records_after(sequence)
        if not later:
            return None
        instants = sorted({instant for record in later for instant in record.instants})
        return RecordChanges(self, sequence, now.snapshot.table.storage, tuple(instants))

    # Questions of a recovery -----------------------------------------------------------------------------------

    @property
    def is_built(self) -> bool:
        return self.applied_sequence() is not None

    def standing(self, instants: Iterable[str]) -> list[str]:
        return self.log.refresh().standing(instants)

    def knows(self, instant: str) -> bool:
        return self.log.last_read.knows(instant) or self.log.refresh().knows(instant)

    def last_followed(self) -> list[tuple[str, str]]:
        log, found = self.log.refresh(), []
        for record in reversed(log.records):
            evidence = action_of(record).evidence
            if evidence is Evidence.COMMIT and record.instant:
                found.append((record.instant, record.action))
            elif evidence is not Evidence.NONE:
                break
        standing = set(log.standing(instant for instant, _ in found))
        return [(instant, action) for instant, action in found if instant in standing]

    # Look-ups of readers ---------------------------------------------------------------------------------------

    def locate_now(
        self,
        table: TableDefinition,  # noqa: ARG002  (of the contract)
        record_keys: pa.Array,
        timeout: float,
        await_synced: Callable[[float], object],
        partition_paths: pa.Array | None = None,
    ) -> pa.Table:
        return self.located(record_keys, timeout, await_synced, partition_paths)

    # Table services --------------------------------------------------------------------------------------------

    def forget_deletes(self, kept: Sequence[str]) -> int:
        if self.ttl is not None:
            expire(self)
        # A purge reads the whole index, so it waits until one entry in five is a tombstone.
        if not isinstance(self.store, SupportsPurge):
            return 0
        stored = self.store.stats()
        if stored.tombstones < max(_LEAST_TOMBSTONES, stored.live_entries // _ENTRIES_PER_TOMBSTONE):
            return 0
        log = self.log.refresh()
        return purge(self, min((log.sequence_of(instant) or 0 for instant in kept), default=0) - 1)

    def relocate(self, table: TableDefinition, *, also: bool) -> tuple[str, ...]:
        return relocate(table, self, also=also)

    def verify_against(
        self,
        table: TableDefinition,  # noqa: ARG002  (of the contract)
        tasks: TaskRunner,
        await_synced: Callable[[], IndexState],
    ) -> VerifyReport:
        return verify(partial(whole_state, lambda: _own(await_synced())), self, tasks)

    def repair_from(self, table: TableDefinition, tasks: TaskRunner) -> VerifyReport:
        look = partial(whole_state, Sync(table, self, tasks).run)
        began = time.monotonic()
        while (report := repair(look, self, tasks)) is None:
            pass
        if not report.agrees:
            events.INDEX_REPAIRED.log(
                table=table.location,
                index=self.url,
                missing=report.missing,
                misplaced=report.misplaced,
                dangling=report.dangling,
                repeated=report.repeated,
                seconds=time.monotonic() - began,
            )
        return report

    # The index as a whole --------------------------------------------------------------------------------------

    def facts(self) -> IndexFacts:
        stored = self.store.stats() if self.store.counts else None
        return IndexFacts(
            entries=None if stored is None else stored.live_entries,
            bytes=None if stored is None else stored.stored_bytes,
            shards=self.settings.shard_count,
            key_mode=str(self.settings.key_mode),
            format_version=self.settings.format_version,
        )

    def count(self) -> int:
        return self.store.stats().live_entries

    def is_gone(self) -> bool:
        try:
            self.applied_sequence()
        except IndexNotFoundError:
            return True
        return False


class RecordLocator(Locator):
    """Looks keys up as of a commit sequence.

    Args:
        index: has applied it.
        sequence: of the state.
        cutoff: records that were written last before it have expired; None where keys do not expire.
    """

    def __init__(self, index: RecordIndex, sequence: int, cutoff: str | None = None) -> None:
        self._index = index
        self._sequence = sequence
        self._cutoff = cutoff

    def locate(self, record_keys: pa.Array, partition_paths: pa.Array) -> pa.Table:
        index = self._index
        self.require_known(partition_paths)
        stored = index.stored_keys(record_keys, partition_paths)
        entries = index.get(stored, require_applied(index.store, self._sequence))
        return self._unless_changed(record_keys, entries)

    def locate_all(self, record_keys: pa.Array) -> pa.Table:
        self._index.require_all_known("look keys up in every partition")
        applied = require_applied(self._index.store, self._sequence)
        found = self._unless_changed(*self._index.get_everywhere(record_keys, applied))
        return found.filter(found.column("file_id").is_valid())

    def require_known(self, partition_paths: pa.Array) -> None:
        known = self._index.partitions
        if not known.are_all:
            known.require(pc.unique(partition_paths).to_pylist(), self._index.url, "locate records of another one")

    def trace(self, stored: pa.Table) -> pa.Table:
        keys, paths = (stored.column(name).combine_chunks() for name in ("record_key", "partition_path"))
        known = self._index.partitions.rows_in(paths)
        # The records of a clustering are of one partition.
        if known is not None and not pc.all(known).as_py():
            return stored
        return RecordLocator(self._index, self._sequence).locate(keys, paths)

    def _unless_changed(self, record_keys: pa.Array, entries: Entries) -> pa.Table:
        newer = np.flatnonzero(codec.sequences(entries) > self._sequence)
        # Tombstones of later commits may be gone, by which those would be noticed (P30).
        if len(newer) or floor_of_look_ups(self._index) > self._sequence:
            sample = tuple(record_keys.take(newer[:_SAMPLE]).to_pylist())
            raise ConflictError(
                f"another commit changed records while this write looked them up: count={len(newer)} "
                f"keys={list(sample)}; write again",
                keys=sample,
                key_count=len(newer),
            )
        return self._index.locations(record_keys, entries, self._cutoff)


class RecordChanges(ChangedKeys):
    """Finds keys whose entries are newer than a commit sequence.

    Args:
        index: all of the table is in it.
        sequence: of the state that the write builds on.
        storage: the table.
        instants: what was committed since.
    """

    def __init__(self, index: RecordIndex, sequence: int, storage: Storage, instants: tuple[str, ...]) -> None:
        self._index = index
        self._sequence = sequence
        self._storage = storage
        self.instants = instants
        self.keys_expire = index.ttl is not None

    def placed_by(self, journals: Sequence[Journal], tasks: TaskRunner) -> SomeKeys:
        return sum_of(tasks.run(self._placed_by_one, journals))

    def among(self, record_keys: pa.Array) -> SomeKeys:
        keys, entries = self._index.get_everywhere(record_keys, require_applied(self._index.store, self._sequence))
        return self._newer(keys, entries)

    def _placed_by_one(self, journal: Journal) -> SomeKeys:
        index, path = self._index, journal.group.partition_path
        applied = require_applied(index.store, self._sequence)
        placed = journal.placed_keys(self._storage)
        return sum_of(self._newer(keys, index.get(index.stored_keys_in(path, keys), applied)) for keys in placed)

    def _newer(self, record_keys: pa.Array, entries: Entries) -> SomeKeys:
        return SomeKeys.of([record_keys.filter(pa.array(codec.sequences(entries) > self._sequence)).unique()])


def _own(state: IndexState) -> SyncResult:
    if not isinstance(state, SyncResult):
        raise TypeError(f"a state of another kind of index: {type(state).__name__}")
    return state
