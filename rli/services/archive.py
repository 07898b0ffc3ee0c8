"""Archiving: completed instants leave the active timeline for Hudi's archive, so that it stays short over the years.

What is on the active timeline is listed and partly read by every reader and writer. What left it counts as completed:
Hudi and rli take every base file that is older than the oldest active write for data. So before instants leave,

1. base files go that nobody shows now and that would come to count: those of commits that were undone, and what other
   engines' failed tasks left;
2. replacements stay as long as a base file of a file group that they replaced is there.

Instants are in the archive before they leave the active timeline, and leave it in the order of their times: there are
never holes (``rli.publication.archiving``).
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from rli.errors import InvalidInputError
from rli.file_group import deleted_keys
from rli.hudi.table_features import require_writable
from rli.hudi.timeline.instant import Action, instant_before
from rli.hudi.timeline.timeline import Timeline
from rli.metadata_table.needed_instants import earliest_needed
from rli.publication.archiving import archive_instants, instants_before
from rli.publication.fence import Fence
from rli.services.clean import after_cleans, delete_journals, finish_cleans
from rli.services.metadata_archive import archive_metadata
from rli.telemetry import events, metrics
from rli.view.caller_transactions import delete_uncommitted_records
from rli.view.definition import TableDefinition
from rli.view.file_slices import FileSlice, may_count
from rli.view.kept_instants import KeptInstants
from rli.view.lost_files import require_all_files
from rli.view.snapshot import Snapshot, told_of_now


@dataclass(frozen=True, slots=True)
class ArchiveResult:
    """What an archive did.

    Attributes:
        instants_archived: instants that left the active timeline.
        earliest_active: the oldest commit that is still there; None in a table without commits.
        files_deleted: base files of undone or failed writes that were removed.
        dry_run: whether it only told what it would do.
    """

    instants_archived: int
    earliest_active: str | None
    files_deleted: int
    dry_run: bool = False


def archive(
    table: TableDefinition, keep_commits: int, fence: Fence, *, most_commits: int | None = None
) -> ArchiveResult:
    """Move all but the last ``keep_commits`` commits, and what goes with them, to the archive; see ``Table.archive``.

    Args:
        table: the table; the caller holds the lease, and the index has followed the timeline.
        keep_commits: how many commits stay.
        fence: of the caller.
        most_commits: how many commits leave at most, the oldest first; by default all.

    Raises:
        CorruptTableError: a base file is lost that a commit of the active timeline has written.
        ConflictError: another engine archived at the same time; nothing was archived.
    """
    _require_kept(keep_commits)
    result = _archive(table, keep_commits, fence, most_commits)
    archive_metadata(fence)
    return result


def _archive(table: TableDefinition, keep_commits: int, fence: Fence, most_commits: int | None) -> ArchiveResult:
    began = time.monotonic()
    finish_cleans(table, fence)
    timeline = table.load_timeline()
    count = len(timeline.completed_writes)
    kept = KeptInstants(timeline)
    earliest = kept.earliest_readable(max(keep_commits, count - (most_commits or count)))
    if earliest is None:
        return ArchiveResult(0, None, 0)
    snapshot = Snapshot(table, timeline)
    stored = snapshot.slices.all_versions()
    boundary = _boundary(snapshot, kept.earliest_active(earliest), stored)
    leaving = instants_before(timeline, boundary)
    if not leaving:
        # What an archive may have left that was interrupted at its end.
        delete_journals(fence, boundary)
        return ArchiveResult(0, _oldest_write(timeline, ""), 0)
    dead = _dead_files(timeline, stored, boundary)
    # Nothing would tell of a lost file once the commit that wrote it has left.
    require_all_files(snapshot)
    # The instants of undone commits, too, would come to count as archived.
    delete_uncommitted_records(table.storage, timeline, fence.require_held)
    _tidy_up_deleted_keys(table, timeline, fence)
    archive_instants(table.timeline_layout, leaving, dead, fence)
    # Neither a rollback nor an index that is behind gets at the commits any more.
    delete_journals(fence, boundary)
    result = ArchiveResult(len(leaving), _oldest_write(timeline, boundary), len(dead))
    metrics.SERVICES.add(1, service="archive")
    events.ARCHIVE_DONE.log(
        table=table.location,
        instants=result.instants_archived,
        earliest_active=result.earliest_active,
        files=result.files_deleted,
        seconds=time.monotonic() - began,
    )
    return result


def foretold_archive(table: TableDefinition, keep_commits: int) -> ArchiveResult:
    """What an archive would move now; see ``archive``. Nothing is changed, and no lease is needed.

    Raises:
        InvalidInputError: ``keep_commits`` is less than 1.
        UnsupportedTableError: rli does not write such tables.
        CorruptTableError: a base file is lost that a commit of the active timeline has written.
    """
    require_writable(table.properties)
    _require_kept(keep_commits)
    return told_of_now(table, lambda snapshot: _foretold(snapshot, keep_commits))


def _foretold(snapshot: Snapshot, keep_commits: int) -> ArchiveResult:
    # As the archive itself finds the table.
    timeline, cleaned = after_cleans(snapshot)
    kept = KeptInstants(timeline)
    earliest = kept.earliest_readable(keep_commits)
    if earliest is None:
        return ArchiveResult(0, None, 0, dry_run=True)
    versions = snapshot.slices.all_versions()
    stored = [part for part in versions if cleaned.isdisjoint(file.path for file in part.files)]
    boundary = _boundary(snapshot, kept.earliest_active(earliest), stored)
    leaving = instants_before(timeline, boundary)
    if not leaving:
        return ArchiveResult(0, _oldest_write(timeline, ""), 0, dry_run=True)
    require_all_files(snapshot)
    dead = _dead_files(timeline, stored, boundary)
    return ArchiveResult(len(leaving), _oldest_write(timeline, boundary), len(dead), dry_run=True)


def _require_kept(keep_commits: int) -> None:
    if keep_commits < 1:
        raise InvalidInputError(
            f"an archive leaves at least the last commit: keep_commits={keep_commits}", remedy="keep 1 or more"
        )


def _dead_files(timeline: Timeline, stored: list[FileSlice], boundary: str) -> list[str]:
    """The files of undone or failed writes older than the boundary."""
    return [
        file.path for part in stored if part.instant < boundary and not may_count(part, timeline) for file in part.files
    ]


def _tidy_up_deleted_keys(table: TableDefinition, timeline: Timeline, fence: Fence) -> None:
    seconds = table.require_settings().tombstones
    now = timeline.next_time(table.now())
    # Where deleted keys are kept no more, none of them counts.
    since = now if seconds is None else instant_before(now, seconds)
    deleted_keys.tidy_up(table.storage, timeline, since, fence.require_held)


def _boundary(snapshot: Snapshot, kept: str, stored: list[FileSlice]) -> str:
    """The time from which on nothing is archived."""
    timeline = snapshot.timeline
    present = {part.group for part in stored}
    needed = earliest_needed(snapshot.table.reloaded(), timeline)
    limits = [kept, *([] if needed is None else [needed])]
    limits += [
        instant.time
        for instant in timeline.completed_writes
        if instant.action == Action.REPLACE_COMMIT and snapshot.change(instant).replaced & present
    ]
    return min(limits)


def _oldest_write(timeline: Timeline, boundary: str) -> str:
    return min(write.time for write in timeline.completed_writes if write.time >= boundary)
