"""Rolling back a completed commit: on the timeline as Hudi does it, so that every reader and writer follows.

The plan lies on the timeline before anything is undone, so a rollback that was interrupted is finished by the next
writer. The index follows in the next sync (``rli.index.record.sync.undoing``).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from rli.errors import InstantNotFoundError, UnsupportedTableError
from rli.file_group.undone_commits import forget_undone
from rli.hudi.timeline.instant import Action, Instant
from rli.hudi.timeline.layouts import marker_folder
from rli.hudi.timeline.rollback_metadata import RollbackMetadata, RollbackPlan
from rli.model import FileGroupId
from rli.publication.deltacommits import drop_dead_deltacommit, is_deltacommit_pending
from rli.publication.fence import Fence
from rli.publication.instants import TableInstant
from rli.services.planned import PlannedService
from rli.services.undo_plan import (
    has_folder_of_rli,
    kept_by_index,
    planned_files,
    require_undoable,
    unschedule_compactions,
    written_files,
)
from rli.telemetry import events, metrics
from rli.view.snapshot import Snapshot
from rli.view.table_change import TableChange


def commits_to_undo(snapshot: Snapshot, instant_time: str) -> list[Instant]:
    """The commits that a rollback of one commit undoes, the newest first: clusterings of rli after it, then itself.

    Raises:
        InstantNotFoundError: the commit is not there, or commits came after it that change records.
    """
    later: list[Instant] = []
    for instant in reversed(snapshot.timeline.completed_writes):
        later.append(instant)
        if instant.time == instant_time:
            return later
        if not _is_own_clustering(snapshot, instant):
            break
    latest = snapshot.timeline.latest_write
    raise InstantNotFoundError(
        f"only the last completed commit can be rolled back: instant={instant_time} "
        f"last={latest.time if latest else 'none'}",
        remedy="roll later commits back first",
    )


def last_commit(snapshot: Snapshot) -> Instant | None:
    """The last commit behind which there are at most clusterings of rli; the last of these where nothing else is left."""
    changing = (
        write for write in reversed(snapshot.timeline.completed_writes) if not _is_own_clustering(snapshot, write)
    )
    return next(changing, snapshot.timeline.latest_write)


def _is_own_clustering(snapshot: Snapshot, write: Instant) -> bool:
    change = snapshot.change(write)
    return change.keeps_records and change.is_native


def require_rollback(snapshot: Snapshot, commits: Sequence[Instant]) -> None:
    """Pass commits that can be rolled back one after the other.

    Args:
        snapshot: the table's present state; the caller holds the lease.
        commits: the last ones of the timeline, the newest first.

    Raises:
        InstantNotFoundError: files that one of them replaced were cleaned.
        UnsupportedTableError: one of them replaced whole file groups and is another engine's, a savepoint keeps it, or all
            commits before them were archived.
    """
    require_undoable(snapshot, commits)
    if len(snapshot.timeline.unsaved_writes) <= len(commits) and snapshot.table.has_archive():
        # Base files of archived commits count because they are older than a commit of the active timeline.
        raise UnsupportedTableError(
            f"all earlier commits were archived: instant={commits[-1].time}",
            remedy="it can no longer be rolled back, delete or upsert the records instead",
        )
    for instant in commits:
        _require_files_before(snapshot, instant)


def rollback_plan(snapshot: Snapshot, commit: Instant) -> bytes:
    """The plan to roll back the last completed commit.

    Args:
        snapshot: the table's present state; the caller holds the lease.
        commit: ``require_rollback`` has passed it.
    """
    files = written_files(snapshot.table.storage, snapshot.change(commit))
    return RollbackPlan(commit.time, commit.action, files).to_avro()


def _require_files_before(snapshot: Snapshot, instant: Instant) -> None:
    change = snapshot.change(instant)
    needed: dict[FileGroupId, str | None] = dict.fromkeys(change.replaced)
    needed |= {stat.group: stat.previous_instant for stat in change.written if stat.previous_instant is not None}
    kept = {
        found
        for file_slice in snapshot.slices.all_versions({group.partition_path for group in needed})
        # Of a replaced file group, a clean leaves the last version or none.
        for found in ((file_slice.group, file_slice.instant), (file_slice.group, None))
    }
    for group, version in sorted(needed.items()):
        if (group, version) not in kept:
            raise InstantNotFoundError(
                f"the files before the last commit were cleaned: instant={instant.time} "
                f"partition={group.partition_path} file_id={group.file_id} before={version or 'any version'}",
                remedy="it can no longer be rolled back, delete or upsert the records instead",
            )


def _clear_up_dead_write(rollback: TableInstant, undone: TableInstant) -> None:
    """Remove what a dead writer of another engine left besides its files, if its commit never completed; may be repeated."""
    table, storage = undone.table, undone.table.storage
    if undone.is_completed or has_folder_of_rli(storage, undone.time):
        return
    storage.delete_folder(marker_folder(undone.time))
    # A rollback that has begun may have withdrawn a completed commit, whose deltacommit stays (P52).
    if rollback.progress() is None or is_deltacommit_pending(storage, table.timeline_layout, undone.time):
        drop_dead_deltacommit(storage, table.timeline_layout, undone.time)


class Rollback(PlannedService[str]):
    """Takes one commit back; the result is its instant."""

    action = Action.ROLLBACK

    def _carry_out(self, announced: TableInstant, fence: Fence) -> str:
        started = time.monotonic()
        table, storage = announced.table, announced.table.storage
        plan = RollbackPlan.from_avro(announced.plan() or b"", f"{announced.time}.rollback.requested")
        undone = TableInstant(table, plan.instant_time, plan.action)
        change = TableChange.removing(plan.files, [plan.instant_time])
        # Before the fence asks what becomes of the metadata table: without a deltacommit, the record index stays.
        _clear_up_dead_write(announced, undone)
        fence.start(announced, change)
        # The commit stops being visible at once, and its files are gone before its instant is: a base file without an
        # instant that is older than all others would pass for one of an archived commit.
        undone.withdraw()
        unschedule_compactions(table, planned_files(plan.files), [plan.instant_time])
        storage.delete_files(planned_files(plan.files))
        storage.delete_files(kept_by_index(plan.files, plan.instant_time, plan.action))
        forget_undone(storage, frozenset([plan.instant_time]))
        storage.flush(folders=plan.files)
        metadata = RollbackMetadata(
            start_time=announced.time,
            instant_time=plan.instant_time,
            action=plan.action,
            milliseconds=int((time.monotonic() - started) * 1000),
            deleted=plan.files,
        )
        fence.complete(announced, change, metadata.to_avro())
        undone.remove_for_good()
        metrics.SERVICES.add(1, service="rollback")
        events.ROLLBACK_DONE.log(
            table=table.location,
            instant=plan.instant_time,
            rollback=announced.time,
            files=sum(map(len, plan.files.values())),
            seconds=time.monotonic() - started,
        )
        return plan.instant_time

    def _commit_of(self, done: str) -> str:
        return done


ROLLBACK: Final = Rollback()
