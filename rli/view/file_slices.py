"""File slices: which base files make up the table at an instant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from rli.errors import UnsupportedTableError
from rli.hudi.file_names import EXTENSION, BaseFileName
from rli.hudi.timeline.timeline import Timeline
from rli.model import FileGroupId
from rli.storage import Storage, StoredFile

PARTITION_METADATA: Final = ".hoodie_partition_metadata"
_OTHER_FORMATS: Final = (".lance", ".orc", ".hfile")


@dataclass(frozen=True, slots=True)
class FileSlice:
    """A base file: the state of a file group from one instant on.

    Attributes:
        group: the file group.
        instant: the instant that wrote the file.
        path: relative to the table.
        size: bytes.
    """

    group: FileGroupId
    instant: str
    path: str
    size: int


def list_base_files(storage: Storage) -> list[FileSlice]:
    """All base files of all partitions, visible or not.

    Raises:
        UnsupportedTableError: a partition holds files of another format, or log files (merge-on-read).
    """
    slices: list[FileSlice] = []
    for folder in ("", *(name for name in storage.list_folders() if name != ".hoodie")):
        files = storage.list_files(folder, recursive=bool(folder))
        slices.extend(_slices_of(files))
    return slices


def list_partition(storage: Storage, partition_path: str) -> list[FileSlice]:
    """All base files of one partition."""
    return list(_slices_of(storage.list_files(partition_path)))


def latest_slices(
    base_files: Iterable[FileSlice],
    timeline: Timeline,
    replaced: Mapping[FileGroupId, str],
    as_of: str | None = None,
) -> dict[FileGroupId, FileSlice]:
    """The newest visible slice of each file group.

    Args:
        base_files: as listed.
        timeline: says which instants completed.
        replaced: for each replaced file group, the instant of the replacement.
        as_of: only instants up to this one count; all of them if None.
    """
    latest: dict[FileGroupId, FileSlice] = {}
    for candidate in base_files:
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


def write_partition_metadata(storage: Storage, partition_path: str, instant: str) -> None:
    """Mark a folder as a partition, without which Hudi's Spark reader passes it over."""
    path = f"{partition_path}/{PARTITION_METADATA}" if partition_path else PARTITION_METADATA
    if not storage.exists(path):
        depth = len(partition_path.split("/")) if partition_path else 0
        storage.create(path, f"#partition metadata\ncommitTime={instant}\npartitionDepth={depth}\n".encode())


def _slices_of(files: Iterable[StoredFile]) -> Iterator[FileSlice]:
    for file in files:
        if file.name.endswith(_OTHER_FORMATS) or ".log." in file.name:
            raise UnsupportedTableError(
                f"the table holds a file that is no Parquet base file: file={file.path}; "
                "rli reads copy-on-write tables with Parquet base files"
            )
        if file.name.startswith(".") or not file.name.endswith(EXTENSION):
            continue
        name = BaseFileName.parse(file.name)
        folder = file.path.rpartition("/")[0]
        yield FileSlice(FileGroupId(folder, name.file_id), name.instant, file.path, file.size)
