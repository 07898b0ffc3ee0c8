"""Savepoints: a commit whose files no clean removes, so that the table can be read as of it and restored to it."""

from __future__ import annotations

import posixpath
import time
from typing import Final

from rli.errors import InstantNotFoundError, UnsupportedTableError
from rli.hudi.timeline.by_partition import by_partition
from rli.hudi.timeline.instant import Action
from rli.hudi.timeline.savepoint_metadata import SavepointMetadata
from rli.publication.fence import Fence
from rli.publication.instants import TableInstant
from rli.services.clean import finish_cleans
from rli.services.planned import AnnouncedService, Finished
from rli.services.restore import require_commit
from rli.view import paths
from rli.view.definition import TableDefinition
from rli.view.snapshot import Snapshot
from rli.view.table_change import NO_CHANGE
from rli.view.time_travel import require_files_as_of

_SAVED_BY: Final = "rli"

_DELETION: Final = "deletion"
"""What the announcement of a deletion is named by; it holds the content of the savepoint that goes."""


def create_savepoint(table: TableDefinition, instant_time: str | None, comment: str, fence: Fence) -> str:
    """Keep a commit, or the last one; returns its time. One that is kept already stays as it is.

    The caller holds the lease.

    Raises:
        InstantNotFoundError: it is no completed commit, or files that it needs were cleaned.
        UnsupportedTableError: all commits before it were archived.
    """
    # What they delete, the savepoint might need.
    finish_cleans(table, fence)
    current = Snapshot.now(table)
    latest = current.timeline.latest_write
    if instant_time is None and latest is None:
        raise InstantNotFoundError(
            f"there is no commit to keep: table={table.location}", remedy="write to the table first"
        )
    saved = instant_time or (latest.time if latest else "")
    require_commit(current.timeline, saved)
    if all(write.time >= saved for write in current.timeline.unsaved_writes) and table.has_archive():
        raise UnsupportedTableError(
            f"all earlier commits were archived, and Hudi needs an earlier commit beside it: instant={saved}",
            remedy="keep a later commit",
        )
    past = current.as_of(saved)
    require_files_as_of(current, past)
    files = by_partition(
        (group.partition_path, [posixpath.basename(file.path) for file in file_slice.files])
        for group, file_slice in sorted(past.slices.items())
    )
    metadata = SavepointMetadata(_SAVED_BY, int(time.time() * 1000), comment, files)
    announcement = paths.announcement(saved, Action.SAVEPOINT)
    table.storage.write_bytes(announcement, b"")
    # By the announcement a savepoint that was only begun is found, after a power cut too.
    table.storage.flush(folders=[posixpath.dirname(announcement)])
    savepoint = TableInstant(table, saved, Action.SAVEPOINT)
    fence.start(savepoint, NO_CHANGE)
    fence.complete(savepoint, NO_CHANGE, metadata.to_avro())
    table.storage.delete_files([announcement])
    return saved


class SavepointService(AnnouncedService):
    """Savepoints that were begun and not made: nobody finishes them, because they have no plan on the timeline."""

    action = Action.SAVEPOINT

    def resume(self, table: TableDefinition, instant_time: str, fence: Fence) -> Finished:  # noqa: ARG002  (drops it only)
        """Remove the traces of a savepoint that was not made. The caller holds the lease."""
        savepoint = TableInstant(table, instant_time, Action.SAVEPOINT)
        if not savepoint.is_completed:
            savepoint.drop()
        table.storage.delete_files([paths.announcement(instant_time, Action.SAVEPOINT)])
        return Finished()


SAVEPOINT: Final = SavepointService()


def delete_savepoint(table: TableDefinition, instant_time: str, fence: Fence) -> None:
    """Keep a commit no longer. The caller holds the lease.

    Raises:
        InstantNotFoundError: no savepoint keeps it.
    """
    content = TableInstant(table, instant_time, Action.SAVEPOINT).content()
    if content is None:
        raise InstantNotFoundError(
            f"no savepoint keeps this commit: instant={instant_time}", remedy="list the savepoints: rli timeline TABLE"
        )
    # No action of the timeline stands for a deletion: this file alone announces it.
    fence.create(paths.announcement(instant_time, _DELETION), content)
    SAVEPOINT_DELETION.resume(table, instant_time, fence)


class SavepointDeletion(AnnouncedService):
    """Deletions of savepoints, each announced by a file."""

    action = _DELETION

    def resume(self, table: TableDefinition, instant_time: str, fence: Fence) -> Finished:  # noqa: ARG002  (needs no fence)
        """Delete the savepoint that an announcement names. The caller holds the lease, or has lost it since."""
        announcement = paths.announcement(instant_time, _DELETION)
        content = table.storage.read_bytes(announcement)
        if content is not None:
            savepoint = TableInstant(table, instant_time, Action.SAVEPOINT)
            savepoint.withdraw_content(content)
            savepoint.drop()
            table.storage.delete_files([announcement])
        return Finished()


SAVEPOINT_DELETION: Final = SavepointDeletion()
