"""File slices: which data files make up the table at an instant."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from rli.hudi.timeline.timeline import Timeline
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
class FileSlice:
    """The state of a file group from one instant on: ``rli.view.file_slice_reader`` reads it.

    Attributes:
        group: the file group.
        instant: the instant that wrote its base file.
        base: its base file; None if it has log files alone.
        logs: the log files that change the base file's records, the oldest first. Listings refuse log files today.
    """

    group: FileGroupId
    instant: str
    base: DataFile | None
    logs: tuple[DataFile, ...] = ()

    @property
    def files(self) -> tuple[DataFile, ...]:
        """All its files, the base file first."""
        return self.logs if self.base is None else (self.base, *self.logs)

    @property
    def parts(self) -> tuple[str, ...]:
        """What tells each file from all others of the file group: the base file's instant, and the names of the log files."""
        base = () if self.base is None else (self.instant,)
        return (*base, *(posixpath.basename(log.path) for log in self.logs)) if self.logs else base

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
        slices: as listed.
        timeline: says which instants completed.
        replaced: for each replaced file group, the instant of the replacement.
        as_of: only instants up to this one count; all of them if None.
    """
    latest: dict[FileGroupId, FileSlice] = {}
    for candidate in slices:
        if as_of is not None and candidate.instant > as_of:
            continue
        if not timeline.is_visible(candidate.instant):
            continue
        current = latest.get(candidate.group)
        if current is None or candidate.instant > current.instant:
            latest[candidate.group] = candidate
    return {
        group: chosen
        for group, chosen in latest.items()
        if group not in replaced or (as_of is not None and replaced[group] > as_of)
    }


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
