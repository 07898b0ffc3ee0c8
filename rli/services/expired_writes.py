"""What dead processes of Hudi left on tables that share a lock with Hudi's writers; what a living one may be at is left alone.

Their writes are rolled back, and their rollbacks carried out. Hudi's own writers do the same before a clean
(``hoodie.clean.failed.writes.policy=LAZY``). Without this, a table that Hudi does not write any more would keep the files of such a
write, and all instants after it, for ever.
"""

from __future__ import annotations

from rli.coordination.heartbeats import Heartbeats
from rli.hudi.lock_settings import is_lock_named
from rli.hudi.timeline.by_partition import by_partition
from rli.hudi.timeline.instant import Action, Instant
from rli.hudi.timeline.rollback_metadata import RollbackPlan
from rli.publication.fence import Fence
from rli.publication.instants import TableInstant
from rli.services.rollback import ROLLBACK
from rli.services.undo_plan import has_folder_of_rli
from rli.view import paths
from rli.view.definition import TableDefinition
from rli.view.snapshot import Snapshot


def roll_back_expired(table: TableDefinition, fence: Fence) -> None:
    """Roll back pending commits of dead writers of Hudi (see ``Heartbeats.is_silent``); each is logged as any rollback.

    Args:
        table: the table; the caller holds the lease and the lock.
        fence: of the caller.

    Raises:
        LeaseLostError: another writer took the lease over, and finishes a rollback that was begun.
    """
    if not is_lock_named(table.properties.raw):
        return
    for instant in table.load_timeline().pending:
        if instant.action == Action.ROLLBACK and not is_at_work(table, instant):
            _finish_rollback(TableInstant(table, instant.time, Action.ROLLBACK), fence)
    for instant in expired_writes(table):
        snapshot = Snapshot.now(table)
        rollback = ROLLBACK.announce(_plan(snapshot, instant), snapshot.timeline, fence)
        ROLLBACK.finish(rollback, fence)
        Heartbeats.of(table).remove(instant.time)


def is_at_work(table: TableDefinition, instant: Instant, *, is_foretold: bool = False) -> bool:
    """Whether a pending clean or rollback may be carried out by a living process of Hudi, on a table that shares a lock.

    Hudi gives no heartbeats for them, and does not hold the lock meanwhile. So they count as left behind after a day.

    Args:
        table: the table.
        instant: of the clean or rollback.
        is_foretold: for a dry run, which writes nothing; see ``Heartbeats.is_silent``.
    """
    if not is_lock_named(table.properties.raw):
        return False
    # Those of rli are carried out under the lease, which the caller has.
    if table.storage.exists(paths.announcement(instant.time, instant.action)):
        return False
    pending_paths = TableInstant(table, instant.time, instant.action).pending_paths
    return not Heartbeats.of(table).is_silent(pending_paths, instant.time, is_foretold=is_foretold)


def expired_writes(table: TableDefinition) -> list[Instant]:
    """The pending commits of other engines whose writers seem to be dead, unless one of them is being rolled back."""
    pending = table.load_timeline().pending
    # In table version 6, names of log files do not tell the instant: Hudi's writers roll such a deltacommit back.
    names_commits = table.timeline_layout.keeps_completion_times
    told = {Action.COMMIT, Action.DELTA_COMMIT} if names_commits else {Action.COMMIT}
    if any(instant.action == Action.ROLLBACK for instant in pending):
        return []
    heartbeats = Heartbeats.of(table)
    return [
        instant
        for instant in pending
        # An overwrite or a clustering has a plan that others may carry out.
        if instant.action in told
        # A commit of rli that lost its completed file is for ``rli.commit.torn``, or for an operator.
        and not has_folder_of_rli(table.storage, instant.time)
        and heartbeats.is_silent(TableInstant(table, instant.time, instant.action).pending_paths, instant.time)
    ]


def _finish_rollback(rollback: TableInstant, fence: Fence) -> None:
    plan = rollback.plan()
    if plan and not _undoes_log_blocks(rollback, plan):
        ROLLBACK.finish(rollback, fence)


def _undoes_log_blocks(rollback: TableInstant, plan: bytes) -> bool:
    """Whether a rollback takes blocks of log files back, with blocks that only Hudi's writers append."""
    undone = RollbackPlan.from_avro(plan, f"{rollback.time}.{rollback.action}")
    return undone.action == Action.DELTA_COMMIT and not rollback.table.timeline_layout.keeps_completion_times


def _plan(snapshot: Snapshot, instant: Instant) -> bytes:
    """The plan to remove all files with the instant in their names."""
    stored = [part for part in snapshot.slices.all_versions() if part.instant == instant.time]
    planned_path = snapshot.table.storage.planned_path
    files = by_partition(
        (part.group.partition_path, [planned_path(file.path) for file in part.files]) for part in stored
    )
    return RollbackPlan(instant.time, instant.action, files).to_avro()
