"""Savepoints: a commit whose files no clean removes, so that the table can be read as of it and restored to it."""

from __future__ import annotations

import posixpath
import time
from typing import Final

from rli.errors import InstantNotFoundError, UnsupportedTableError
from rli.table.services.clean import finish_cleans
from rli.table.services.restore import require_commit
from rli.table.state.cleaned import require_files_as_of
from rli.table.state.definition import TableDefinition
from rli.table.state.snapshot import Snapshot
from rli.timeline.instant import Action
from rli.timeline.savepoint_metadata import SavepointMetadata

_SAVED_BY: Final = "rli"


def create_savepoint(table: TableDefinition, instant_time: str | None, comment: str) -> str:
    """Keep a commit, or the last one; returns its time. One that is kept already stays as it is.

    The caller holds the lease.

    Raises:
        InstantNotFoundError: it is no completed commit, or files that it needs were cleaned.
        UnsupportedTableError: all commits before it were archived.
    """
    # What they delete, the savepoint might need.
    finish_cleans(table)
    current = Snapshot.now(table)
    latest = current.timeline.latest_write
    if instant_time is None and latest is None:
        raise InstantNotFoundError(f"there is no commit to keep: table={table.location}; write to the table first")
    saved = instant_time or (latest.time if latest else "")
    require_commit(current.timeline, saved)
    if all(write.time >= saved for write in current.timeline.unsaved_writes) and table.has_archive():
        raise UnsupportedTableError(
            f"all commits before this one were archived, and Hudi needs one of them beside it: instant={saved}; keep a "
            "later commit"
        )
    past = current.as_of(saved)
    require_files_as_of(current, past)
    files: dict[str, tuple[str, ...]] = {}
    for group, file_slice in sorted(past.slices.items()):
        name = posixpath.basename(file_slice.path)
        files[group.partition_path] = (*files.get(group.partition_path, ()), name)
    metadata = SavepointMetadata(_SAVED_BY, int(time.time() * 1000), comment, files)
    writer = table.timeline_writer
    writer.start(saved, Action.SAVEPOINT)
    writer.complete(saved, Action.SAVEPOINT, metadata.to_avro(), current.timeline.next_time(table.now()))
    return saved


def delete_savepoint(table: TableDefinition, instant_time: str) -> None:
    """Keep a commit no longer. The caller holds the lease.

    Raises:
        InstantNotFoundError: no savepoint keeps it.
    """
    if all(instant.time != instant_time for instant in table.load_timeline().savepoints):
        raise InstantNotFoundError(
            f"no savepoint keeps this commit: instant={instant_time}; list the savepoints: rli timeline TABLE"
        )
    table.timeline_writer.remove(instant_time, Action.SAVEPOINT)
