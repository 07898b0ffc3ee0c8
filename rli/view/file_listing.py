"""Where the file-system view learns which data files a table has: from its folders."""

from __future__ import annotations

import math
import posixpath
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from rli.errors import UnsupportedTableError
from rli.hudi.file_names import LogFileName, data_file_name
from rli.model import FileGroupId
from rli.storage import Storage, StoredFile
from rli.view.file_slices import DataFile, FileSlice


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
        """The slices of all partitions; raises ``UnsupportedTableError`` for other formats and log files."""
        slices: list[FileSlice] = []
        for folder in ("", *(name for name in self.storage.list_folders() if name != ".hoodie")):
            slices.extend(_slices_of(self.storage.list_files(folder, recursive=bool(folder))))
        return slices

    def slices_of(self, partition_path: str) -> list[FileSlice]:
        """The slices of one partition; raises as ``all_slices``."""
        return list(_slices_of(self.storage.list_files(partition_path)))

    def requests_of_all(self) -> float:
        """One for each folder of the table; without limit on a local file system, which has requests for folders alone."""
        return math.inf if self.storage.is_local else len(self.storage.list_folders())


def files_written_at(storage: Storage, instant: str) -> list[str]:
    """Paths of the data files that an instant wrote by their names, whether or not any timeline shows them."""
    slices = FolderListing(storage).all_slices()
    return [file.path for file_slice in slices if file_slice.instant == instant for file in file_slice.files]


def _slices_of(files: Iterable[StoredFile]) -> Iterator[FileSlice]:
    for file in files:
        name = data_file_name(file.path)
        if isinstance(name, LogFileName):
            raise UnsupportedTableError(
                f"the table holds a log file, as merge-on-read tables do: file={file.path}",
                remedy="rli reads copy-on-write tables: copy its rows into one",
            )
        if name is not None:
            folder = posixpath.dirname(file.path)
            yield FileSlice(FileGroupId(folder, name.file_id), name.instant, DataFile(file.path, file.size))
