"""The file slices of a table, listed no further than they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Collection, ItemsView, Iterator, Mapping, Sequence, ValuesView
from functools import cached_property
from typing import Final

from rli.model import FileGroupId
from rli.storage import Storage
from rli.view.file_listing import FileListing
from rli.view.file_slices import FileSlice

_FEW_PARTITIONS: Final = 100
"""They are listed one by one without asking how many there are."""


class FileSystemView(Mapping[FileGroupId, FileSlice]):
    """The live slice of each file group. All that ask for data files of a table ask its view: ``Snapshot.slices``.

    A write that touches few of many partitions lists these alone.

    Args:
        listing: of the table.
        storage: of the table.
        live: tells the live ones of some slices.
        folders: the listing that shows each file that is stored; None where ``listing`` does.
    """

    def __init__(
        self,
        listing: FileListing,
        storage: Storage,
        live: Callable[[Sequence[FileSlice]], Mapping[FileGroupId, FileSlice]],
        folders: FileListing | None = None,
    ) -> None:
        self._listing = listing
        self._folders = folders or listing
        self._storage = storage
        self._live = live
        self._found: dict[FileGroupId, FileSlice] = {}
        self._listed: set[str] = set()
        self._is_whole = False

    def of_partitions(self, partition_paths: Collection[str]) -> list[FileSlice]:
        """The live slices in some partitions."""
        self._list(partition_paths)
        return [found for group, found in self._found.items() if group.partition_path in partition_paths]

    def of_groups(self, groups: Collection[FileGroupId]) -> dict[FileGroupId, FileSlice]:
        """The live slices of those of some file groups that have one."""
        self._list({group.partition_path for group in groups})
        return {group: self._found[group] for group in groups if group in self._found}

    def take(self, partition_path: str, slices: Mapping[FileGroupId, FileSlice]) -> None:
        """Take the live slices of a partition from a caller that knows them, instead of listing it."""
        if self._is_whole or partition_path in self._listed:
            return
        self._found.update(slices)
        self._listed.add(partition_path)

    def all_versions(self, partition_paths: Collection[str] | None = None) -> list[FileSlice]:
        """The slices that are stored at this moment: live, superseded, replaced, and those that no commit shows.

        Args:
            partition_paths: of the partitions to list; by default all.
        """
        if partition_paths is None:
            return self._folders.all_slices()
        return [found for path in sorted(partition_paths) for found in self._folders.slices_of(path)]

    def list_all(self) -> None:
        """List what is not listed yet: of files that are deleted from now on, each is missed when it is read."""
        if not self._is_whole:
            self._found = {**self._live(self._listing.all_slices()), **self._found}
            self._is_whole = True

    @property
    def listed(self) -> frozenset[str] | None:
        """The partitions that were listed so far; None for all of them."""
        return None if self._is_whole else frozenset(self._listed)

    def first_deleted(self) -> FileSlice | None:
        """A slice that was listed and that lacks a file by now; None if all are whole."""
        return next((found for found in self._found.values() if not self.has_files(found)), None)

    def has_files(self, file_slice: FileSlice) -> bool:
        """Whether all files of a slice are still there."""
        return all(self._storage.exists(file.path) for file in file_slice.files)

    def __getitem__(self, group: FileGroupId) -> FileSlice:
        self._list([group.partition_path])
        return self._found[group]

    def __iter__(self) -> Iterator[FileGroupId]:
        self.list_all()
        return iter(self._found)

    def __len__(self) -> int:
        self.list_all()
        return len(self._found)

    # Those of Mapping would ask for each slice by its file group.

    def values(self) -> ValuesView[FileSlice]:
        self.list_all()
        return self._found.values()

    def items(self) -> ItemsView[FileGroupId, FileSlice]:
        self.list_all()
        return self._found.items()

    def _list(self, partition_paths: Collection[str]) -> None:
        if self._is_whole:
            return
        missing = [path for path in partition_paths if path not in self._listed]
        wanted = len(self._listed) + len(missing)
        if wanted > _FEW_PARTITIONS and wanted > self._requests_of_all:
            self.list_all()
            return
        self._found.update(self._live([found for path in missing for found in self._listing.slices_of(path)]))
        self._listed.update(missing)

    @cached_property
    def _requests_of_all(self) -> float:
        return self._listing.requests_of_all()
