"""How instants leave the active timeline for the archive, as a whole and in order, whatever becomes of the process.

The archive's file gets its name by a step that only a holder of the lease can take, and the process that has the lease
next finishes what has got so far, before anything else (``rli.commit.recovery``). So a process that was paused within an
archive finds nothing left to remove when it goes on.
"""

from __future__ import annotations

import hashlib
import posixpath
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, Literal
from uuid import uuid4

from pydantic import BaseModel, ValidationError

from rli.errors import ConflictError, CorruptTableError, LeaseLostError
from rli.hudi.metadata.metadata_files import metadata_layout
from rli.hudi.timeline.archive import ARCHIVED_ACTIONS, Archive
from rli.hudi.timeline.instant import Action, Instant
from rli.hudi.timeline.layouts import TimelineLayout
from rli.hudi.timeline.timeline import Timeline, list_instants
from rli.publication.fence import Fence
from rli.storage import Storage
from rli.view import paths

_STATES: Final = ("requested", "inflight", "completed")


def instants_before(timeline: Timeline, boundary: str) -> list[Instant]:
    """The completed instants before a time that can be archived."""
    cleans = [instant.time for instant in timeline.completed if instant.action == Action.CLEAN]
    return [
        instant
        for instant in timeline.completed
        if instant.action in ARCHIVED_ACTIONS
        and instant.time < boundary
        # The last clean says to Hudi which commits can still be read.
        and not (instant.action == Action.CLEAN and instant.time == max(cleans))
    ]


def archive_instants(layout: TimelineLayout, leaving: Iterable[Instant], dead: Sequence[str], fence: Fence) -> None:
    """Move completed instants to the archive. The caller holds the lease.

    Args:
        layout: of the timeline that they are on: the table's, or that of its metadata table.
        leaving: the instants.
        dead: base files of no commit, which would come to count as those of archived ones.
        fence: of the caller.

    Raises:
        LeaseLostError: another writer took the lease over; nothing was archived.
        ConflictError: another engine took the name of the archive's file; nothing was archived.
    """
    # Before the instants leave: from then on, each base file older than the active timeline counts as archived data
    # (P13).
    storage = fence.table.storage
    storage.discard_files(dead)
    storage.flush(folders={posixpath.dirname(path) for path in dead})
    _finish(_publish(layout, _files_of(storage, layout, leaving), fence), fence)


def _files_of(storage: Storage, layout: TimelineLayout, leaving: Iterable[Instant]) -> list[list[Instant]]:
    """Each instant in the states of which there are files, the completed one last; by time."""
    wanted = {(instant.time, instant.action) for instant in leaving}
    found: dict[tuple[str, str], list[Instant]] = defaultdict(list)
    for instant in list_instants(storage, layout):
        if (instant.time, instant.completed_action) in wanted:
            found[instant.time, instant.completed_action].append(instant)
    return [sorted(found[key], key=lambda instant: _STATES.index(instant.state)) for key in sorted(found)]


class _Plan(BaseModel):
    """What one archive is about to do, as its file says it.

    Attributes:
        version: of the format.
        archive: the archive's file, relative to the table; None if no instant needs one.
        digest: SHA-256 of that file.
        is_of_metadata: whether they are on the timeline of the metadata table.
        files: those that leave the active timeline, in this order.
    """

    version: Literal[1]
    archive: str | None
    digest: str | None
    is_of_metadata: bool = False
    files: tuple[str, ...]


def _publish(layout: TimelineLayout, files: list[list[Instant]], fence: Fence) -> str:
    """Write instants to the archive, and down which files leave the active timeline for it; the folder that says so."""
    storage = fence.table.storage
    file = Archive(storage, layout).file_for(files)
    # Pending states first, so that none seems to be pending; then in the order of the times: what a reader takes for
    # archived is all that is older than what it finds.
    leaving = [*(state for states in files for state in states[:-1]), *(states[-1] for states in files)]
    plan = _Plan(
        version=1,
        archive=None if file is None else file.path,
        digest=None if file is None else hashlib.sha256(file.content).hexdigest(),
        is_of_metadata=layout != fence.table.timeline_layout,
        files=tuple(layout.path(state.file_name) for state in leaving),
    )
    storage.make_folder(layout.archive_folder)
    folder = paths.archiving_folder(uuid4().hex)
    # The draft before the plan: a plan counts only once its archive file has its name, so a crash in between leaves a
    # folder that is dropped. Without an archive file, all instants of the plan are in the archive already.
    draft = storage.draft(paths.archive_content(folder), b"" if file is None else file.content)
    storage.write_bytes(paths.archive_plan(folder), plan.model_dump_json().encode())
    storage.flush(folders=[folder])
    fence.require_held()
    if file is None:
        return folder
    try:
        is_named = storage.publish(draft, file.path)
    except FileNotFoundError as error:
        raise LeaseLostError(
            f"another writer took the lease over: archive={file.path}", remedy="nothing was archived, call it again"
        ) from error
    # The file of this name may be this one: the answer to a first attempt may have been lost.
    if not is_named and storage.read_bytes(file.path) != file.content:
        storage.delete_folder(folder)
        raise ConflictError(
            f"another engine archived at the same time: archive={file.path}",
            remedy="nothing was archived, call it again",
        )
    return folder


def finish_archives(fence: Fence) -> None:
    """Finish archives whose file has its name, drop those whose has not; may be repeated. The caller holds the lease."""
    folders = fence.table.storage.list_folders(paths.ARCHIVING)
    if folders:
        # What was listed before is of no successor, whose draft would be taken back.
        fence.require_held()
    for folder in folders:
        _finish(folder, fence)


def _finish(folder: str, fence: Fence) -> None:
    storage = fence.table.storage
    # From here on nobody else can give the file its name, and it may just have got it.
    storage.settle(paths.archive_content(folder))
    plan = _read_plan(storage, folder)
    if plan is not None and _confirm_archive(plan, fence):
        # In the order of the plan, and only after the archive has them. A reader in between sees an instant twice, and
        # never not at all.
        storage.delete_files(plan.files)
        storage.flush(folders=[_layout_of(plan, fence).folder])
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
            f"the plan of an archive is damaged: file={paths.archive_plan(folder)}",
            remedy=f"delete the folder {folder}, then run: rli archive TABLE",
        ) from error


def _layout_of(plan: _Plan, fence: Fence) -> TimelineLayout:
    layout = fence.table.timeline_layout
    return metadata_layout(layout) if plan.is_of_metadata else layout


def _confirm_archive(plan: _Plan, fence: Fence) -> bool:
    """Let the file of a plan count in the archive; False if the archive does not have the instants of the plan."""
    if plan.archive is None:
        return True
    storage = fence.table.storage
    content = storage.read_bytes(plan.archive)
    # A file of this name is no proof: another engine may have been first. Its content says whether it is this plan's, and
    # only then the instants may leave.
    if content is None or hashlib.sha256(content).hexdigest() != plan.digest:
        return False
    storage.flush(folders=[posixpath.dirname(plan.archive)])
    Archive(storage, _layout_of(plan, fence)).add(plan.archive, len(content), fence.create)
    return True
