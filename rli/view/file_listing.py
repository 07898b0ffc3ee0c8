"""Where the file-system view learns which data files a table has: from its folders, or from its metadata table."""

from __future__ import annotations

import math
import posixpath
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from rli.errors import CorruptTableError
from rli.hudi.file_names import BaseFileName, LogFileName, base_file_names, data_file_name, token_begin
from rli.hudi.metadata.partitions import PartitionKind
from rli.hudi.metadata.reader import MetadataTableReader
from rli.hudi.metadata.views import all_files, files_of
from rli.model import FileGroupId
from rli.storage import Storage, StoredFile
from rli.view.file_slices import DataFile, FileSlice
from rli.view.table_metadata import TableMetadata


class FileListing(Protocol):
    """A source of file slices: the table's folders, or another record of its files such as Hudi's metadata table."""

    def all_slices(self) -> list[FileSlice]:
        """The slices of all partitions, visible or not.

        Raises:
            UnsupportedTableError: a partition holds files that rli does not read.
        """

    def slices_of(self, partition_path: str) -> list[FileSlice]:
        """The slices of one partition, visible or not; none of a partition that does not exist."""

    def requests_of_all(self) -> float:
        """At least so many partitions are listed one by one in the time in which all are listed at once."""


@dataclass(frozen=True, slots=True)
class FolderListing:
    """The file slices that the folders of a table hold.

    Attributes:
        storage: of the table.
    """

    storage: Storage

    def all_slices(self) -> list[FileSlice]:
        """The slices of all partitions; raises ``UnsupportedTableError`` for other formats."""
        slices: list[FileSlice] = []
        for folder in _folders(self.storage):
            slices.extend(_slices_of(_files_of(self.storage, folder)))
        return slices

    def slices_of(self, partition_path: str) -> list[FileSlice]:
        """The slices of one partition; raises as ``all_slices``."""
        return list(_slices_of(self.storage.list_files(partition_path)))

    def requests_of_all(self) -> float:
        """One for each folder of the table; without limit on a local file system, which has requests for folders alone."""
        return math.inf if self.storage.is_local else len(self.storage.list_folders())


@dataclass(frozen=True, slots=True)
class MetadataListing:
    """The file slices that the metadata table lists; those of the folders where it does not tell.

    Attributes:
        metadata: of the state that is read.
        folders: of the table.
        last_written: the paths of the files that the last commit has written: a list without them is out of date.
    """

    metadata: TableMetadata
    folders: FolderListing
    last_written: Callable[[], Sequence[str]] = field(repr=False)

    def all_slices(self) -> list[FileSlice]:
        """The slices of all partitions; raises as those of the folders."""
        # Not while the metadata table is asked: it is not to blame for a commit that was undone meanwhile.
        written = self.last_written()
        listed = self.metadata.ask(PartitionKind.FILES, partial(_all_files, written=written))
        return self.folders.all_slices() if listed is None else _listed_slices(listed)

    def slices_of(self, partition_path: str) -> list[FileSlice]:
        """The slices of one partition; raises as those of the folders."""
        listed = self.metadata.ask(PartitionKind.FILES, lambda reader: files_of(reader, [partition_path]))
        return self.folders.slices_of(partition_path) if listed is None else _listed_slices(listed)

    def requests_of_all(self) -> float:
        """As many as one partition takes: the list of each is in the same files."""
        return 1 if PartitionKind.FILES in self.metadata.partitions else self.folders.requests_of_all()


def _all_files(reader: MetadataTableReader, written: Sequence[str]) -> pa.RecordBatch:
    listed = all_files(reader)
    last = pa.array(written, pa.string())
    missing = last.filter(pc.invert(pc.is_in(last, value_set=_paths(listed))))
    # Others may have replaced and cleaned a file since the timeline was loaded.
    if len(missing) and not reader.is_ahead:
        raise CorruptTableError(
            f"the metadata table does not list a file of the last commit: file={missing[0]}",
            remedy="run: rli metadata verify TABLE, which says how to build it again",
        )
    return listed


def _paths(listed: pa.RecordBatch) -> pa.StringArray:
    """The paths of listed files."""
    folders, names = listed["partition_path"], listed["name"]
    return pc.if_else(pc.equal(folders, ""), names, pc.binary_join_element_wise(folders, names, "/"))


def _listed_slices(listed: pa.RecordBatch) -> list[FileSlice]:
    """As ``_slices_of``, the slices of listed files: names of base files, of which there are many, are parsed by columns."""
    names, paths = base_file_names(listed["name"]), _paths(listed)
    others = paths.filter(names.is_null()).to_pylist(), listed["size"].filter(names.is_null()).to_pylist()
    parts = names.field("file_id"), names.field("instant"), listed["partition_path"], paths, listed["size"]
    found = (part.filter(names.is_valid()).to_pylist() for part in parts)
    bases = [
        FileSlice(FileGroupId(folder, file_id), instant, DataFile(path, size))
        for file_id, instant, folder, path, size in zip(*found, strict=True)
    ]
    return [*bases, *_slices_of(map(StoredFile, *others))]


def files_written_at(storage: Storage, instant: str) -> list[str]:
    """Paths of the data files that an instant wrote by their names, whether or not any timeline shows them.

    In table version 6, log files have the instant of their slice: those of a slice that the instant began are among them, and those
    whose write token tells the instant, as in rli.
    """
    files = _data_files(file for folder in _folders(storage) for file in _files_of(storage, folder))
    token = token_begin(instant)
    return [file.path for file, name in files if name.instant == instant or name.write_token.startswith(token)]


def _folders(storage: Storage) -> list[str]:
    """The table's own folder and those below it, but for that of the timeline."""
    return ["", *(name for name in storage.list_folders() if name != ".hoodie")]


def _files_of(storage: Storage, folder: str) -> Iterable[StoredFile]:
    return storage.list_files(folder, recursive=bool(folder))


def _data_files(files: Iterable[StoredFile]) -> Iterator[tuple[StoredFile, BaseFileName | LogFileName]]:
    for file in files:
        name = data_file_name(file.path)
        if name is not None:
            yield file, name


def _slices_of(files: Iterable[StoredFile]) -> Iterator[FileSlice]:
    """A slice for each base file, and one for each log file: ``latest_slices`` puts them together."""
    for file, name in _data_files(files):
        group, found = FileGroupId(posixpath.dirname(file.path), name.file_id), DataFile(file.path, file.size)
        if isinstance(name, BaseFileName):
            yield FileSlice(group, name.instant, found)
        elif not name.is_cdc:
            yield FileSlice(group, name.instant, None, (found,))
