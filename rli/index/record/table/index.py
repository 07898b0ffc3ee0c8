"""The record index as the index of a table: it follows the timeline and answers its writers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

import pyarrow as pa

from rli.errors import IndexNotFoundError
from rli.file_group.journal import Journal, SectionsOf
from rli.index.contract import PointIndex
from rli.index.record.entries.expiring import expire
from rli.index.record.entries.identity import give_identity, identity_of
from rli.index.record.entries.purging import purge
from rli.index.record.entries.sections import Sections
from rli.index.record.index_of_table import IndexOfTable
from rli.index.record.sync.actions import action_of
from rli.index.record.sync.following import Evidence
from rli.index.record.sync.repair import repair
from rli.index.record.sync.result import SyncResult
from rli.index.record.sync.sync import Progress, Sync, followed_state, unseen_instants
from rli.index.record.sync.verify import verify, whole_state
from rli.index.record.table.location import relocate
from rli.index.reports import IndexFacts, Unseen, VerifyReport
from rli.store.contract import Store
from rli.store.purging import SupportsPurge
from rli.tasks import TaskRunner
from rli.telemetry import events
from rli.view.definition import TableDefinition

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

    @property
    def sections_of(self) -> SectionsOf:
        return Sections(self.codec)

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
        table: TableDefinition,
        tasks: TaskRunner,
        await_synced: Callable[[], object],
    ) -> VerifyReport:
        return verify(partial(whole_state, partial(followed_state, table, self, await_synced)), self, tasks)

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
