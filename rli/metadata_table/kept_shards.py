"""Cells of file slices, kept in shards until the partitions that they are of are in the metadata table.

A shard is a file of cells and a note of its slices, written behind it. So a build that died, or found the table changed, reads
only slices that no note names. Cells of slices that are no longer wanted are passed over. Several processes that build the same
partition share the shards. A note has the digest of its cells: Arrow trusts what it decodes, so a shard that is not as it was
written is read again.
"""

from __future__ import annotations

import hashlib
import io
import json
import posixpath
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from functools import cached_property, partial
from typing import Any, Final, Literal, NamedTuple
from uuid import uuid4

import pyarrow as pa
from pyarrow import ipc
from pydantic import BaseModel, ValidationError

from rli.errors import ConflictError, CorruptTableError
from rli.hudi.hfile.cells import CELLS
from rli.hudi.metadata.index_definitions import PATH_KEY
from rli.hudi.properties import Key
from rli.metadata_table.cell_sources import CellSource, Part, source_of
from rli.storage import Storage
from rli.tasks import InThreads, TaskRunner
from rli.view import paths
from rli.view.file_slices import FileSlice
from rli.view.shards import name_of_shard, name_of_slice, shards

_FORMAT: Final = 1
"""Of the cells of all sources: another one wherever a source would read other cells of the same file."""

_ABANDONED_AFTER: Final = 7 * 24 * 3600.0
"""Seconds."""

_NOTE: Final = ".json"
_PARTITION: Final = b"partition"
_COMPRESSED: Final = ipc.IpcWriteOptions(compression="lz4")
_CHANGED_BY_BUILDS: Final = frozenset(
    {
        Key.METADATA_PARTITIONS,
        Key.METADATA_PARTITIONS_INFLIGHT,
        Key.OWN_METADATA_PARTITIONS,
        Key.OWN_METADATA_PARTITIONS_INFLIGHT,
        PATH_KEY,
    }
)


class _OfSlice(NamedTuple):
    """What a note says of a slice: how many records it has, and in how many batches its cells are."""

    rows: int
    batches: int


class _Note(BaseModel):
    """Says that a shard is finished.

    Attributes:
        version: of the format.
        file: that the cells are in, in the folder of the note.
        digest: of that file: SHA-256, hexadecimal.
        slices: by their names, in the order of their cells.
    """

    version: Literal[1] = 1
    file: str
    digest: str
    slices: dict[str, _OfSlice]


class ShardsRemovedError(ConflictError):
    """Another process has removed shards of a build that goes on: what they held has to be read again."""


class KeptShards:
    """The shards of one source, in one state of the table.

    Args:
        source: reads the cells.
        slices: that are wanted, in an order that all builds have.
    """

    def __init__(self, source: CellSource, slices: Sequence[FileSlice]) -> None:
        self._source = source
        self._slices = slices
        self._names = [name_of_slice(one) for one in slices]
        self._folder = _folder_of(source)

    def __len__(self) -> int:
        return len(self._slices)

    @property
    def name(self) -> str:
        """That of the source."""
        return self._source.name

    def fill(self, tasks: TaskRunner | None, on_slices: Callable[[int], None]) -> None:
        """Read the slices that no shard has yet.

        Args:
            tasks: of an engine, each of which reads a shard; None to read in this process.
            on_slices: called with a number of slices whenever so many more are there.

        Raises:
            ShardsRemovedError: another process has removed the shards meanwhile.
            RliError: as ``CellSource.read``.
        """
        known = _by_slice(self._whole_notes())
        missing = [one for one, name in zip(self._slices, self._names, strict=True) if name not in known]
        on_slices(len(self._slices) - len(missing))
        task = partial(_keep, self._source, self._folder)
        for count in (tasks or InThreads()).run(task, [*shards(missing, self._source.size_of)]):
            on_slices(count)
        vars(self).pop("_notes", None)

    def rows(self) -> Iterator[tuple[FileSlice, int]]:
        """Each slice with the number of its records; raises as ``parts``."""
        for one, name in zip(self._slices, self._names, strict=True):
            yield one, self._note_of(name).slices[name].rows

    def parts(self) -> Iterator[Part]:
        """The cells of all slices, in their order, once they are filled. Memory holds a batch of each shard that is being read.

        Raises:
            ShardsRemovedError: another process has removed a shard.
            CorruptTableError: a shard is damaged; names its file.
        """
        left = Counter(self._note_of(name).file for name in self._names)
        opened: dict[str, tuple[ExitStack, Generator[tuple[str, str, pa.RecordBatch], None, None]]] = {}
        with ExitStack() as whole:
            for one, name in zip(self._slices, self._names, strict=True):
                note = self._note_of(name)
                if note.file not in opened:
                    cells = self._cells(note)
                    # An own one: it is closed behind its last slice.
                    own = whole.enter_context(ExitStack())
                    own.enter_context(closing(cells))
                    opened[note.file] = own, cells
                own, cells = opened[note.file]
                rows, batches = note.slices[name]
                for number in range(batches):
                    partition, found = _next_of(name, cells, note)
                    yield Part(one, partition, found, 0 if number else rows)
                left[note.file] -= 1
                if not left[note.file]:
                    own.close()

    @property
    def _storage(self) -> Storage:
        return self._source.snapshot.table.storage

    @cached_property
    def _notes(self) -> dict[str, _Note]:
        return _by_slice(self._read_notes().values())

    def _whole_notes(self) -> Iterator[_Note]:
        """The notes of shards that are as they were written; removes others, also those whose cells are gone."""
        notes = self._read_notes()
        for (path, note), is_whole in zip(
            notes.items(), InThreads().run(self._is_whole, [*notes.values()]), strict=True
        ):
            if note is not None and is_whole:
                yield note
            else:
                self._storage.delete_files([path])

    def _read_notes(self) -> dict[str, _Note | None]:
        """The path of each note → what it says; None if it is damaged."""
        listed = [file.path for file in self._storage.list_files(self._folder) if file.name.endswith(_NOTE)]
        contents = InThreads().run(self._storage.read_bytes, listed)
        return {path: _parsed(content) for path, content in zip(listed, contents, strict=True) if content is not None}

    def _is_whole(self, note: _Note | None) -> bool:
        if note is None:
            return False
        try:
            with self._storage.filesystem.open_input_stream(self._storage.full_path(self._path_of(note))) as cells:
                return hashlib.file_digest(cells, "sha256").hexdigest() == note.digest
        except FileNotFoundError:
            return False

    def _path_of(self, note: _Note) -> str:
        return posixpath.join(self._folder, note.file)

    def _note_of(self, name: str) -> _Note:
        note = self._notes.get(name)
        if note is None:
            raise _removed(self._source)
        return note

    def _cells(self, note: _Note) -> Generator[tuple[str, str, pa.RecordBatch], None, None]:
        """The batches of a shard: name of the slice, partition, cells."""
        path = self._path_of(note)
        try:
            with (
                self._storage.filesystem.open_input_stream(self._storage.full_path(path)) as source,
                ipc.open_stream(source) as stream,
            ):
                for name, (_, batches) in note.slices.items():
                    for _ in range(batches):
                        cells, metadata = stream.read_next_batch_with_custom_metadata()
                        yield name, metadata[_PARTITION].decode(), cells
        except FileNotFoundError as error:
            raise _removed(self._source) from error
        except (pa.ArrowInvalid, OSError, KeyError, StopIteration) as error:
            raise _damaged(path) from error


def remove_kept(storage: Storage, partitions: Sequence[str]) -> None:
    """Remove what was read for builds of some partitions of the metadata table."""
    for name in sorted({source_of(partition) for partition in partitions}):
        storage.delete_folder(paths.build_folder(name))


def remove_abandoned(storage: Storage) -> None:
    """Remove what was read for builds that nobody has gone on with for a week."""
    for source in storage.list_folders(paths.BUILDS):
        for folder in storage.list_folders(source):
            times = [time.timestamp() for time in storage.modification_times(folder).values()]
            if times and storage.has_passed(paths.PROBES, max(times) + _ABANDONED_AFTER):
                storage.delete_folder(folder)


def _folder_of(source: CellSource) -> str:
    """Where the shards of a source are: another folder wherever its cells could be others."""
    snapshot = source.snapshot
    properties = {key: value for key, value in snapshot.table.properties.raw.items() if key not in _CHANGED_BY_BUILDS}
    schema = "" if snapshot.schema is None else snapshot.schema.to_string()
    text = json.dumps([_FORMAT, source.description, schema, sorted(properties.items())])
    return posixpath.join(paths.build_folder(source.name), hashlib.sha256(text.encode()).hexdigest())


def _keep(source: CellSource, folder: str, shard: Sequence[FileSlice]) -> int:
    """Read a shard and keep it; returns how many slices it has: a task."""
    storage, file = source.snapshot.table.storage, f"{uuid4().hex}.arrow"
    path = posixpath.join(folder, file)
    names = {one: name_of_slice(one) for one in shard}
    found = dict.fromkeys(names.values(), _OfSlice(0, 0))
    storage.make_folder(folder)
    try:
        opened = storage.filesystem.open_output_stream(storage.full_path(path))
    except FileNotFoundError as error:
        raise _removed(source) from error
    with opened, _Digested(opened) as sink, ipc.new_stream(sink, CELLS, options=_COMPRESSED) as stream:
        for part in source.read(shard):
            stream.write_batch(part.cells, custom_metadata={_PARTITION: part.partition.encode()})
            rows, batches = found[names[part.of]]
            found[names[part.of]] = _OfSlice(rows + part.rows, batches + 1)
    storage.flush([path], [folder])
    note = _Note(file=file, digest=sink.hexdigest(), slices=found).model_dump_json().encode()
    if not storage.create(posixpath.join(folder, f"{name_of_shard(shard)}{_NOTE}"), note):
        # Another process was first.
        storage.delete_files([path])
    storage.flush(folders=[folder])
    return len(shard)


def _next_of(name: str, cells: Iterator[tuple[str, str, pa.RecordBatch]], note: _Note) -> tuple[str, pa.RecordBatch]:
    """The next batch of a slice; those of slices that nobody wants are passed over."""
    for owner, partition, found in cells:
        if owner == name:
            return partition, found
    raise _damaged(note.file)


def _by_slice(notes: Iterable[_Note | None]) -> dict[str, _Note]:
    """The name of each slice that is there → the note of a shard that has it."""
    return {name: note for note in notes if note is not None for name in note.slices}


def _parsed(content: bytes) -> _Note | None:
    try:
        return _Note.model_validate_json(content)
    except ValidationError:
        return None


class _Digested(io.RawIOBase):
    """Passes all bytes on to a sink, and digests them."""

    def __init__(self, sink: pa.NativeFile) -> None:
        self._sink = sink
        self._digest = hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        self._digest.update(content)
        return int(self._sink.write(content))

    def hexdigest(self) -> str:
        return self._digest.hexdigest()


def _removed(source: CellSource) -> ShardsRemovedError:
    return ShardsRemovedError(
        "another process has removed what was read for the build of a partition of the metadata table: "
        f"table={source.snapshot.table.location} partition={source.name}",
        remedy="build it again, unless it was dropped",
    )


def _damaged(path: str) -> CorruptTableError:
    return CorruptTableError(
        f"what was read for a build of the metadata table is damaged: file={path}",
        remedy="build again: what is damaged is read again",
    )
