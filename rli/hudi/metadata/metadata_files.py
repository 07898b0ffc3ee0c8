"""The timeline of a table's metadata table, and its files, listed after the timeline."""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from rli.hudi.metadata.partitions import METADATA_FOLDER
from rli.hudi.timeline.archive_history import last_archived
from rli.hudi.timeline.layouts import TimelineLayout
from rli.hudi.timeline.timeline import is_unbroken, listed_timeline, load_timeline
from rli.storage import Storage, StoredFile

_BEHIND_DIGITS: Final = ":"
"""Sorts behind the names of instants, which begin with digits."""


class MetadataFiles:
    """The timeline of a metadata table, and the files of its partitions, which are listed no earlier.

    Where a storage lists by name, one listing has both: the folder of the timeline begins with a dot, and its names come
    before those of all partitions.

    Args:
        storage: of the table.
        layout: of the timeline of the metadata table.

    Raises:
        CorruptTableError: the timeline is broken; names the file.
    """

    def __init__(self, storage: Storage, layout: TimelineLayout) -> None:
        self._storage = storage
        self._files: Mapping[str, Sequence[StoredFile]] | None = None
        if not storage.lists_by_name:
            self.timeline = load_timeline(storage, layout)
            return
        while True:
            self._files = _by_folder(storage.list_files(METADATA_FOLDER, recursive=True))
            self.timeline = listed_timeline(storage, layout, self._files[layout.folder])
            if self._no_instant_left() or is_unbroken(self.timeline):
                return

    def _no_instant_left(self) -> bool:
        """Whether the archive shows that no instant left the timeline between the listing of the timeline and that of the archive.

        An archiving writer first writes a file of the archive, then removes its instants from the timeline.
        """
        layout, files = self.timeline.layout, self._files or {}
        if layout.archive_folder < posixpath.join(layout.folder, _BEHIND_DIGITS):
            return False
        last = last_archived(posixpath.basename(file.path) for file in files.get(layout.archive_folder, ()))
        return last is not None and last < (self.timeline.first or "")

    def of(self, partition: str) -> Sequence[StoredFile]:
        """The files in the folder of a partition; none if there is no such folder."""
        folder = posixpath.join(METADATA_FOLDER, partition)
        return self._storage.list_files(folder) if self._files is None else self._files[folder]


def metadata_layout(layout: TimelineLayout) -> TimelineLayout:
    """The layout of the metadata table's timeline: that of the table, in the metadata table's folder."""
    return TimelineLayout(
        layout.version,
        posixpath.join(METADATA_FOLDER, layout.folder),
        posixpath.join(METADATA_FOLDER, layout.archive_folder),
    )


def _by_folder(files: Sequence[StoredFile]) -> Mapping[str, Sequence[StoredFile]]:
    found: dict[str, list[StoredFile]] = defaultdict(list)
    for file in files:
        found[posixpath.dirname(file.path)].append(file)
    return found
