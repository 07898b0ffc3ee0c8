"""Marker files: which files a pending write makes, for writers of Hudi that roll it back.

A writer of Hudi that finds a dead pending instant removes the files that its markers name, and takes the instant off the timeline.
Log files without a marker would stay, and come alive once the active timeline starts later: Hudi takes them for files of an
archived commit. The form is Hudi's: ``.hoodie/.temp/<instant>/<file>.marker.CREATE``, for log files of table version 6
``.marker.APPEND``. rli itself goes by the manifest of the write.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rli.hudi.lock_settings import is_lock_named
from rli.hudi.timeline.commit_metadata import WriteStat
from rli.hudi.timeline.layouts import marker_folder
from rli.storage import Storage
from rli.view.definition import TableDefinition

_MARK: Final = ".marker."


def needs_markers(table: TableDefinition) -> bool:
    """Whether a rollback by Hudi must find the files of a pending write of rli by markers.

    Log files do not tell their instant. And in an object store, beside writers of Hudi, base files are in the table while a write waits for
    the lock.
    """
    return not table.properties.is_copy_on_write or (not table.storage.is_local and is_lock_named(table.properties.raw))


def write_markers(table: TableDefinition, instant: str, stats: Iterable[WriteStat]) -> None:
    """Mark the files of a write, before any of them comes into the table.

    Args:
        table: the table.
        instant: of the write.
        stats: of its files.
    """
    appends = not table.timeline_layout.keeps_completion_times
    storage = table.storage.unflushed()
    for stat in stats:
        kind = "APPEND" if appends and stat.appended_to is not None else "CREATE"
        path = f"{marker_folder(instant)}/{stat.path}{_MARK}{kind}"
        storage.make_folder(path.rpartition("/")[0])
        storage.create(path, b"")


def marked_files(storage: Storage, instant: str) -> list[str]:
    """The data files that markers of an instant name, whichever engine made them; paths in the table."""
    folder = marker_folder(instant)
    found = (file.path.removeprefix(f"{folder}/") for file in storage.list_files(folder, recursive=True))
    return sorted(path.rpartition(_MARK)[0] for path in found if _MARK in path)


def remove_markers(table: TableDefinition, instant: str) -> None:
    """Remove the markers of a write of rli that is published or undone."""
    if needs_markers(table):
        table.storage.delete_folder(marker_folder(instant))
