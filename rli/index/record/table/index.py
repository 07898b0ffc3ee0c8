"""The record index as the index of a table: it follows the timeline and answers its writers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

import pyarrow as pa

from rli.file_group.journal import SectionsOf
from rli.index.contract import IN_THIS_PROCESS, PointIndex, SyncOptions
from rli.index.record.columns.beside import ColumnsBeside
from rli.index.record.entries.expiring import expire
from rli.index.record.entries.purging import purge_if_it_pays
from rli.index.record.entries.sections import Sections
from rli.index.record.sync.repair import repair
from rli.index.record.sync.result import FollowedState
from rli.index.record.sync.sync import Progress, Sync, followed_state, unseen_instants
from rli.index.record.sync.verify import verify, whole_state
from rli.index.record.table.followed import FollowedCommits
from rli.index.record.table.in_store import InStore
from rli.index.record.table.location import relocate
from rli.index.reports import IndexFacts, Unseen, VerifyReport
from rli.index.roles import AppliesSections, ExpiresKeys, ForgetsDeletes, KnowsPlaces
from rli.store.home import SupportsHome
from rli.tasks import TaskRunner
from rli.telemetry import events
from rli.view.definition import TableDefinition


class RecordTableIndex(
    FollowedCommits, InStore, ColumnsBeside, PointIndex, AppliesSections, ForgetsDeletes, KnowsPlaces, ExpiresKeys
):
    """The record index of one table."""

    kind = "record"

    # Following the table ---------------------------------------------------------------------------------------

    def sync(self, table: TableDefinition, options: SyncOptions = IN_THIS_PROCESS) -> FollowedState:
        told = {Progress.REGISTERED: options.on_registered, Progress.PART: options.on_part}
        return Sync(table, self, options.tasks, options.held).run(lambda progress: told[progress]())

    def unseen(self, table: TableDefinition) -> tuple[FollowedState, Unseen]:
        return unseen_instants(table, self)

    # Questions of a writer -------------------------------------------------------------------------------------

    @property
    def sections_of(self) -> SectionsOf:
        return Sections(self.codec)

    @property
    def keys_together(self) -> int:
        return self.limits.commit_keys if isinstance(self.store, SupportsHome) else self.limits.commit_keys_side_by_side

    # Look-ups of readers ---------------------------------------------------------------------------------------

    def locate_now(
        self,
        record_keys: pa.Array,
        timeout: float,
        await_synced: Callable[[float], object],
        partition_paths: pa.Array | None = None,
    ) -> pa.Table:
        return self.located(record_keys, timeout, lambda left: await_synced(left.seconds), partition_paths)

    # Table services --------------------------------------------------------------------------------------------

    def forget_deletes(self, kept: Sequence[str]) -> int:
        if self.ttl is not None:
            expire(self)
        return purge_if_it_pays(self, kept) + self.forget_deletes_of_columns(kept)

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
