"""Files of the metadata table, compared with what completed commits of it say that they wrote.

Where writers append to log files (table version 6), bytes that are no block may be what a dead writer left, or damage: names of
files do not tell, and readers of Hudi pass over both.
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
    """What the commits of the active timeline that count have written. They are read at the first question.

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
        """Whether a completed deltacommit wrote the byte of a log file at a place."""
        written = (stat for _, stat in self._stats.get(file.path, ()))
        return any(
            stat.appended_to is not None and stat.appended_to.offset <= place < stat.file_size for stat in written
        )

    def require_whole(self, partition: str, groups: Sequence[GroupSlice]) -> None:
        """Pass the file groups of a partition whose files are all there, log files no shorter than they were written.

        Raises:
            CorruptTableError: a file is missing, or a log file too short.
            InstantNotFoundError: others have compacted the metadata table since its timeline was loaded.
        """
        # One of which no file counts has lost all of them, or is new in a commit that is pending.
        slices = {group.file_id: group for group in groups if group.base is not None or group.names}
        for path, written in self._stats.items():
            for instant, stat in written:
                group = slices.get(stat.file_id)
                if stat.partition_path == partition and self._is_over(group, posixpath.basename(path), instant):
                    self._require(path, stat.file_size, () if group is None else group.logs)
        for instant, stat in self._bases:
            if stat.partition_path == partition and self._lacks_base(slices.get(stat.file_id), instant):
                self._require_current()
                raise CorruptTableError(
                    f"a base file of a completed commit is missing: file={posixpath.join(METADATA_FOLDER, stat.path)}",
                    remedy=_REMEDY,
                )

    def _lacks_base(self, group: GroupSlice | None, instant: str) -> bool:
        """Whether the base file of a completed commit should be in a slice, and is not; see ``_is_over``."""
        if group is None:
            return self._instants.completion_time(instant) >= self._last_birth
        return group.base_instant < instant and _first_instant(group) <= instant

    def _is_over(self, group: GroupSlice | None, name: str, instant: str) -> bool:
        """Whether a log file belongs to a slice: not to one before, nor to a group of this name that was built anew."""
        if group is None:
            # A partition that was built anew need not have all groups of the one before.
            return self._instants.completion_time(instant) > self._last_birth
        if not self._instants.name_log_files:
            return LogFileName.parse(name).instant in {group.base_instant, *(log.instant for log in group.names)}
        return self._instants.completion_time(instant) >= self._instants.birth_time(_first_instant(group))

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
        """Raise where a compaction has completed since: with the next one, files may be cleaned away."""
        now = load_timeline(self._storage, self._timeline.layout)
        if self._compactions(now) != self._compactions(self._timeline):
            raise InstantNotFoundError("others have compacted the metadata table", remedy="load the table again")

    @staticmethod
    def _compactions(timeline: Timeline) -> set[str]:
        return {instant.time for instant in timeline.completed if instant.action == Action.COMMIT}

    @cached_property
    def _last_birth(self) -> str:
        """When the last deltacommit completed that made partitions."""
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
    def _bases(self) -> Sequence[tuple[str, WriteStat]]:
        """The base files that births and compactions wrote, each with its instant."""
        compactions = (instant for instant in self._timeline.completed if instant.action == Action.COMMIT)
        written = {found.time: read_commit(self._storage, self._timeline, found) for found in compactions}
        return [
            (instant, stat)
            for instant, commit in (*self._commits.items(), *written.items())
            for stat in commit.write_stats
            if stat.appended_to is None
        ]

    @cached_property
    def _stats(self) -> Mapping[str, Sequence[tuple[str, WriteStat]]]:
        """Path of a log file → what was written to it, with the instant that did."""
        found = defaultdict[str, list[tuple[str, WriteStat]]](list)
        for instant, commit in self._commits.items():
            for stat in commit.write_stats:
                if stat.appended_to is not None:
                    found[posixpath.join(METADATA_FOLDER, stat.path)].append((instant, stat))
        return found


def _first_instant(group: GroupSlice) -> str:
    """The instant of the base file, or of the first log file where there is none."""
    return group.base_instant or min(log.instant for log in group.names)
