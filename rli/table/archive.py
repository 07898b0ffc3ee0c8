"""Archiving: completed instants leave the active timeline for Hudi's archive, so that it stays short over the years.

What is on the active timeline is listed and partly read by every reader and writer. What left it counts as completed:
Hudi and rli take every base file that is older than the oldest active write for data. So before instants leave,

1. base files go that nobody shows now and that would come to count: those of commits that were undone, and what other
   engines' failed tasks left;
2. replacements stay as long as a base file of a file group that they replaced is there.

Instants are in the archive before they leave the active timeline, and leave it in the order of their times: there are
never holes, and an archive that was interrupted is finished by the next one.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Final

from rli.errors import InvalidInputError
from rli.layout.file_slices import FileSlice, list_base_files
from rli.model import FileGroupId
from rli.table.clean import delete_journals, earliest_kept, finish_cleans
from rli.table.definition import TableDefinition
from rli.table.metadata_table import switch_off_metadata_table
from rli.table.snapshot import Snapshot
from rli.timeline.archive import ARCHIVED_ACTIONS, Archive
from rli.timeline.instant import Action, Instant
from rli.timeline.timeline import Timeline, list_instants

_STATES: Final = ("requested", "inflight", "completed")


@dataclass(frozen=True, slots=True)
class ArchiveResult:
    """What an archive did.

    Attributes:
        instants_archived: instants that left the active timeline.
        earliest_active: the oldest commit that is still there; None in a table without commits.
        files_deleted: base files of undone or failed writes that were removed.
    """

    instants_archived: int
    earliest_active: str | None
    files_deleted: int


def archive(table: TableDefinition, keep_commits: int) -> ArchiveResult:
    """Move all but the last ``keep_commits`` commits, and what goes with them, to the archive; see ``Table.archive``.

    The caller holds the lease, and the index has followed the timeline.
    """
    if keep_commits < 1:
        raise InvalidInputError(
            f"an archive leaves at least the last commit: keep_commits={keep_commits}; keep 1 or more"
        )
    finish_cleans(table)
    timeline = table.load_timeline()
    kept = earliest_kept(timeline, keep_commits)
    if kept is None:
        return ArchiveResult(0, None, 0)
    base_files = list_base_files(table.storage)
    boundary = _boundary(Snapshot(table, timeline), kept.time, base_files)
    leaving = _instants_before(timeline, boundary)
    if not leaving:
        # What an archive may have left that was interrupted at its end.
        delete_journals(table, boundary)
        return ArchiveResult(0, _oldest_write(timeline, ""), 0)
    dead = [part.path for part in base_files if part.instant < boundary and not timeline.is_visible(part.instant)]
    switch_off_metadata_table(table.storage, table.reloaded().properties)
    table.storage.delete_files(dead)
    files = _files_of(table, leaving)
    Archive(table.storage, timeline.layout).add(files)
    _remove(table, timeline, files)
    # Neither a rollback nor an index that is behind gets at the commits any more.
    delete_journals(table, boundary)
    return ArchiveResult(len(leaving), _oldest_write(timeline, boundary), len(dead))


def _boundary(snapshot: Snapshot, kept: str, base_files: list[FileSlice]) -> str:
    """The time from which on nothing is archived."""
    timeline = snapshot.timeline
    present = {part.group for part in base_files}
    limits = [kept]
    limits += [instant.time for instant in timeline.pending if instant.action != Action.SAVEPOINT]
    limits += [_newest_beside(timeline, savepoint.time) for savepoint in timeline.savepoints]
    limits += [
        instant.time
        for instant in timeline.completed_writes
        if instant.action == Action.REPLACE_COMMIT and _replaced_by(snapshot, instant) & present
    ]
    return min(limits)


def _newest_beside(timeline: Timeline, saved: str) -> str:
    """The commit that stays on the active timeline beside one that a savepoint keeps, for when no other is left."""
    return max((write.time for write in timeline.unsaved_writes if write.time < saved), default="")


def _oldest_write(timeline: Timeline, boundary: str) -> str:
    return min(write.time for write in timeline.completed_writes if write.time >= boundary)


def _replaced_by(snapshot: Snapshot, instant: Instant) -> set[FileGroupId]:
    replaced = snapshot.commit(instant).replaced_file_ids
    return {FileGroupId(partition_path, file_id) for partition_path, ids in replaced.items() for file_id in ids}


def _instants_before(timeline: Timeline, boundary: str) -> list[Instant]:
    cleans = [instant.time for instant in timeline.completed if instant.action == Action.CLEAN]
    return [
        instant
        for instant in timeline.completed
        if instant.action in ARCHIVED_ACTIONS
        and instant.time < boundary
        # The last clean says to Hudi which commits can still be read.
        and not (instant.action == Action.CLEAN and instant.time == max(cleans))
    ]


def _files_of(table: TableDefinition, leaving: list[Instant]) -> list[list[Instant]]:
    """Each instant in the states of which there are files, the completed one last; by time."""
    wanted = {(instant.time, instant.action) for instant in leaving}
    found: dict[tuple[str, str], list[Instant]] = defaultdict(list)
    for instant in list_instants(table.storage, table.load_timeline().layout):
        if (instant.time, instant.completed_action) in wanted:
            found[instant.time, instant.completed_action].append(instant)
    return [sorted(found[key], key=lambda instant: _STATES.index(instant.state)) for key in sorted(found)]


def _remove(table: TableDefinition, timeline: Timeline, files: list[list[Instant]]) -> None:
    """Remove instants from the active timeline: pending states first, so that none seems to be pending."""
    path = timeline.layout.path
    table.storage.delete_files(path(state.file_name) for states in files for state in states[:-1])
    # In the order of their times: what a reader takes for archived is all that is older than what it finds.
    table.storage.delete_files(path(states[-1].file_name) for states in files)
