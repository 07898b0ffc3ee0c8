"""The record keys of file slices, which a new record index names: read here, or by tasks that leave them in files."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Final, NamedTuple, Protocol
from uuid import uuid4

import pyarrow as pa
from pyarrow import ipc

from rli.model import FileGroupId
from rli.tasks import TaskRunner
from rli.view.file_slices import FileSlice
from rli.view.snapshot import Snapshot

_SCHEMA: Final = pa.schema([pa.field("record_key", pa.string(), nullable=False)])
_COMPRESSED: Final = ipc.IpcWriteOptions(compression="lz4")


class SliceKeys(Protocol):
    """Tells the record keys of the live file slices of one state of a table."""

    def rows(self, file_slice: FileSlice) -> int:
        """How many records a file slice has.

        Raises:
            CorruptTableError: a file is missing or damaged.
        """
        ...

    def batches(self, file_slice: FileSlice) -> Iterator[pa.Array]:
        """The record keys of a file slice, string arrays; raises as ``rows``."""
        ...


@dataclass(frozen=True, slots=True)
class KeysReadHere:
    """Reads the file slices in this process.

    Attributes:
        snapshot: state of the table.
    """

    snapshot: Snapshot

    def rows(self, file_slice: FileSlice) -> int:
        with self.snapshot.reader(file_slice) as reader:
            return reader.rows

    def batches(self, file_slice: FileSlice) -> Iterator[pa.Array]:
        return self.snapshot.record_keys(file_slice)


class _KeyFile(NamedTuple):
    group: FileGroupId
    path: str
    rows: int


@dataclass(frozen=True)
class KeysReadByTasks:
    """Lets tasks read all file slices at the first question; this process then reads one column of keys from their files.

    Attributes:
        snapshot: state of the table. Picklable.
        tasks: run the work on each file slice.
        folder: for the files, relative to the table. The caller removes it.
    """

    snapshot: Snapshot
    tasks: TaskRunner
    folder: str

    def rows(self, file_slice: FileSlice) -> int:
        return self._files[file_slice.group].rows

    def batches(self, file_slice: FileSlice) -> Iterator[pa.Array]:
        storage = self.snapshot.table.storage
        path = storage.full_path(self._files[file_slice.group].path)
        with storage.filesystem.open_input_stream(path) as source, ipc.open_stream(source) as keys:
            for batch in keys:
                yield batch["record_key"]

    @cached_property
    def _files(self) -> Mapping[FileGroupId, _KeyFile]:
        slices = [*self.snapshot.slices.values()]
        return {file.group: file for file in self.tasks.run(partial(keep_keys, self.snapshot, self.folder), slices)}


def keep_keys(snapshot: Snapshot, folder: str, file_slice: FileSlice) -> _KeyFile:
    """Write the record keys of a file slice to a file of this attempt's own: a task."""
    storage, path, rows = snapshot.table.storage, posixpath.join(folder, uuid4().hex), 0
    storage.make_folder(folder)
    with (
        storage.filesystem.open_output_stream(storage.full_path(path)) as sink,
        ipc.new_stream(sink, _SCHEMA, options=_COMPRESSED) as stream,
    ):
        for keys in snapshot.record_keys(file_slice):
            stream.write_batch(pa.record_batch([keys], schema=_SCHEMA))
            rows += len(keys)
    return _KeyFile(file_slice.group, path, rows)
