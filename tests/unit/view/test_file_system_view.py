"""Live slices: the same however they are asked for, and partitions that nobody asks for are not listed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from fsspec.implementations.local import LocalFileSystem
from pyarrow import fs

import rli
from rli.model import FileGroupId
from rli.storage import Storage
from rli.storage.contract import OpenedStorage
from rli.storage.read_only import NoChanges
from rli.table.table import opened_table
from rli.view.file_listing import FolderListing
from rli.view.file_slices import FileSlice, latest_slices
from rli.view.file_system_view import FileSystemView

PARTITIONS = tuple(f"p{number:03}" for number in range(120))
FEW = frozenset(PARTITIONS[7:10])


class ObservedFiles(LocalFileSystem):  # type: ignore[misc]  # fsspec is not typed
    """The local file system, with the folders that were listed."""

    cachable = False

    def __init__(self) -> None:
        super().__init__()
        self.listed: list[str] = []

    def find(self, path: str, *arguments: Any, **named: Any) -> Any:
        self.listed.append(Path(path).name)
        return super().find(path, *arguments, **named)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> rli.Table:
    """Of so many partitions, with a record in each, of which each was written twice."""
    table = rli.create_table(
        tmp_path_factory.mktemp("live") / "table", record_key="id", partition_by="part", index="memory:live-slices"
    )
    for number in range(2):
        table.upsert(pa.table({"id": PARTITIONS, "part": PARTITIONS, "number": [number] * len(PARTITIONS)}))
    return table


@pytest.fixture
def files() -> ObservedFiles:
    return ObservedFiles()


@pytest.fixture
def slices(table: rli.Table, files: ObservedFiles) -> FileSystemView:
    timeline = opened_table(table).snapshot().timeline
    root = opened_table(table).snapshot().table.storage.root
    opened = OpenedStorage(fs.PyFileSystem(fs.FSSpecHandler(files)), root, NoChanges(root))
    storage = Storage(root, _opened=opened)
    return FileSystemView(FolderListing(storage), storage, lambda listed: latest_slices(listed, timeline, {}))


@pytest.fixture(scope="module")
def groups(table: rli.Table) -> dict[FileGroupId, FileSlice]:
    """All slices, as listed at once."""
    return dict(opened_table(table).snapshot().slices)


def test_file_groups_one_by_one(
    slices: FileSystemView, files: ObservedFiles, groups: dict[FileGroupId, FileSlice]
) -> None:
    few = {group: slices[group] for group in groups if group.partition_path in FEW}
    assert few == {group: found for group, found in groups.items() if group.partition_path in FEW}
    assert FileGroupId(min(FEW), "unknown") not in slices
    assert sorted(files.listed) == sorted(FEW)


def test_some_file_groups(slices: FileSystemView, files: ObservedFiles, groups: dict[FileGroupId, FileSlice]) -> None:
    few = [group for group in groups if group.partition_path in FEW]
    unknown = FileGroupId(min(FEW), "unknown")
    assert slices.of_groups([*few, unknown]) == {group: groups[group] for group in few}
    assert sorted(files.listed) == sorted(FEW)


def test_many_file_groups_are_listed_together(
    slices: FileSystemView, files: ObservedFiles, groups: dict[FileGroupId, FileSlice]
) -> None:
    assert slices.of_groups(groups) == groups
    assert sorted(name for name in files.listed if name in PARTITIONS) == list(PARTITIONS)


def test_some_partitions_are_listed_separately(slices: FileSystemView, files: ObservedFiles) -> None:
    asked = PARTITIONS[:-5]
    assert len(slices.of_partitions(asked)) == len(asked)
    assert [name for name in files.listed if name in PARTITIONS] == list(asked)


def test_some_partitions(slices: FileSystemView, files: ObservedFiles, groups: dict[FileGroupId, FileSlice]) -> None:
    few = set(slices.of_partitions([*FEW, "unknown"]))
    assert few == {found for group, found in groups.items() if group.partition_path in FEW}
    assert set(slices.of_partitions(FEW)) == few
    assert set(files.listed) <= FEW


def test_nearly_all_partitions_are_listed_together(
    slices: FileSystemView, groups: dict[FileGroupId, FileSlice]
) -> None:
    assert {group: slices[group] for group in groups} == groups
    assert len(slices.of_partitions(PARTITIONS)) == len(PARTITIONS) == len(slices)


def test_all_after_some(slices: FileSystemView, groups: dict[FileGroupId, FileSlice]) -> None:
    slices.of_partitions(FEW)
    assert slices == groups
