"""One write of a table, as its driver sees it: begin, let an engine write file groups, commit.

No part of a write is visible before one atomic step publishes the completed instant. From then on, no part can be lost:
this process, or the next writer's sync, brings the index up to date from the journals.
"""

from __future__ import annotations

import json
import math
import posixpath
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

import pyarrow as pa

from rli.commit.conflicts import PlannedCommit, require_no_conflict, require_same_deletes
from rli.commit.exclusive_service import made_ready
from rli.commit.lease import HeldLease
from rli.commit.prepared_write import PreparedWrite
from rli.commit.recovery import exclusive, is_published, undo_unpublished, writer_record
from rli.commit.shared_records import shared_records
from rli.commit.step_clock import StepClock
from rli.commit.write_basis import OnStep, WriteBasis
from rli.errors import ConflictError, LeaseLostError, RliError
from rli.file_group.journal_list import save_journals
from rli.file_group.writer import WriteContext
from rli.hudi.avro_schema import to_avro
from rli.hudi.table_features import require_writable
from rli.hudi.timeline.by_partition import by_partition
from rli.hudi.timeline.commit_metadata import COMMIT_MARK, DELETED_KEYS_FILES, CommitMetadata, WriteStat
from rli.hudi.timeline.instant import Action, new_instant_time
from rli.hudi.timeline.timeline import Timeline
from rli.index.contract import FileIndex, IndexState, TableIndex
from rli.model import CommitResult, FileGroupId, LeasePlace, Step
from rli.tasks import TaskRunner
from rli.telemetry import events
from rli.view import paths
from rli.view.caller_metadata import NO_METADATA, CallerMetadata
from rli.view.caller_transactions import delete_superseded, require_first, save_record
from rli.view.definition import TableDefinition
from rli.view.file_slices import PARTITION_METADATA, write_partition_metadata
from rli.view.history import facts_of_commit
from rli.view.lost_files import require_files, sums_after
from rli.view.metadata_table import switch_off_metadata_table
from rli.view.registration import has_other_index, require_same_lease
from rli.view.slice_sums import SLICE_SUMS, SliceSums
from rli.view.snapshot import Snapshot
from rli.view.time_travel import missing_group

_MARK_VERSION: Final = "1"


class WriteTransaction(WriteBasis):
    """A write in progress. Begin it, have tasks write file groups with ``context``, then commit or abort.

    Attributes:
        table: the definition, as it was when the write began.
        index: its index.
        instant: the write's instant.
        state: the state of table and index that the write builds on.
        timeline_after: the timeline with this commit, once it is committed.
    """

    def __init__(  # noqa: PLR0917  (called by ``begin`` alone)
        self,
        table: TableDefinition,
        index: TableIndex,
        tasks: TaskRunner,
        clock: StepClock,
        action: Action,
        timeline: Timeline,
        caller: CallerMetadata,
        patience: float,
    ) -> None:
        super().__init__(table, index, clock)
        self._clock = clock
        self._action = action
        self._caller = caller
        self._patience = patience
        self._tasks = tasks
        self.timeline_after: Timeline | None = None
        self._published = False
        self._was_held = True
        self._promoted: list[str] = []
        self._is_synced = True
        self.instant, self._holding = _announce(table, index, timeline, action)
        try:
            self.state = self._sync_behind_instant()
            self._require_writable_state()
            self.on_step(Step.REQUESTED)
            table.timeline_writer.start(self.instant, action)
            self.on_step(Step.INFLIGHT)
        except BaseException:
            self.abort()
            raise

    @classmethod
    def begin(  # noqa: PLR0917  (called by engines through ``partial``)
        cls,
        table: TableDefinition,
        index: TableIndex,
        tasks: TaskRunner,
        on_step: OnStep,
        action: Action = Action.COMMIT,
        caller: CallerMetadata = NO_METADATA,
        *,
        patience: float = math.inf,
    ) -> WriteTransaction:
        """Clean up after dead writers, bring the index up to date, and announce a new instant.

        Args:
            table: the table.
            index: its index.
            tasks: runs what can be run side by side.
            on_step: called after each step.
            action: of the instant.
            caller: what the caller has kept with the commit.
            patience: seconds; for how long the write waits for the lease at most, whenever it needs it.

        Raises:
            LeaseBusyError: the lease was not free in that time.
            RepeatedTransactionError: the caller's transaction was committed before.
            TransactionMismatchError: it was committed with another request, or a greater number was.
            UnsupportedTableError: rli does not write such tables.
            IndexNotReadyError: the index was never bootstrapped, or cannot follow the timeline.
        """
        clock = StepClock(on_step)
        ready = made_ready(table, index, "recovery before a write", patience=patience)
        index.prepare_for_writing()
        require_first(ready.table.storage, ready.timeline, caller)
        return cls(ready.table, index, tasks, clock, action, ready.timeline, caller, patience)

    def _sync_behind_instant(self) -> IndexState:
        """The state to build on, taken behind the request: no clean removes what a requested write may build on.

        A commit that began after the request has files that count as newer than those of this write, which then needs
        a later instant.
        """
        synced = self.index.sync(self.table, self._tasks)
        while any(write.time > self.instant for write in synced.timeline.completed_writes):
            self.abort()
            self.instant, self._holding = _announce(self.table, self.index, synced.timeline, self._action)
            synced = self.index.sync(self.table, self._tasks)
        return synced

    def context(self, schema: pa.Schema, *, is_synced: bool = True, kept: tuple[str, ...] = ()) -> WriteContext:
        self._is_synced = is_synced
        return super().context(schema, is_synced=is_synced, kept=kept)

    def commit(self, prepared: PreparedWrite) -> CommitResult:
        """Publish the files of the accepted tasks, and bring the index up to date.

        Raises:
            ConflictError: another writer got there first; nothing of this write is left.
            RepeatedTransactionError, TransactionMismatchError: another writer committed the caller's transaction; nothing of
                this write is left.
        """
        # A repeat of a transaction that changed nothing must change nothing, so it has a commit too.
        if not prepared.stats and not prepared.deleted_keys and not self._caller.is_given:
            try:
                self._require_files_read(self.snapshot, prepared)
            finally:
                self.abort()
            return prepared.result(None, self._clock.seconds)
        published: PreparedWrite | None = None
        try:
            self._write_ahead(prepared)
            self.on_step(Step.MANIFESTED)
            with exclusive(self.table, self.index, self.instant, patience=self._patience) as lease:
                with self._naming_the_loss(lease):
                    self.on_step(Step.LEASED)
                    # From here on, only a process that takes the lease over can roll this write back.
                    self._require_not_undone()
                    published = self._check_and_publish(prepared, lease)
                if self._shares_index:
                    # The next holder's check of conflicts needs this commit in the index. If the lease were free now, the
                    # next holder would read the journals from the disk, and both would write the same entries.
                    self._bring_index_up_to_date(published)
            if not self._shares_index:
                self._bring_index_up_to_date(published)
            if self.timeline_after is not None:
                self.on_step(Step.APPLIED)
        except BaseException as error:
            self.abort()
            # To give the lease back may fail where it was in a former index that nobody serves any more.
            if published is None or not isinstance(error, RliError) or not has_other_index(self.table):
                raise
        self._tidy_up()
        self.on_step(Step.FINISHED)
        return published.result(self.instant, self._clock.seconds)

    @property
    def is_published(self) -> bool:
        """Whether the commit stands: whatever fails afterwards, the write must not be tried again."""
        return self._published

    @property
    def _shares_index(self) -> bool:
        """Whether all writers of the table share this index; with the lease elsewhere, each host may have its own."""
        return self.table.require_settings().lease is LeasePlace.INDEX

    def _bring_index_up_to_date(self, published: PreparedWrite) -> None:
        """Apply the published commit. If that fails, the commit stands, and the next sync applies it."""
        try:
            synced = self.index.sync(
                self.table,
                self._tasks,
                on_registered=partial(self.on_step, Step.REGISTERED),
                on_part=partial(self.on_step, Step.CHANGES_APPLIED),
                held=published.journals,
            )
            self.timeline_after = synced.timeline
        except RliError:
            # The table may have another index now, which follows this commit; the former index may be gone (P37).
            if not has_other_index(self.table):
                raise

    def _tidy_up(self) -> None:
        """Remove the work folder; if this writer cannot, the next writer does."""
        try:
            self.table.storage.delete_folder(paths.work_folder(self.instant))
        except OSError as error:
            events.LEFTOVER.log(folder=paths.work_folder(self.instant), cause=error)
        finally:
            try:
                self._holding.release()
            except RliError:
                # With the index that it is kept in, a record is gone, or nobody asks for it.
                if not has_other_index(self.table):
                    raise

    def _require_not_undone(self) -> None:
        """Raise ``LeaseLostError`` if another writer took this one for dead before it had the lease."""
        self._holding.require_held()
        # A process that undoes a write removes its request before its record, and a record in files may have been made again
        # by a renewal that was paused. The folder does not tell: this write may have made it again.
        if self.table.timeline_writer.requested(self.instant, self._action) is None:
            raise self._taken_for_dead()

    def _taken_for_dead(self) -> LeaseLostError:
        return LeaseLostError(
            f"another writer took this writer for dead and removed its files: instant={self.instant}; this "
            "writer was paused or cut off for too long, write again"
        )

    def abort(self) -> None:
        """Remove every trace of the write; if it was published, only its work folder and its writer's record."""
        if self._published:
            self._tidy_up()
            return
        try:
            if self._is_retracted() and not is_published(self.table, self.instant):
                undo_unpublished(self.table, self.instant, self._promoted)
        finally:
            # A record that is renewed without a write behind it would keep others from clearing up.
            self._was_held = self._holding.release()

    def require_own_failure(self, failure: Exception) -> None:
        """Raise ``ConflictError`` if this write, which was aborted, failed because of what other writers undid.

        Raises:
            LeaseLostError: another writer took this one for dead, and removed what it had written.
            IndexMismatchError: the table has been given another index meanwhile.
            ConflictError: commits that it was to build on have been undone.
        """
        if self._published:
            return
        if not self._was_held:
            raise self._taken_for_dead() from failure
        # Writers that agree elsewhere have taken this one for dead.
        require_same_lease(self.table)
        current = self.table.load_timeline()
        built_on = (instant.time for instant in self.snapshot.timeline.completed_writes)
        gone = (*self.state.withdrawn, *(time for time in built_on if not current.is_visible(time)))
        if gone:
            raise ConflictError(
                f"commits that this write builds on were undone meanwhile: instants={list(gone)}; write again",
                instants=gone,
            ) from failure
        if (cleaned := self._first_cleaned(current)) is not None:
            raise ConflictError(
                f"a clean removed a file that this write builds on: partition={cleaned.partition_path} "
                f"file_id={cleaned.file_id}; write again"
            ) from failure

    def _first_cleaned(self, current: Timeline) -> FileGroupId | None:
        """A file group whose slice at the snapshot was deleted; other engines do not know of this write."""
        deleted = self.snapshot.slices.first_deleted()
        return deleted.group if deleted else missing_group(Snapshot(self.table, current), self.snapshot)

    def _check_and_publish(self, prepared: PreparedWrite, lease: HeldLease) -> PreparedWrite:
        """Publish a write, or what is left of it where it gives way to others; returns what was published."""
        synced = self.index.sync(self._still_writable(), self._tasks)
        require_first(self.table.storage, synced.timeline, self._caller)
        current, whole = synced.snapshot, prepared
        prepared = prepared.giving_way(self.snapshot, current)
        planned = PlannedCommit(
            instant=self.instant,
            state=self.state,
            stats=prepared.stats,
            journals=prepared.journals,
            schema=prepared.schema,
            read=prepared.read,
            replaced=prepared.replaced,
        )
        changes = self.index.changes(self.state, synced)
        if changes is not None:
            require_no_conflict(planned, changes, current, self._tasks)
        if self._deleted_keys is not None:
            now = partial(self._deleted_keys_of, current)
            require_same_deletes(prepared.read, self.snapshot, self._deleted_keys, current, now)
        # If nobody else has written, the files that this write has merged are those of the last commit.
        is_last = synced.timeline.latest_write == self.snapshot.timeline.latest_write
        checked = self.snapshot if is_last else current
        self._require_files_read(checked, prepared)
        written = {FileGroupId(stat.partition_path, stat.file_id) for stat in prepared.stats}
        sums = sums_after(checked, synced.timeline, self.instant, written, prepared.replaced)
        records = [*self._transaction_records(synced.timeline, prepared), *self._files_of_index(prepared, current)]
        if records or len(prepared.results) < len(whole.results):
            self._write_ahead(prepared, records)
        self._promote(prepared.stats, [*prepared.deleted_keys, *records])
        self._publish(synced.timeline, prepared, sums, lease)
        self._published = True
        self.on_step(Step.PUBLISHED)
        if prepared.resizing is not None:
            prepared.resizing.completed(self.table.storage, self.instant, prepared.replaced)
        return prepared

    def _require_files_read(self, checked: Snapshot, prepared: PreparedWrite) -> None:
        """Raise ``CorruptTableError`` if a file is lost that this write should have read, but for those of its own file groups.

        Args:
            checked: the state that shows the file groups.
            prepared: the write.
        """
        others = prepared.read.groups - prepared.replaced - {result.group for result in prepared.results if result.stat}
        require_files(checked, others)
        if isinstance(self.index, FileIndex):
            # A lost file may have held the keys that were found nowhere.
            require_files(self.snapshot, partition_paths=self.snapshot.slices.listed)

    @contextmanager
    def _naming_the_loss(self, lease: HeldLease) -> Iterator[None]:
        """Raise ``LeaseLostError`` where files are missing because a successor in the lease has removed them."""
        try:
            yield
        except FileNotFoundError:
            if not self._published:
                lease.require_held()
            raise

    def _still_writable(self) -> TableDefinition:
        began_with, self.table = self.table, self.table.reloaded()
        require_writable(self.table.properties)
        if self.table.properties.version != began_with.properties.version:
            raise ConflictError(
                f"another engine changed the version of the table during this write: table={self.table.location} "
                f"before={began_with.properties.version} now={self.table.properties.version}; write again"
            )
        return self.table

    def _transaction_records(self, timeline: Timeline, prepared: PreparedWrite) -> list[str]:
        """The record of the caller's transaction, which lies among the unpublished files, if there is one (P26)."""
        storage = self.table.storage
        if self._caller.transaction is not None:
            delete_superseded(storage, timeline, self._caller.transaction)
        return save_record(storage, self.instant, self._caller, prepared.result(self.instant))

    def _files_of_index(self, prepared: PreparedWrite, now: Snapshot) -> list[str]:
        """What the index keeps of a clustering in files of the table, which lie among the unpublished files (P39)."""
        if prepared.resizing is None:
            return []
        files = prepared.resizing.files(self.instant, now, prepared.replaced)
        for path, content in files.items():
            self.table.storage.write_bytes(paths.unpublished_file(self.instant, path), content)
        return list(files)

    def _write_ahead(self, prepared: PreparedWrite, records: Sequence[str] = ()) -> None:
        """Bring to the disk what the commit will refer to, before others have to wait for it (P17).

        Args:
            prepared: the write.
            records: what is promoted beside its base files.
        """
        storage = self.table.storage
        unsynced, manifest = storage.unsynced(), paths.manifest(self.instant)
        promoted = [*(stat.path for stat in prepared.stats), *prepared.deleted_keys, *records]
        unsynced.write_bytes(manifest, json.dumps(promoted).encode())
        listed = save_journals(unsynced, self.instant, prepared.journals, tell_updates=self.expired_before is not None)
        by_tasks = [
            *(paths.unpublished_file(self.instant, path) for path in promoted),
            *(journal.path for journal in prepared.journals),
        ]
        storage.sync(
            files=[
                manifest,
                listed,
                *([] if self._is_synced else by_tasks),
                *self.table.timeline_writer.pending_paths(self.instant, self._action),
            ],
            folders=[posixpath.dirname(manifest), posixpath.dirname(listed)],
        )

    def _promote(self, stats: Sequence[WriteStat], records: Sequence[str]) -> None:
        """Move the accepted files to where readers will look, once the instant has completed."""
        storage = self.table.storage
        write_partition_metadata(storage, {stat.partition_path for stat in stats}, self.instant)
        for path in (*(stat.path for stat in stats), *records):
            self._promoted.append(path)
            storage.move(paths.unpublished_file(self.instant, path), path)
            self.on_step(Step.FILE_PROMOTED)
        self.on_step(Step.PROMOTED)

    def _publish(self, timeline: Timeline, prepared: PreparedWrite, sums: SliceSums, lease: HeldLease) -> None:
        storage = self.table.storage
        switch_off_metadata_table(storage, self.table.reloaded().properties)
        metadata = CommitMetadata(
            write_stats=tuple(prepared.stats),
            replaced_file_ids=by_partition(
                (group.partition_path, [group.file_id]) for group in sorted(prepared.replaced)
            ),
            # A table that was never written has no schema yet.
            avro_schema=to_avro(prepared.schema, self.table.properties.name) if len(prepared.schema) else None,
            operation=prepared.operation,
            extra={
                **self._caller.extra,
                **facts_of_commit(prepared.counts, self.instant, self.table.now()),
                **({DELETED_KEYS_FILES: "\n".join(prepared.deleted_keys)} if prepared.deleted_keys else {}),
                SLICE_SUMS: sums.to_text(),
                COMMIT_MARK: _MARK_VERSION,
            },
        )
        content = paths.commit_content(self.instant)
        draft = storage.unsynced().draft(content, timeline.layout.encode(metadata))
        partitions = {stat.partition_path for stat in prepared.stats}
        storage.sync(
            files=[content, *(f"{partition}/{PARTITION_METADATA}".lstrip("/") for partition in partitions)],
            folders=[*map(posixpath.dirname, self._promoted)],
        )
        lease.require_held()
        completed_at = timeline.next_time(self.table.now())
        with self._left_to_successor_if_undecided(lease):
            # Fails once a successor in the lease has taken the draft back. Where the name is taken, an earlier answer
            # was lost: no other write has this instant.
            self.table.timeline_writer.publish(draft, self.instant, self._action, completed_at)

    @contextmanager
    def _left_to_successor_if_undecided(self, lease: HeldLease) -> Iterator[None]:
        """Leave the lease to be taken over where it is decided, or not known, that the write will be published (P22)."""
        try:
            yield
        except FileNotFoundError:
            raise
        except BaseException:
            is_retracted = False
            try:
                is_retracted = self._is_retracted()
            finally:
                if not is_retracted:
                    lease.leave_to_successor()
            raise

    def _is_retracted(self) -> bool:
        """See to it that nobody can publish this write, unless that is decided; whether nobody can."""
        return self.table.storage.retract(paths.commit_content(self.instant))


def _announce(table: TableDefinition, index: TableIndex, timeline: Timeline, action: Action) -> tuple[str, HeldLease]:
    """Request a new instant, after registering this writer in the shared records."""
    records, storage = shared_records(table, index), table.storage
    latest = timeline.latest_time
    while True:
        instant = new_instant_time(table.now(), latest)
        seconds = table.require_settings().lease_seconds
        holding = HeldLease(records, writer_record(instant), instant, seconds)
        if holding.take(over=None):
            try:
                # By its folder the write is found, after a power cut too, whatever else is left of it.
                storage.make_folder(paths.work_folder(instant))
                if not storage.is_local:
                    # In an object store a folder is there with its first object, and this write may have no other.
                    storage.write_bytes(paths.begun(instant), b"")
                storage.sync([paths.WORK, posixpath.dirname(paths.WORK)])
                if table.timeline_writer.request(instant, action):
                    return instant, holding
                storage.delete_folder(paths.work_folder(instant))
            except BaseException:
                holding.release()
                raise
            holding.release()
        latest = instant
