"""Log files of the metadata table, compared with the files and sizes in the metadata of completed deltacommits.

In table version 6, writers append to log files. There, bytes that are no block may be left by a dead writer, or be damage. File
names do not tell which, and Hudi's readers ignore both.
"""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property

from rli.errors import CorruptTableError, InstantNotFoundError
from rli.hudi.file_names import LogFileName
from rli.hudi.metadata.group_slices import GroupSlice
from rli.hudi.metadata.partitions import METADATA_FOLDER
from rli.hudi.metadata.valid_instants import ValidInstants
from rli.hudi.timeline.commit_metadata import BULK_INSERT, CommitMetadata, WriteStat
from rli.hudi.timeline.instant import Action
from rli.hudi.timeline.timeline import Timeline, load_timeline, read_commit
from rli.storage import Storage, StoredFile

_REMEDY = "restore it from a backup, or build the partition again: rli metadata enable TABLE"


class WrittenLogs:
    """The log files written by the deltacommits that count, as far as the active timeline has them. These are read when first needed.

    Args:
        storage: of the table.
        timeline: of its metadata table.
        instants: tell which deltacommits count.
    """

    def __init__(self, storage: Storage, timeline: Timeline, instants: ValidInstants) -> None:
        self._storage = storage
        self._timeline = timeline
        self._instants = instants

    def has(self, file: StoredFile, place: int) -> bool:
        """Whether a completed deltacommit wrote the byte at a place of a log file."""
        written = (stat for _, stat in self._stats.get(file.path, ()))
        return any(
            stat.appended_to is not None and stat.appended_to.offset <= place < stat.file_size for stat in written
        )

    def require_whole(self, partition: str, groups: Sequence[GroupSlice]) -> None:
        """Pass file groups of a partition if all their log files are there, no shorter than they were written.

        Raises:
            CorruptTableError: a log file is missing or too short.
            InstantNotFoundError: others have compacted the metadata table since its timeline was loaded.
        """
        slices = {group.file_id: group for group in groups}
        for path, written in self._stats.items():
            for instant, stat in written:
                group = slices.get(stat.file_id)
                if stat.partition_path == partition and self._is_over(group, posixpath.basename(path), instant):
                    self._require(path, stat.file_size, () if group is None else group.logs)

    def _is_over(self, group: GroupSlice | None, name: str, instant: str) -> bool:
        """Whether a log file belongs to a slice, and not to an earlier slice or to a file group of this name before a rebuild."""
        if group is None:
            # A rebuilt partition may have fewer groups than before, but not in version 6.
            return self._instants.name_log_files and self._instants.completion_time(instant) > self._last_birth
        if not self._instants.name_log_files:
            return LogFileName.parse(name).instant in {group.base_instant, *(log.instant for log in group.names)}
        first = group.base_instant or min(log.instant for log in group.names)
        return self._instants.completion_time(instant) >= self._instants.birth_time(first)

    def _require(self, path: str, size: int, logs: Sequence[StoredFile]) -> None:
        found = next((file for file in logs if file.path == path), None)
        if found is None:
            self._require_current()
            raise CorruptTableError(f"a log file of a completed commit is missing: file={path}", remedy=_REMEDY)
        if found.size < size:
            raise CorruptTableError(
                f"a log file of a completed commit is too short: file={path} bytes={found.size} written={size}",
                remedy=_REMEDY,
            )

    def _require_current(self) -> None:
        """Raise ``InstantNotFoundError`` if a compaction has completed since: then log files may have been removed."""
        now = load_timeline(self._storage, self._timeline.layout)
        if self._compactions(now) != self._compactions(self._timeline):
            raise InstantNotFoundError("others have compacted the metadata table", remedy="load the table again")

    @staticmethod
    def _compactions(timeline: Timeline) -> set[str]:
        return {instant.time for instant in timeline.completed if instant.action == Action.COMMIT}

    @cached_property
    def _last_birth(self) -> str:
        """Completion time of the last deltacommit that made partitions; "" if there is none."""
        births = (time for time, commit in self._commits.items() if commit.operation == BULK_INSERT)
        return max(map(self._instants.completion_time, births), default="")

    @cached_property
    def _commits(self) -> Mapping[str, CommitMetadata]:
        """The deltacommits that count, by their instants."""
        return {
            instant.time: read_commit(self._storage, self._timeline, instant)
            for instant in self._timeline.completed
            if instant.action == Action.DELTA_COMMIT and self._instants.is_valid(instant.time)
        }

    @cached_property
    def _stats(self) -> Mapping[str, Sequence[tuple[str, WriteStat]]]:
        """Path of a log file → the writes to it, each with its instant."""
        found = defaultdict[str, list[tuple[str, WriteStat]]](list)
        for instant, commit in self._commits.items():
            for stat in commit.write_stats:
                if stat.appended_to is not None:
                    found[posixpath.join(METADATA_FOLDER, stat.path)].append((instant, stat))
        return found
