"""Clean: removing the base files that no reader within the kept commits needs, and journals that nobody needs.

On the timeline it is Hudi's clean action, planned before anything is deleted. A writer that finds a plan that was not
carried out, rli or Hudi, carries it out. Kept are

1. what the table needs now, and as of each kept commit;
2. one version more of each file group, so that the oldest kept commit can be rolled back;
3. what the table needed as of each savepoint;
4. what pending writes may be building on.

Temporary files and unfinished drafts of killed writers go, too, and what abandoned builds have read. On tables that share a lock with writers of Hudi, pending
commits of Hudi's dead writers are rolled back.
"""

from __future__ import annotations

import posixpath
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from rli.errors import InvalidInputError
from rli.hudi.table_features import require_writable
from rli.hudi.timeline.by_partition import by_partition
from rli.hudi.timeline.clean_metadata import CleanPlan
from rli.hudi.timeline.instant import Action, Instant, InstantState
from rli.hudi.timeline.timeline import Timeline
from rli.metadata_table.kept_shards import remove_abandoned
from rli.model import FileGroupId
from rli.publication.fence import Fence, remove_unfinished_drafts
from rli.publication.instants import TableInstant
from rli.services.expired_writes import is_at_work, roll_back_expired
from rli.services.planned import PlannedService
from rli.services.undo_plan import planned_files
from rli.telemetry import events, metrics
from rli.view import paths
from rli.view.definition import TableDefinition
from rli.view.file_slices import FileSlice, may_count, slice_versions
from rli.view.kept_instants import KeptInstants
from rli.view.snapshot import Snapshot, told_of_now
from rli.view.table_change import TableChange


@dataclass(frozen=True, slots=True)
class CleanResult:
    """What a clean did.

    Attributes:
        instant: of the clean; None if there was no file to delete.
        earliest_kept: the oldest commit as of which the table can be read; None in a table without commits.
        files_deleted: base files.
        bytes_deleted: their size.
        journals_deleted: journals of older commits.
        dry_run: whether it only told what it would do.
    """

    instant: str | None
    earliest_kept: str | None
    files_deleted: int
    bytes_deleted: int
    journals_deleted: int
    dry_run: bool = False


def clean(
    table: TableDefinition,
    keep_commits: int,
    fence: Fence,
    *,
    most_files: int | None = None,
    keep_journals: bool = False,
) -> CleanResult:
    """Remove what only readers older than the last ``keep_commits`` commits need; see ``Table.clean``.

    Args:
        table: the table; the caller holds the lease, and the index has followed the timeline.
        keep_commits: how many commits stay readable.
        fence: of the caller.
        most_files: base files to delete at most, the oldest first; by default all.
        keep_journals: whether to leave the journals for the archive: they bring an index up to date that is behind.
    """
    _require_kept(keep_commits)
    began = time.monotonic()
    finish_cleans(table, fence)
    roll_back_expired(table, fence)
    table.storage.remove_temporaries()
    remove_abandoned(table.storage)
    remove_unfinished_drafts(fence)
    kept = KeptInstants(table.load_timeline())
    earliest = kept.earliest_readable(keep_commits)
    if earliest is None:
        return CleanResult(None, None, 0, 0, 0)
    found = unneeded_files(Snapshot(table, kept.timeline), earliest)
    unneeded = sorted(found, key=lambda file_slice: file_slice.instant)[:most_files]
    instant = _delete(unneeded, kept.timeline, earliest, fence) if unneeded else None
    result = CleanResult(
        instant=instant,
        earliest_kept=earliest.time,
        files_deleted=sum(len(file_slice.files) for file_slice in unneeded),
        bytes_deleted=sum(file_slice.size for file_slice in unneeded),
        journals_deleted=0 if keep_journals else delete_journals(fence, kept.earliest_journal(earliest)),
    )
    metrics.SERVICES.add(1, service="clean")
    events.CLEAN_DONE.log(
        table=table.location,
        instant=result.instant,
        earliest_kept=result.earliest_kept,
        files=result.files_deleted,
        bytes=result.bytes_deleted,
        journals=result.journals_deleted,
        seconds=time.monotonic() - began,
    )
    return result


def foretold_clean(table: TableDefinition, keep_commits: int) -> CleanResult:
    """What a clean would remove now; see ``clean``. Nothing is changed, and no lease is needed.

    Raises:
        InvalidInputError: ``keep_commits`` is less than 1.
        UnsupportedTableError: rli does not write such tables.
    """
    require_writable(table.properties)
    _require_kept(keep_commits)
    return told_of_now(table, lambda snapshot: _foretold(snapshot, keep_commits))


def _foretold(snapshot: Snapshot, keep_commits: int) -> CleanResult:
    kept = KeptInstants(snapshot.timeline)
    earliest = kept.earliest_readable(keep_commits)
    if earliest is None:
        return CleanResult(None, None, 0, 0, 0, dry_run=True)
    unneeded = unneeded_files(snapshot, earliest)
    return CleanResult(
        instant=None,
        earliest_kept=earliest.time,
        files_deleted=sum(len(file_slice.files) for file_slice in unneeded),
        bytes_deleted=sum(file_slice.size for file_slice in unneeded),
        journals_deleted=len(_journals(snapshot.table, kept.earliest_journal(earliest))),
        dry_run=True,
    )


def _require_kept(keep_commits: int) -> None:
    if keep_commits < 1:
        raise InvalidInputError(
            f"a clean keeps at least the last commit: keep_commits={keep_commits}", remedy="keep 1 or more"
        )


def finish_cleans(table: TableDefinition, fence: Fence) -> None:
    """Carry out cleans that were planned, by whichever engine, and not completed; the caller holds the lease.

    On a table that shares a lock with writers of Hudi, cleans of Hudi are left to Hudi for a day (``is_at_work``).
    """
    for instant in table.load_timeline().pending:
        if instant.action == Action.CLEAN and not is_at_work(table, instant):
            CLEAN.finish(TableInstant(table, instant.time, Action.CLEAN), fence)


def after_cleans(snapshot: Snapshot) -> tuple[Timeline, frozenset[str]]:
    """The timeline that ``finish_cleans`` will leave, and the files that it will delete. Nothing is changed."""
    plans = {
        instant: TableInstant(snapshot.table, instant.time, Action.CLEAN).plan()
        for instant in snapshot.timeline.pending
        if instant.action == Action.CLEAN and not is_at_work(snapshot.table, instant, is_foretold=True)
    }
    # One without a plan is removed.
    instants = [
        replace(instant, state=InstantState.COMPLETED) if plans.get(instant) is not None else instant
        for instant in snapshot.timeline.instants
        if instant not in plans or plans[instant] is not None
    ]
    deleted = (
        _deleted_by(snapshot, _plan_of(plan, instant.time)) for instant, plan in plans.items() if plan is not None
    )
    return replace(snapshot.timeline, instants=tuple(instants)), frozenset().union(*deleted)


def unneeded_files(snapshot: Snapshot, earliest: Instant) -> list[FileSlice]:
    """The slices that nobody needs who reads as of the earliest kept commit, a later one, or a savepoint."""
    stored = snapshot.slices.all_versions()
    saved = {
        file
        for instant in snapshot.timeline.savepoints
        for file_slice in snapshot.as_of(instant.time).live_slices(stored).values()
        for file in file_slice.files
    }
    superseded = _superseded(snapshot, stored, earliest.time)
    return [file_slice for file_slice in superseded if saved.isdisjoint(file_slice.files)]


def _superseded(snapshot: Snapshot, stored: Iterable[FileSlice], earliest: str) -> Iterator[FileSlice]:
    """Old versions in file groups, all of those replaced before the earliest kept commit, and what rollbacks left."""
    groups: dict[FileGroupId, list[FileSlice]] = defaultdict(list)
    timeline = snapshot.timeline
    # Hudi rolls a clustering back whose writer may be alive, and leaves its plan: it may complete yet.
    pending = {instant.time for instant in timeline.pending}
    for file_slice in stored:
        if may_count(file_slice, timeline):
            groups[file_slice.group].append(file_slice)
        elif file_slice.instant not in pending and timeline.is_undone(file_slice.instant):
            yield file_slice
    for group, slices in groups.items():
        older = [part for part in slice_versions(slices, timeline) if part.instant < earliest]
        is_replaced = group in snapshot.replaced and snapshot.replaced[group] < earliest
        yield from older if is_replaced else older[:-1]


def _delete(unneeded: list[FileSlice], timeline: Timeline, earliest: Instant, fence: Fence) -> str:
    """Delete file slices, announced as the clean whose instant is returned."""
    storage = fence.table.storage
    files = by_partition(
        (part.group.partition_path, [storage.planned_path(file.path) for file in part.files]) for part in unneeded
    )
    last = timeline.completed_writes[-1]
    plan = CleanPlan(earliest.time, earliest.action, last.time, files)
    announced = CLEAN.announce(plan.to_avro(), timeline, fence)
    CLEAN.finish(announced, fence)
    return announced.time


class Clean(PlannedService[None]):
    """Deletes the files of a plan, whichever engine made it."""

    action = Action.CLEAN

    def _carry_out(self, announced: TableInstant, fence: Fence) -> None:
        """Delete what the plan names, but for files that came to be needed again since, because of a rollback."""
        started = time.monotonic()
        table, planned = announced.table, announced.plan()
        if planned is None:
            # Nobody can carry it out: all but this trace of it was archived, or its plan removed by hand.
            announced.remove()
            return
        plan = _plan_of(planned, announced.time)
        change = TableChange.removing(plan.files)
        timeline = table.load_timeline()
        fence.start(announced, change)
        # In any order: none of them is needed, and a repeated clean deletes the rest.
        deleted = _deleted_by(Snapshot(table, timeline), plan)
        table.storage.discard_files(deleted)
        milliseconds = int((time.monotonic() - started) * 1000)
        # What is needed again stays in the lists of the metadata table.
        removed = by_partition((posixpath.dirname(path), [path]) for path in deleted)
        fence.complete(announced, TableChange.removing(removed), plan.completed(announced.time, milliseconds))


CLEAN: Final = Clean()


def _plan_of(content: bytes, instant_time: str) -> CleanPlan:
    return CleanPlan.from_avro(content, f"{instant_time}.{Action.CLEAN}.{InstantState.REQUESTED}")


def _deleted_by(snapshot: Snapshot, plan: CleanPlan) -> list[str]:
    """The files that a plan names, but for those that came to be needed again since."""
    held = snapshot.slices.of_partitions(plan.files)
    live = {file.path for file_slice in held for file in file_slice.files}
    return [path for path in planned_files(plan.files) if path not in live]


def delete_journals(fence: Fence, earliest: str) -> int:
    """Remove the journals of all older commits, undone ones too; returns of how many. The caller has the lease."""
    folders = _journals(fence.table, earliest)
    if folders:
        # A successor may have kept an older commit by a savepoint.
        fence.require_held()
    for folder in folders:
        fence.table.storage.delete_folder(folder)
    return len(folders)


def _journals(table: TableDefinition, earliest: str) -> list[str]:
    """The folders of the journals of all commits older than an instant."""
    return [name for name in table.storage.list_folders(paths.JOURNAL) if posixpath.basename(name) < earliest]
