"""Archiving: completed instants leave the active timeline for Hudi's archive, so that it stays short over the years.

What is on the active timeline is listed and partly read by every reader and writer. What left it counts as completed:
Hudi and rli take every base file that is older than the oldest active write for data. So before instants leave,

1. base files go that nobody shows now and that would come to count: those of commits that were undone, and what other
   engines' failed tasks left;
2. replacements stay as long as a base file of a file group that they replaced is there.

Instants are in the archive before they leave the active timeline, and leave it in the order of their times: there are
never holes. The archive's file gets its name by a step that only a holder of the lease can take, and the process that has the
lease next finishes what has got so far, before anything else (``rli.commit.recovery``). So a process that was paused
within an archive finds nothing left to remove when it goes on.
"""

from __future__ import annotations

import hashlib
import posixpath
import time
from collections import defaultdict
from dataclasses import dataclass
from typing import Final, Literal
from uuid import uuid4

from pydantic import BaseModel, ValidationError

from rli.errors import CorruptTableError, InvalidInputError, LeaseLostError
from rli.file_group import deleted_keys
from rli.hudi.timeline.archive import ARCHIVED_ACTIONS
from rli.hudi.timeline.instant import Action, Instant, instant_before
from rli.hudi.timeline.layouts import TimelineLayout
from rli.hudi.timeline.timeline import Timeline, list_instants
from rli.model import FileGroupId
from rli.services.clean import delete_journals, earliest_kept, finish_cleans
from rli.services.fence import Fence
from rli.storage import Storage
from rli.telemetry import events, metrics
from rli.view import paths
from rli.view.caller_transactions import delete_uncommitted_records
from rli.view.definition import TableDefinition
from rli.view.file_slices import FileSlice
from rli.view.lost_files import require_all_files
from rli.view.metadata_table import switch_off_metadata_table
from rli.view.snapshot import Snapshot

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
    """
    if keep_commits < 1:
        raise InvalidInputError(
            f"an archive leaves at least the last commit: keep_commits={keep_commits}; keep 1 or more"
        )
    began = time.monotonic()
    finish_cleans(table, fence)
    timeline = table.load_timeline()
    count = len(timeline.completed_writes)
    kept = earliest_kept(timeline, max(keep_commits, count - (most_commits or count)))
    if kept is None:
        return ArchiveResult(0, None, 0)
    snapshot = Snapshot(table, timeline)
    stored = snapshot.slices.all_versions()
    boundary = _boundary(snapshot, kept.time, stored)
    leaving = _instants_before(timeline, boundary)
    if not leaving:
        # What an archive may have left that was interrupted at its end.
        delete_journals(table, boundary)
        return ArchiveResult(0, _oldest_write(timeline, ""), 0)
    dead = [
        file.path
        for part in stored
        if part.instant < boundary and not timeline.is_visible(part.instant)
        for file in part.files
    ]
    # Nothing would tell of a lost file once the commit that wrote it has left.
    require_all_files(snapshot)
    switch_off_metadata_table(table.storage, table.reloaded().properties)
    table.storage.discard_files(dead)
    table.storage.sync(folders={posixpath.dirname(path) for path in dead})
    # Their instants, too, would come to count as archived.
    delete_uncommitted_records(table.storage, timeline, fence.require_held)
    _tidy_up_deleted_keys(table, timeline, fence)
    _publish(table, timeline.layout, _files_of(table, leaving), fence)
    finish_archives(table, fence)
    # Neither a rollback nor an index that is behind gets at the commits any more.
    delete_journals(table, boundary)
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


class _Plan(BaseModel):
    """What one archive is about to do, as its file says it.

    Attributes:
        version: of the format.
        archive: the archive's file, relative to the table; None if no instant needs one.
        digest: SHA-256 of that file.
        files: those that leave the active timeline, in this order.
    """

    version: Literal[1]
    archive: str | None
    digest: str | None
    files: tuple[str, ...]


def _publish(table: TableDefinition, layout: TimelineLayout, files: list[list[Instant]], fence: Fence) -> None:
    """Write instants to the archive, and down which files leave the active timeline for it."""
    storage, file = table.storage, table.archive.file_for(files)
    # Pending states first, so that none seems to be pending; then in the order of the times: what a reader takes for
    # archived is all that is older than what it finds.
    leaving = [*(state for states in files for state in states[:-1]), *(states[-1] for states in files)]
    plan = _Plan(
        version=1,
        archive=None if file is None else file.path,
        digest=None if file is None else hashlib.sha256(file.content).hexdigest(),
        files=tuple(layout.path(state.file_name) for state in leaving),
    )
    storage.make_folder(layout.archive_folder)
    folder = paths.archiving_folder(uuid4().hex)
    draft = storage.draft(paths.archive_content(folder), b"" if file is None else file.content)
    storage.write_bytes(paths.archive_plan(folder), plan.model_dump_json().encode())
    storage.sync(folders=[folder])
    fence.require_held()
    if file is None:
        return
    try:
        storage.publish(draft, file.path)
    except FileNotFoundError as error:
        raise LeaseLostError(
            f"another writer took the lease over: archive={file.path}; nothing was archived, call it again"
        ) from error


def finish_archives(table: TableDefinition, fence: Fence) -> None:
    """Finish archives whose file has its name, drop those whose has not; may be repeated. The caller holds the lease."""
    storage = table.storage
    for folder in storage.list_folders(paths.ARCHIVING):
        # From here on nobody else can give the file its name, and it may just have got it.
        storage.settle(paths.archive_content(folder))
        plan = _read_plan(storage, folder)
        if plan is not None and _is_published(table, plan, fence):
            storage.delete_files(plan.files)
            table.timeline_writer.sync()
        storage.delete_folder(folder)


def _read_plan(storage: Storage, folder: str) -> _Plan | None:
    """The plan of an archive; None if its process died before it had written one."""
    content = storage.read_bytes(paths.archive_plan(folder))
    if content is None:
        return None
    try:
        return _Plan.model_validate_json(content)
    except ValidationError as error:
        raise CorruptTableError(
            f"the plan of an archive is damaged: file={paths.archive_plan(folder)}; delete the folder {folder}, then "
            "run: rli archive TABLE"
        ) from error


def _is_published(table: TableDefinition, plan: _Plan, fence: Fence) -> bool:
    """Whether the instants of a plan are in the archive; sees to it that their file counts."""
    if plan.archive is None:
        return True
    content = table.storage.read_bytes(plan.archive)
    # Where another engine was first, its file has the name.
    if content is None or hashlib.sha256(content).hexdigest() != plan.digest:
        return False
    table.storage.sync(folders=[posixpath.dirname(plan.archive)])
    table.archive.add(plan.archive, len(content), fence.create)
    return True
