"""Files of the metadata table, compared with the files and sizes in the metadata of its completed commits.

In table version 6, writers append to log files. There, bytes that are no block may be left by a dead writer, or be damage. File
names do not tell which, and Hudi's readers ignore both.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

from rli.errors import CorruptTableError, InstantNotFoundError
from rli.hudi.file_names import LogFileName
from rli.hudi.metadata.group_slices import GroupSlice
from rli.hudi.metadata.parallel_reads import read_each
from rli.hudi.metadata.partitions import METADATA_FOLDER
from rli.hudi.metadata.valid_instants import ValidInstants
from rli.hudi.timeline.commit_metadata import BULK_INSERT, CommitMetadata, WriteStat
from rli.hudi.timeline.instant import Action, Instant
from rli.hudi.timeline.timeline import Timeline, load_timeline, read_commit
from rli.storage import Storage, StoredFile

_REMEDY: Final = "restore it from a backup, or build the partition again; rli doctor TABLE says how"


class WrittenLogs:
    """The files written by the commits that count, as far as the active timeline has them. Their metadata is read when first needed.

    Args:
        storage: of the table.
        timeline: of its metadata table.
        instants: tell which deltacommits count.
    """

    def __init__(self, storage: Storage, timeline: Timeline, instants: ValidInstants) -> None:
        self._storage = storage
        self._timeline = timeline
        self._instants = instants
        self._read: dict[str, CommitMetadata] = {}

    def has(self, file: StoredFile, place: int) -> bool:
        """Whether a completed deltacommit wrote the byte at a place of a log file."""
        return any(
            _path_of(stat) == file.path and stat.appended_to.offset <= place < stat.file_size
            for _, commit in self._commits()
            for stat in commit.write_stats
            if stat.appended_to is not None
        )

    def require_whole(self, partition: str, groups: Sequence[GroupSlice]) -> None:
        """Pass file groups of a partition if all their files are there, log files no shorter than they were written.

        Raises:
            CorruptTableError: a file is missing, or a log file too short.
            InstantNotFoundError: others have compacted the metadata table since its timeline was loaded.
        """
        self._require(partition, groups, lambda _: True)

    def require_each(self, partition: str, groups: Sequence[GroupSlice]) -> None:
        """Pass file groups of a partition unless a file of a completed commit is missing, or empty.

        It reads the metadata of those commits alone that have no file there by the files' names, so of none most often. Raises as
        ``require_whole``.
        """
        builds = {build.time for build in self._instants.builds}
        changes = [change for change in self._chosen(_since(groups, self._instants)) if change.time not in builds]
        # Without a base file, the build tells whether there was one.
        born = builds.intersection(_first_instant(group) for group in _visible(groups) if group.base is None)
        if len(groups) == 1:
            (group,) = groups
            changes = [change for change in changes if not self._may_show(change, group)]
            written = [log for log in group.changed_logs if log.size]
            if not self._instants.name_log_files and len(changes) <= len(written):
                # The names do not tell which commit has written a log file, but each has written one.
                changes = []
        asked = {*born, *(change.time for change in changes)}
        if asked:
            self._require(partition, groups, lambda instant: instant.time in asked)

    def _may_show(self, change: Instant, group: GroupSlice) -> bool:
        """Whether a file group has the file of a deltacommit or of a compaction, or needs it no more, by names alone."""
        if change.action == Action.COMMIT:
            return change.time <= group.base_instant
        files = zip(group.names, group.logs, strict=True)
        return self._instants.name_log_files and any(name.instant == change.time and file.size for name, file in files)

    def _require(self, partition: str, groups: Sequence[GroupSlice], is_asked: Callable[[Instant], bool]) -> None:
        slices = {group.file_id: group for group in _visible(groups)}
        commits = list(self._commits(_since(groups, self._instants), is_asked))
        births = (time for time, commit in commits if commit.operation == BULK_INSERT)
        last_birth = max(map(self._instants.completion_time, births), default="")
        for instant, commit in commits:
            for stat in commit.write_stats:
                if stat.partition_path == partition:
                    self._require_file(stat, instant, slices.get(stat.file_id), last_birth)

    def _require_file(self, stat: WriteStat, instant: str, group: GroupSlice | None, last_birth: str) -> None:
        """Raise ``CorruptTableError`` if a file of a slice is missing or too short."""
        if stat.appended_to is None:
            if self._lacks_base(group, instant, last_birth):
                self._require_current()
                raise CorruptTableError(
                    f"a base file of a completed commit is missing: file={_path_of(stat)}", remedy=_REMEDY
                )
        elif self._is_over(group, posixpath.basename(stat.path), instant, last_birth):
            self._require_log(_path_of(stat), stat.file_size, () if group is None else group.logs)

    def _lacks_base(self, group: GroupSlice | None, instant: str, last_birth: str) -> bool:
        """Whether the base file of a completed commit should be in a slice, and is not; see ``_is_over``."""
        if group is None:
            return self._instants.completion_time(instant) >= last_birth
        return group.base_instant < instant and _first_instant(group) <= instant

    def _is_over(self, group: GroupSlice | None, name: str, instant: str, last_birth: str) -> bool:
        """Whether a log file belongs to a slice, and not to an earlier slice or to a file group of this name before a rebuild."""
        if group is None:
            # A rebuilt partition may have fewer groups than before.
            return self._instants.completion_time(instant) > last_birth
        if not self._instants.name_log_files:
            return LogFileName.parse(name).instant in {group.base_instant, *(log.instant for log in group.names)}
        return self._instants.completion_time(instant) >= self._instants.birth_time(_first_instant(group))

    def _require_log(self, path: str, size: int, logs: Sequence[StoredFile]) -> None:
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
        """Raise ``InstantNotFoundError`` if a compaction has completed since: then files may have been removed."""
        now = load_timeline(self._storage, self._timeline.layout)
        if self._compactions(now) != self._compactions(self._timeline):
            raise InstantNotFoundError("others have compacted the metadata table", remedy="load the table again")

    @staticmethod
    def _compactions(timeline: Timeline) -> set[str]:
        return {instant.time for instant in timeline.completed if instant.action == Action.COMMIT}

    def _commits(
        self, since: str = "", is_asked: Callable[[Instant], bool] = lambda _: True
    ) -> Iterator[tuple[str, CommitMetadata]]:
        """Those of the deltacommits that count, and of the compactions, that completed at a time or later; by their instants."""
        chosen = [instant for instant in self._chosen(since) if is_asked(instant)]
        missing = [instant for instant in chosen if instant.time not in self._read]
        contents = read_each(self._storage, partial(read_commit, self._storage, self._timeline), missing)
        self._read |= zip((instant.time for instant in missing), contents, strict=True)
        return ((instant.time, self._read[instant.time]) for instant in chosen)

    def _chosen(self, since: str) -> list[Instant]:
        return [
            instant
            for instant in self._timeline.completed
            if instant.action == Action.COMMIT
            or (instant.action == Action.DELTA_COMMIT and self._instants.is_valid(instant.time))
            if self._instants.completion_time(instant.time) >= since
        ]

    def __reduce__(self) -> tuple[object, ...]:
        # Another process reads them itself, should it find damage.
        return WrittenLogs, (self._storage, self._timeline, self._instants)


def _path_of(stat: WriteStat) -> str:
    return posixpath.join(METADATA_FOLDER, stat.path)


def _visible(groups: Sequence[GroupSlice]) -> list[GroupSlice]:
    """A group without a visible file has lost all its files, or is new in a pending commit."""
    return [group for group in groups if group.base is not None or group.names]


def _since(groups: Sequence[GroupSlice], instants: ValidInstants) -> str:
    """When the slices of file groups began: earlier files belong to former slices, or to this partition before a rebuild."""
    return min((instants.birth_time(_first_instant(group)) for group in _visible(groups)), default="")


def _first_instant(group: GroupSlice) -> str:
    """The instant of the base file, or of the first log file where there is none."""
    return group.base_instant or min(log.instant for log in group.names)
