"""A write that has begun, as engines see it: its instant, the state that it builds on, and what its tasks need to know.

The states of a write are types. ``BegunWrite`` is announced, and an engine writes its file groups. Their results are a
``PreparedWrite``. With the table's lease it is a ``LeasedWrite``. Where no commit of others is in its way, it is a ``CheckedWrite``, which
publishes it. From then on it is a ``PublishedWrite``, which nothing undoes. ``rli.commit.publishing`` leads a write from one to the next.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Self

from rli.commit.announced_instant import AnnouncedInstant
from rli.commit.exclusive_service import made_ready
from rli.commit.outcome import NotPublished
from rli.commit.step_clock import OnStep, StepClock
from rli.commit.write_basis import WriteBasis
from rli.errors import ConflictError, IndexMismatchError, InstantNotFoundError, RliError, StoreUnavailableError
from rli.hudi.timeline.instant import Action, Instant
from rli.hudi.timeline.timeline import Timeline
from rli.index.contract import IndexState, SyncOptions, TableIndex
from rli.index.roles import KeptInStore
from rli.model import FileGroupId, Step
from rli.tasks import TaskRunner
from rli.telemetry import events
from rli.view.caller_metadata import NO_METADATA, CallerMetadata
from rli.view.caller_transactions import RepeatedTransactionError, require_first
from rli.view.definition import TableDefinition
from rli.view.diff import added_writes, archived_instants, undone_writes
from rli.view.registration import require_same_lease
from rli.view.second_look import OVERTAKEN
from rli.view.snapshot import Snapshot
from rli.view.time_travel import missing_group


class BegunWrite(WriteBasis):
    """A write in progress. Have tasks write file groups with ``context``, then publish or abandon it.

    Attributes:
        clock: measures the steps of the write, and reports them.
        tasks: runs what can be run side by side.
        caller: what the caller has kept with the commit.
        patience: seconds; for how long the write waits for the lease at most.
        announced: its instant.
    """

    def __init__(
        self,
        announced: AnnouncedInstant,
        state: IndexState,
        index: TableIndex,
        clock: StepClock,
        tasks: TaskRunner,
        *,
        caller: CallerMetadata,
        patience: float,
    ) -> None:
        super().__init__(announced.table, index, clock)
        self.announced = announced
        self.instant = announced.time
        self.state = state
        self.clock = clock
        self.tasks = tasks
        self.caller = caller
        self.patience = patience

    @classmethod
    def begin(  # noqa: PLR0917  (called by operations through ``partial``)
        cls,
        table: TableDefinition,
        index: TableIndex,
        tasks: TaskRunner,
        on_step: OnStep,
        action: Action | None = None,
        caller: CallerMetadata = NO_METADATA,
        *,
        patience: float = math.inf,
    ) -> Self:
        """Clean up after dead writers, bring the index up to date, and announce a new instant.

        Args:
            table: the table.
            index: its index.
            tasks: runs what can be run side by side.
            on_step: called after each step.
            action: of the instant; None for that of the table's writes.
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
        if isinstance(index, KeptInStore):
            index.prepare_for_writing()
        # A repeat ends here, before any work. The answer is only early: the transaction may be committed from now on,
        # and the check under the lease decides (P26).
        require_first(ready.table.storage, ready.timeline, caller)
        action = action or ready.table.write_action
        announced, state = _announced_before_sync(ready.table, index, tasks, ready.timeline, action, patience=patience)
        begun = cls(announced, state, index, clock, tasks, caller=caller, patience=patience)
        try:
            begun.require_writable_state()
            clock(Step.REQUESTED)
            announced.on_timeline.begin()
            clock(Step.INFLIGHT)
        except BaseException:
            begun.withdraw()
            raise
        return begun

    def abandoned(self, failure: Exception, promoted: Iterable[str] = ()) -> NotPublished:
        """Remove every trace of the write, and find out whether it failed because of others.

        Args:
            failure: what ended it.
            promoted: the files that it may have brought into the table.
        """
        was_held = self.withdraw(promoted)
        if isinstance(failure, ConflictError | RepeatedTransactionError):
            return NotPublished(failure)
        # Any other error may be secondary: another writer may have removed our files, or undone commits we read.
        return NotPublished(self._failure_by_others(failure, was_held=was_held) or failure)

    def withdraw(self, promoted: Iterable[str] = ()) -> bool:
        """Remove every trace of the write, as far as storage and store answer; returns whether others had not done it.

        Args:
            promoted: the files that it may have brought into the table.
        """
        try:
            return self.announced.withdraw(promoted)
        except (OSError, RliError) as error:
            # The outcome of the write tells more. The next writer finds the folder, and removes it.
            events.LEFTOVER.log(folder=self.announced.folder, cause=error)
            return True

    def leave(self) -> None:
        """Give no more signs of life: the next holder of the lease decides about the write."""
        try:
            self.announced.signs.release()
        except (OSError, RliError) as error:
            # The outcome tells more. The record lapses.
            events.LEFTOVER.log(folder=self.announced.folder, cause=error)

    def _failure_by_others(self, failure: Exception, *, was_held: bool) -> RliError | None:
        """The error of a write that failed because of what others undid, removed or archived; None if that is not known."""
        try:
            self._require_undisturbed(failure, was_held=was_held)
        except (OSError, StoreUnavailableError):
            return None
        except RliError as found:
            found.__cause__ = failure
            return found
        return None

    def _require_undisturbed(self, failure: Exception, *, was_held: bool) -> None:
        # Writers that agree elsewhere have undone this write; its record may be gone with the former index.
        require_same_lease(self.table)
        # The order matters: a displaced writer finds its own files missing. Asked later, that loss would look like a
        # clean by another engine, or like a damaged table.
        if not was_held:
            raise self.announced.taken_for_dead()
        current = self.table.load_timeline()
        gone = (*self.state.withdrawn, *undone_writes(current, self.snapshot.timeline.write_times))
        if gone:
            raise ConflictError(
                f"commits that this write builds on were undone meanwhile: instants={list(gone)}",
                instants=gone,
                remedy="write again",
            )
        # Other engines do not know of this write. They archive commits that it has not read yet.
        archived = archived_instants(current, self.snapshot.timeline)
        if archived and isinstance(failure, OVERTAKEN):
            raise _archived(archived)
        # A listing behind a clustering has file groups that a hash function as of the snapshot does not know.
        added = [write.time for write in added_writes(current, self.snapshot.timeline.write_times)]
        if added and isinstance(failure, IndexMismatchError):
            raise ConflictError(
                f"others committed while this write listed the file groups: instants={added}",
                instants=tuple(added),
                remedy="write again",
            )
        try:
            cleaned = self._first_cleaned(current)
        except InstantNotFoundError as error:
            # They have done so since the timeline was loaded.
            raise _archived(archived) from error
        if cleaned is not None:
            raise ConflictError(
                f"a clean removed a file that this write builds on: partition={cleaned.partition_path} "
                f"file_id={cleaned.file_id}",
                remedy="write again",
            )

    def _first_cleaned(self, current: Timeline) -> FileGroupId | None:
        """A file group whose slice at the snapshot was deleted; other engines do not know of this write."""
        deleted = self.snapshot.slices.first_deleted()
        return deleted.group if deleted else missing_group(Snapshot(self.table, current), self.snapshot)


def _archived(instants: tuple[str, ...]) -> ConflictError:
    return ConflictError(
        f"commits that this write builds on were archived before it had read them: instants={list(instants)}",
        instants=instants,
        remedy="write again",
    )


def _announced_before_sync(
    table: TableDefinition, index: TableIndex, tasks: TaskRunner, timeline: Timeline, action: Action, *, patience: float
) -> tuple[AnnouncedInstant, IndexState]:
    """A new instant, and the state to build on, taken behind its request: no clean removes what a requested write may build on.

    A commit that began after the request has files that count as newer than those of this write, which then needs
    a later instant. So have log files of a commit that completed after the request, where the timeline tells when.
    """
    while True:
        announced = AnnouncedInstant.request(table, index, timeline, action, patience=patience)
        try:
            state = index.sync(table, SyncOptions(tasks))
        except BaseException:
            announced.withdraw()
            raise
        timeline = state.timeline
        if all(_counts_before(write, announced.time, table) for write in timeline.completed_writes):
            return announced, state
        announced.withdraw()


def _counts_before(write: Instant, requested: str, table: TableDefinition) -> bool:
    """Whether the files of a completed write count as older than the base files of a later request."""
    completed = None if table.properties.is_copy_on_write else write.completion_time
    return write.time <= requested if completed is None else completed < requested
