"""Restoring: going back to a commit by undoing all later ones, on the timeline as Hudi does it.

The plan lies on the timeline before anything is undone, and so does the list of the files that go: so a restore that
was interrupted is finished by the next writer. Commits stop being visible one by one, the newest first: on the way the
table is as it was after one of them. The index follows in the next sync (``rli.index.record.sync.undoing``).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

from rli.errors import InstantNotFoundError
from rli.file_group.undone_commits import forget_undone
from rli.hudi.timeline.by_partition import by_partition
from rli.hudi.timeline.instant import Action, Instant
from rli.hudi.timeline.restore_metadata import RestoreMetadata, RestorePlan
from rli.hudi.timeline.rollback_metadata import RollbackMetadata
from rli.hudi.timeline.timeline import Timeline
from rli.publication.fence import Fence
from rli.publication.instants import TableInstant
from rli.services.planned import PlannedService
from rli.services.undo_plan import (
    kept_by_index,
    planned_files,
    require_undoable,
    unschedule_compactions,
    written_files,
)
from rli.telemetry import events, metrics
from rli.view.definition import TableDefinition
from rli.view.snapshot import Snapshot
from rli.view.table_change import TableChange
from rli.view.time_travel import require_files_as_of


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """What a restore did.

    Attributes:
        instant: of the restore; None if there was no later commit to undo.
        restored_to: the commit that the table is as of.
        undone: the later commits, the newest first.
        dry_run: whether it only told what it would do.
    """

    instant: str | None
    restored_to: str
    undone: tuple[str, ...]
    dry_run: bool = False


def restore_plan(snapshot: Snapshot, instant_time: str) -> bytes | None:
    """The plan to go back to a commit; None if it is the last.

    Args:
        snapshot: the table's present state; the caller holds the lease.
        instant_time: of the commit.

    Raises:
        InstantNotFoundError: it is no completed commit, or files that it needs were cleaned.
        UnsupportedTableError: a later commit replaced whole file groups and is another engine's, or a savepoint keeps one.
    """
    later = undoable_after(snapshot, instant_time)
    if not later:
        return None
    return RestorePlan(instant_time, tuple((instant.time, instant.action) for instant in later)).to_avro()


def undoable_after(snapshot: Snapshot, instant_time: str) -> list[Instant]:
    """The commits that a restore undoes, the newest first; raises as ``restore_plan`` if it cannot."""
    later = commits_after(snapshot.timeline, instant_time)
    if later:
        require_undoable(snapshot, later)
        require_files_as_of(snapshot, snapshot.as_of(instant_time))
    return later


class Restore(PlannedService[RestoreResult | None]):
    """Undoes all commits after one.

    Its result is None if another engine committed after the plan was made. What that may build on stays then: only
    commits that were no longer visible are undone.
    """

    action = Action.RESTORE

    def _carry_out(self, announced: TableInstant, fence: Fence) -> RestoreResult | None:
        started = time.monotonic()
        table, storage = announced.table, announced.table.storage
        plan = _plan_of(announced)
        metadata = _begun(announced, plan, fence)
        visible = {
            instant.time for instant in table.load_timeline().completed_writes if instant.time > plan.restored_to
        }
        if visible - {rollback.instant_time for rollback in metadata.rollbacks}:
            metadata = metadata.without(visible)
        undone = [TableInstant(table, rollback.instant_time, rollback.action) for rollback in metadata.rollbacks]
        for commit in undone:
            commit.withdraw()
        times = [commit.time for commit in undone]
        unschedule_compactions(
            table, (path for one in metadata.rollbacks for path in planned_files(one.deleted)), times
        )
        for rollback in metadata.rollbacks:
            storage.delete_files(planned_files(rollback.deleted))
            storage.delete_files(kept_by_index(rollback.deleted, rollback.instant_time, rollback.action))
            storage.flush(folders=rollback.deleted)
        forget_undone(storage, frozenset(times))
        milliseconds = int((time.monotonic() - started) * 1000)
        fence.complete(announced, _change_of(metadata), metadata.taking(milliseconds).to_avro())
        # Until here they were pending: a timeline that shows neither them nor the restore would not be the index's (P7).
        for commit in undone:
            commit.remove_for_good()
        metrics.SERVICES.add(1, service="restore")
        events.RESTORE_DONE.log(
            table=table.location,
            instant=plan.restored_to,
            restore=announced.time,
            undone=times,
            seconds=time.monotonic() - started,
        )
        return restore_outcome(announced)

    def _commit_of(self, done: RestoreResult | None) -> str | None:
        return None if done is None else done.restored_to


RESTORE: Final = Restore()


def restore_outcome(completed: TableInstant) -> RestoreResult | None:
    """What a completed restore did, whichever process carried it out; None if another engine overtook its plan."""
    plan = _plan_of(completed)
    metadata = RestoreMetadata.from_avro(completed.content() or b"", f"{completed.time}.{Action.RESTORE}")
    undone = tuple(rollback.instant_time for rollback in metadata.rollbacks)
    is_overtaken = undone != tuple(commit_time for commit_time, _ in plan.undone)
    return None if is_overtaken else RestoreResult(completed.time, plan.restored_to, undone)


def _begun(announced: TableInstant, plan: RestorePlan, fence: Fence) -> RestoreMetadata:
    """What a restore will have done, as its inflight state says; begins it if nobody has."""
    begun = announced.progress()
    if begun is None:
        intended = _intended(announced.table, announced.time, plan)
        begun = intended.to_avro()
        fence.start(announced, _change_of(intended), begun)
    return RestoreMetadata.from_avro(begun, f"{announced.time}.{Action.RESTORE}.inflight")


def _change_of(metadata: RestoreMetadata) -> TableChange:
    files = by_partition(item for rollback in metadata.rollbacks for item in rollback.deleted.items())
    return TableChange.removing(files, [rollback.instant_time for rollback in metadata.rollbacks])


def _plan_of(restore: TableInstant) -> RestorePlan:
    return RestorePlan.from_avro(restore.plan() or b"", f"{restore.time}.{Action.RESTORE}.requested")


def commits_after(timeline: Timeline, instant_time: str) -> list[Instant]:
    """The commits that a restore undoes, the newest first; raises as ``require_commit``."""
    require_commit(timeline, instant_time)
    return [instant for instant in reversed(timeline.completed_writes) if instant.time > instant_time]


def require_commit(timeline: Timeline, instant_time: str) -> Instant:
    """The completed commit of that time; raises ``InstantNotFoundError`` if the timeline shows none."""
    for instant in timeline.completed_writes:
        if instant.time == instant_time:
            return instant
    raise InstantNotFoundError(
        f"the timeline shows no completed commit of this time: instant={instant_time}",
        remedy="list the commits: rli timeline TABLE",
    )


def _intended(table: TableDefinition, restore: str, plan: RestorePlan) -> RestoreMetadata:
    """What the restore will have done; asked before it does anything, while every commit can still be read."""
    snapshot = Snapshot.now(table)
    rollbacks = (
        RollbackMetadata(
            start_time=restore,
            instant_time=commit_time,
            action=action,
            milliseconds=0,
            deleted=written_files(table.storage, snapshot.change(require_commit(snapshot.timeline, commit_time))),
        )
        for commit_time, action in plan.undone
    )
    return RestoreMetadata(restore, 0, tuple(rollbacks))
