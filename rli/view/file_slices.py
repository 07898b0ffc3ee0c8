"""File slices: which data files make up the table at an instant."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Self

from rli.hudi.file_names import LogFileName
from rli.hudi.timeline.timeline import Timeline, is_older
from rli.model import FileGroupId
from rli.storage import Storage

PARTITION_METADATA: Final = ".hoodie_partition_metadata"


@dataclass(frozen=True, slots=True)
class DataFile:
    """A base file or a log file.

    Attributes:
        path: relative to the table.
        size: bytes.
    """

    path: str
    size: int


@dataclass(frozen=True, slots=True)
class SeenInstants:
    """Instants whose blocks count in log files that several instants wrote to.

    Attributes:
        completed: times of the completed writes on the active timeline.
        first: the first of them: an older instant was archived; None if there is none.
        as_of: archived instants up to this one count; None for all.
        undone: older instants that were undone, and do not count.
    """

    completed: frozenset[str]
    first: str | None
    as_of: str | None
    undone: frozenset[str]

    @classmethod
    def of(cls, timeline: Timeline) -> Self:
        """The instants that pass ``Timeline.is_visible``."""
        # What completed although it was rolled back is a clustering, and has no blocks.
        return cls(timeline.write_times, timeline.first, timeline.as_of, timeline.rolled_back)

    def has(self, instant: str) -> bool:
        """Whether blocks of an instant count."""
        is_archived = is_older(instant, self.first, self.as_of) and instant not in self.undone
        return instant in self.completed or is_archived


@dataclass(frozen=True, slots=True)
class FileSlice:
    """The state of a file group from one instant on: ``Snapshot.reader`` reads it.

    Attributes:
        group: the file group.
        instant: the instant that wrote its base file; if it has log files alone, the instant in the name of the first one.
        base: its base file; None if it has log files alone.
        logs: the log files that change the base file's records, in the order in which their records apply.
        seen: the instants whose blocks count in the log files; None if each log file belongs to one commit, and all count.
    """

    group: FileGroupId
    instant: str
    base: DataFile | None
    logs: tuple[DataFile, ...] = ()
    seen: SeenInstants | None = None

    @property
    def files(self) -> tuple[DataFile, ...]:
        """All its files, the base file first."""
        return self.logs if self.base is None else (self.base, *self.logs)

    @property
    def parts(self) -> tuple[str, ...]:
        """What tells each file from all others of the file group: the base file's instant, and the names of the log files."""
        base = () if self.base is None else (self.instant,)
        return (*base, *(posixpath.basename(log.path) for log in self.logs)) if self.logs else base

    def without_logs(self) -> FileSlice:
        """The same with the base file alone."""
        return replace(self, logs=(), seen=None) if self.logs else self

    @property
    def size(self) -> int:
        """Bytes of all its files."""
        return sum(file.size for file in self.files)


def latest_slices(
    slices: Iterable[FileSlice],
    timeline: Timeline,
    replaced: Mapping[FileGroupId, str],
    as_of: str | None = None,
) -> dict[FileGroupId, FileSlice]:
    """The newest visible slice of each file group.

    Args:
        slices: as listed: one for each base file, and one for each log file.
        timeline: says which instants completed.
        replaced: for each replaced file group, the instant of the replacement.
        as_of: only instants up to this one count; all of them if None.
    """
    latest: dict[FileGroupId, FileSlice] = {}
    logs: dict[FileGroupId, list[FileSlice]] = {}
    for candidate in slices:
        if candidate.base is None:
            logs.setdefault(candidate.group, []).append(candidate)
            continue
        if as_of is not None and candidate.instant > as_of:
            continue
        if not timeline.is_visible(candidate.instant):
            continue
        current = latest.get(candidate.group)
        if current is None or candidate.instant > current.instant:
            latest[candidate.group] = candidate
    latest.update(_with_logs(latest, logs, timeline))
    return {
        group: chosen
        for group, chosen in latest.items()
        if group not in replaced or (as_of is not None and replaced[group] > as_of)
    }


def _with_logs(
    bases: Mapping[FileGroupId, FileSlice], logs: Mapping[FileGroupId, Sequence[FileSlice]], timeline: Timeline
) -> Iterator[tuple[FileGroupId, FileSlice]]:
    """The slices of the file groups that have log files over their newest base file, or have no base file."""
    names_commits = timeline.layout.keeps_completion_times
    seen = SeenInstants.of(timeline) if logs and not names_commits else None
    for group, listed in logs.items():
        base = bases.get(group)
        over = [one for one in listed if _is_over(one.instant, base, timeline)]
        if over:
            begun = min(one.instant for one in over) if base is None else base.instant
            yield group, FileSlice(group, begun, None if base is None else base.base, _logs_of(over), seen)


def slice_versions(slices: Iterable[FileSlice], timeline: Timeline) -> list[FileSlice]:
    """The visible slices of one file group, the oldest first: each base file with the log files over it.

    Args:
        slices: of the file group, as listed: one for each base file, and one for each log file.
        timeline: says which instants completed.
    """
    bases = sorted(
        (one for one in slices if one.base is not None and timeline.is_visible(one.instant)),
        key=lambda one: one.instant,
    )
    logs: dict[FileSlice | None, list[FileSlice]] = {}
    for log in (one for one in slices if one.base is None and may_count(one, timeline)):
        below = [base for base in bases if _is_over(log.instant, base, timeline)]
        logs.setdefault(below[-1] if below else None, []).append(log)
    found = [replace(base, logs=_logs_of(logs.get(base, ()))) for base in bases]
    alone = logs.get(None)
    if alone:
        found.insert(0, replace(min(alone, key=lambda one: one.instant), logs=_logs_of(alone)))
    return found


def may_count(listed: FileSlice, timeline: Timeline) -> bool:
    """Whether a file may count, by the instant in its name; log files of table version 6 do not have that of their commit there.

    Args:
        listed: the slice of a single file.
        timeline: says which instants completed.
    """
    names_commit = listed.base is not None or timeline.layout.keeps_completion_times
    return not names_commit or timeline.is_visible(listed.instant)


def _logs_of(listed: Iterable[FileSlice]) -> tuple[DataFile, ...]:
    return tuple(sorted((log for one in listed for log in one.logs), key=_log_name))


def _is_over(instant: str, base: FileSlice | None, timeline: Timeline) -> bool:
    """Whether a log file is behind a base file, and counts.

    Args:
        instant: in the name of the log file.
        base: the newest visible base file of the file group; None if there is none.
        timeline: of the table.
    """
    if timeline.layout.keeps_completion_times and not timeline.is_visible(instant):
        return False
    # In table version 6, the instant of the base file, or of a compaction that is pending: its log files count over the base
    # file before.
    return base is None or _comes_after(instant, base.instant, timeline)


def is_behind(log: DataFile, base_instant: str, timeline: Timeline) -> bool:
    """Whether a log file that counts is behind a base file of an instant, and not merged in it."""
    return _comes_after(_log_name(log).instant, base_instant, timeline)


def _comes_after(instant: str, base_instant: str, timeline: Timeline) -> bool:
    if instant >= base_instant:
        return True
    # No instant completes before its own time.
    return timeline.layout.keeps_completion_times and timeline.completion_of(instant) >= base_instant


def _log_name(file: DataFile) -> LogFileName:
    return LogFileName.parse(posixpath.basename(file.path))


def write_partition_metadata(storage: Storage, partition_paths: Iterable[str], instant: str) -> None:
    """Write the metadata files of partitions: Hudi's Spark reader passes over the records of folders without one.

    A metadata file is written once, so it waits for the disk in tables whose commits do not. Where a power cut has left an empty one,
    it is written again.
    """
    flushed = storage.flushed()
    for partition_path in partition_paths:
        path = f"{partition_path}/{PARTITION_METADATA}" if partition_path else PARTITION_METADATA
        if not storage.filesystem.get_file_info(storage.full_path(path)).size:
            depth = len(partition_path.split("/")) if partition_path else 0
            content = f"#partition metadata\ncommitTime={instant}\npartitionDepth={depth}\n".encode()
            flushed.write_bytes(path, content)
