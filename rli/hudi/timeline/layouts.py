"""The two layouts of a timeline: where the files of instants are, how they are named, how commits are written down.

* layout 1 (table version 6), in ``.hoodie/``: ``<time>.<action>.requested``, ``<time>.<action>.inflight`` and
  ``<time>.<action>``, where an inflight commit is just ``<time>.inflight``; commit metadata is JSON;
* layout 2 (versions 8 and 9), in ``.hoodie/timeline/``: the same, but the completed file is
  ``<time>_<completion time>.<action>``; commit metadata is Avro.

A file for an earlier state stays when a later state is reached. Completion times are strictly ordered: who completes
an instant holds the table's lease, and takes a time after all that the timeline shows.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import Final, Self

from rli.hudi.timeline.commit_metadata import CommitMetadata
from rli.hudi.timeline.instant import Action, InstantState, completed_action

META_FOLDER: Final = ".hoodie"
_MARKERS: Final = f"{META_FOLDER}/.temp"
_WITHOUT_COMPLETION_TIMES: Final = 1


@dataclass(frozen=True, slots=True)
class TimelineLayout:
    """One of the layouts, for one table.

    Attributes:
        version: 1 or 2 (``hoodie.timeline.layout.version``).
        folder: where the files of the instants are, relative to the table.
        archive_folder: where the archive is, relative to the table.
    """

    version: int
    folder: str
    archive_folder: str

    @classmethod
    def of(
        cls,
        version: int,
        timeline_path: str = "timeline",
        archive_path: str = "archived",
        history_path: str = "history",
    ) -> Self:
        """The layout of a table.

        Args:
            version: 1 or 2.
            timeline_path: folder of layout 2, below ``.hoodie``.
            archive_path: folder of the archive of layout 1, below ``.hoodie``.
            history_path: folder of the archive of layout 2, below the timeline's.
        """
        if version == _WITHOUT_COMPLETION_TIMES:
            return cls(version, META_FOLDER, posixpath.join(META_FOLDER, archive_path))
        folder = posixpath.join(META_FOLDER, timeline_path)
        return cls(version, folder, posixpath.join(folder, history_path))

    @property
    def keeps_completion_times(self) -> bool:
        return self.version != _WITHOUT_COMPLETION_TIMES

    def path(self, file_name: str) -> str:
        """A file of the timeline, relative to the table."""
        return posixpath.join(self.folder, file_name)

    def pending_path(self, time: str, action: str, state: InstantState) -> str:
        """File of an instant that is requested or inflight, relative to the table."""
        if state is InstantState.INFLIGHT and action == Action.COMMIT:
            return self.path(f"{time}.inflight")
        return self.path(f"{time}.{action}.{state}")

    def completed_path(self, time: str, action: str, completion_time: str) -> str:
        """File of a completed instant, relative to the table."""
        ending = completed_action(action)
        return self.path(f"{time}_{completion_time}.{ending}" if self.keeps_completion_times else f"{time}.{ending}")

    def encode(self, commit: CommitMetadata) -> bytes:
        """Content of a completed commit."""
        return commit.to_avro() if self.keeps_completion_times else commit.to_json()

    def decode(self, content: bytes, path: str) -> CommitMetadata:
        """Read the content of a completed write; raises ``CorruptTableError`` for anything else."""
        read = CommitMetadata.from_avro if self.keeps_completion_times else CommitMetadata.from_json
        return read(content, path)


def marker_folder(instant: str) -> str:
    """The folder, relative to the table, in which a pending write marks its files."""
    return f"{_MARKERS}/{instant}"
