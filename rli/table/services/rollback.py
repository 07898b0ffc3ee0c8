"""Rolling back a completed commit: on the timeline as Hudi does it, so that every reader and writer follows.

The plan lies on the timeline before anything is undone, so a rollback that was interrupted is finished by the next
writer. The index follows in the next sync (``rli.table.following.undoing``).
"""

from __future__ import annotations

import time

from rli.errors import InstantNotFoundError, UnsupportedTableError
from rli.layout.file_slices import list_partition
from rli.model import FileGroupId
from rli.table.file_groups.file_group_clustering import CLUSTER
from rli.table.file_groups.journal_list import COMMIT_MARK
from rli.table.services.fence import Fence
from rli.table.services.undo_plan import planned_files, require_undoable, written_files
from rli.table.state import paths
from rli.table.state.definition import TableDefinition
from rli.table.state.snapshot import Snapshot
from rli.timeline.commit_metadata import CommitMetadata
from rli.timeline.instant import Action, Instant
from rli.timeline.rollback_metadata import RollbackMetadata, RollbackPlan


def request_rollback(table: TableDefinition, snapshot: Snapshot, instant_time: str, fence: Fence) -> str:
    """Put the plan to roll back a completed commit on the timeline, as the instant that is returned.

    Args:
        table: the table.
        snapshot: its present state; the caller holds the lease.
        instant_time: of the commit.
        fence: of the caller.

    Raises:
        LeaseLostError: another writer took the lease over; nothing was rolled back.
        InstantNotFoundError: it is not the last completed commit, or files that it replaced were cleaned.
        UnsupportedTableError: it replaced whole file groups and is another engine's, a savepoint keeps it, or all before
            it were archived.
    """
    latest = snapshot.timeline.latest_write
    if latest is None or latest.time != instant_time:
        raise InstantNotFoundError(
            f"only the last completed commit can be rolled back: instant={instant_time} "
            f"last={latest.time if latest else 'none'}; roll later commits back first"
        )
    require_undoable(snapshot, [latest])
    if len(snapshot.timeline.unsaved_writes) == 1 and table.has_archive():
        # Base files of archived commits count because they are older than a commit of the active timeline.
        raise UnsupportedTableError(
            f"all commits before this one were archived: instant={instant_time}; it can no longer be rolled back, "
            "delete or upsert the records instead"
        )
    commit = snapshot.commit(latest)
    _require_files_before(snapshot, latest, commit)
    plan = RollbackPlan(instant_time, latest.action, written_files(table.storage, commit))
    time_of_rollback = snapshot.timeline.next_time(table.now())
    fence.announce(time_of_rollback, Action.ROLLBACK, plan.to_avro())
    return time_of_rollback


def clusterings_after(snapshot: Snapshot, instant_time: str) -> list[str]:
    """Clusterings of rli that are all that came after a commit, the newest first; none if anything else did."""
    later: list[str] = []
    for instant in reversed(snapshot.timeline.completed_writes):
        if instant.time == instant_time:
            return later
        commit = snapshot.commit(instant)
        if commit.operation != CLUSTER or COMMIT_MARK not in commit.extra:
            return []
        later.append(instant.time)
    return []


def _require_files_before(snapshot: Snapshot, instant: Instant, commit: CommitMetadata) -> None:
    needed = {
        FileGroupId(stat.partition_path, stat.file_id): stat.previous_instant
        for stat in commit.write_stats
        if stat.previous_instant is not None
    } | {
        FileGroupId(partition_path, file_id): None
        for partition_path, file_ids in commit.replaced_file_ids.items()
        for file_id in file_ids
    }
    kept = {
        found
        for partition_path in {group.partition_path for group in needed}
        for file_slice in list_partition(snapshot.table.storage, partition_path)
        # Of a replaced file group, a clean leaves the last version or none.
        for found in ((file_slice.group, file_slice.instant), (file_slice.group, None))
    }
    for group, version in sorted(needed.items()):
        if (group, version) not in kept:
            raise InstantNotFoundError(
                f"the files before the last commit were cleaned: instant={instant.time} "
                f"partition={group.partition_path} file_id={group.file_id} before={version or 'any version'}; "
                "it can no longer be rolled back, delete or upsert the records instead"
            )


def finish_rollback(table: TableDefinition, rollback: str, fence: Fence) -> str:
    """Carry out a planned rollback, and say which commit it undid; may be repeated. The caller holds the lease."""
    started = time.monotonic()
    storage, writer = table.storage, table.timeline_writer
    plan = RollbackPlan.from_avro(writer.requested(rollback, Action.ROLLBACK) or b"", f"{rollback}.rollback.requested")
    fence.start(rollback, Action.ROLLBACK)
    # The commit stops being visible at once, and its files are gone before its instant is: a base file without an
    # instant that is older than all others would pass for one of an archived commit.
    writer.withdraw(plan.instant_time, plan.action)
    storage.delete_files(planned_files(plan.files))
    storage.sync(folders=plan.files)
    metadata = RollbackMetadata(
        start_time=rollback,
        instant_time=plan.instant_time,
        action=plan.action,
        milliseconds=int((time.monotonic() - started) * 1000),
        deleted=plan.files,
    )
    fence.complete(rollback, Action.ROLLBACK, metadata.to_avro())
    writer.remove(plan.instant_time, plan.action)
    storage.delete_files([paths.service_mark(rollback, Action.ROLLBACK)])
    return plan.instant_time
