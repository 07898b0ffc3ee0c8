"""Files of a request: keyed rows in Arrow's IPC format, each written by one attempt of one task, and never changed.

The rows of a file are arranged by the hash of their key, batch by batch, for each of the large tables that they came in.
So a task that takes a range of hashes reads a few batches of each file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, islice
from typing import Final
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark import TaskContext
from pyspark.sql import Row

from rli.errors import CorruptTableError, RliError, VoidAttemptError
from rli.write.engine import Storage, Tally, hash_keys, work_rows
from rli_spark.row_batches import DATA, packed, unpack

HASHES: Final = 1 << 32
"""How many hashes there are."""

_SEED: Final = 0x7461736B
_HASH: Final = "_rli_hash"
_BYTES_PER_BATCH: Final = 128 * 1024
_READERS: Final = 8
"""Files that a task reads at a time: a file on an object store takes tens of milliseconds to answer."""

PARTS: Final = pa.schema(
    [
        ("task", pa.int32()),
        ("path", pa.string()),
        ("keys", pa.int64()),
        ("hashes", pa.int64()),
        ("size", pa.int64()),
        ("first", pa.binary()),
        ("last", pa.binary()),
        ("partition_paths", pa.list_(pa.string())),
        (DATA, pa.binary()),
    ]
)
"""What a task says of its file, in one row: see ``RequestFile``. Few rows come themselves, and have no file."""


@dataclass(frozen=True, slots=True)
class RequestFile:
    """A file of an accepted attempt. Picklable.

    Attributes:
        path: in the table's folder.
        tally: of its keys.
        size: bytes of its rows in memory.
        first, last: the least and the greatest hash in each batch, shape (batches,).
        partition_paths: where its records belong by their own values; None where keys come alone.
    """

    path: str
    tally: Tally
    size: int
    first: NDArray[np.uint32]
    last: NDArray[np.uint32]
    partition_paths: tuple[str, ...] | None = None

    def rows(self, storage: Storage, start: int, stop: int, columns: Sequence[str] | None = None) -> list[pa.Table]:
        """The rows whose keys have a hash from ``start`` up to but not including ``stop``.

        Args:
            storage: of the table.
            start: the first hash.
            stop: the first hash behind the range.
            columns: names; by default all. Others are not read.
        """
        wanted = np.flatnonzero((self.last >= start) & (self.first < stop))
        if not len(wanted):
            return []
        try:
            with storage.filesystem.open_input_file(storage.full_path(self.path)) as source:
                reader = pa.ipc.open_file(source)
                if columns is not None:
                    fields = [reader.schema.get_field_index(name) for name in (*columns, _HASH)]
                    reader = pa.ipc.open_file(source, options=pa.ipc.IpcReadOptions(included_fields=fields))
                batches = [reader.get_batch(int(number)) for number in wanted]
            for batch in batches:
                # Who writes the table's folder may have changed the file. Arrow would read wherever its offsets lead.
                batch.validate(full=True)
            return [_within(pa.table(batch), start, stop) for batch in batches]
        except (pa.ArrowException, OSError, UnicodeDecodeError, KeyError) as error:
            # Errors of the storage have a number, or are rli's own; those of Arrow's readers have none.
            if isinstance(error, RliError) or getattr(error, "errno", None) is not None:
                raise
            raise CorruptTableError(
                f"a file of a write's request is damaged: file={self.path} ({error}); write the records again"
            ) from error


def read_rows(
    storage: Storage, files: Sequence[RequestFile], start: int, stop: int, columns: Sequence[str] | None = None
) -> Iterator[pa.Table]:
    """The rows of all files whose keys have a hash in a range, always in the same order; see ``RequestFile.rows``."""
    with ThreadPoolExecutor(_READERS) as threads:
        for tables in threads.map(lambda file: file.rows(storage, start, stop, columns), files):
            yield from tables


def key_range(number: int, ranges: int) -> tuple[int, int]:
    """The first hash of one of some ranges of about the same size, and the first one behind it."""
    return HASHES * number // ranges, HASHES * (number + 1) // ranges


@dataclass(frozen=True, slots=True)
class Parts:
    """What the tasks of a job wrote or brought, in the order of the tasks.

    Attributes:
        files: of tasks with many rows.
        brought: the rows of tasks with few.
    """

    files: tuple[RequestFile, ...]
    brought: tuple[pa.Table, ...]

    @classmethod
    def accepted(cls, rows: Iterable[Row], folder: str) -> Parts:
        """The parts that a job's rows of ``PARTS`` tell of.

        Of each task Spark takes the row of one attempt. The files of other attempts are named by nobody.

        Raises:
            VoidAttemptError: a task gave more than one result.
        """
        ordered = sorted(rows, key=lambda row: row.task)
        if len({row.task for row in ordered}) < len(ordered):
            raise VoidAttemptError(f"tasks of a request gave more than one result: folder={folder}; write again")
        return cls(
            tuple(_file_of(row) for row in ordered if row.path is not None),
            tuple(unpack(bytes(row.data)) for row in ordered if row.path is None),
        )


def table_of_files(files: Sequence[RequestFile]) -> pa.Table:
    """Files as a table of ``PARTS``, which ``files_of_table`` reads."""
    return pa.concat_tables([PARTS.empty_table(), *(_part_of(task, file) for task, file in enumerate(files))])


def files_of_table(table: pa.Table) -> tuple[RequestFile, ...]:
    """The files that ``table_of_files`` has put down."""
    return tuple(_file_of(Row(**row)) for row in table.to_pylist())


def hashes_of(record_keys: pa.Array) -> NDArray[np.uint32]:
    """The hash of each key (string array, shape (n,)), by which files of requests are arranged."""
    return hash_keys(record_keys, _SEED)


def _file_of(row: Row) -> RequestFile:
    first, last = (np.frombuffer(bounds, np.uint32) for bounds in (row.first, row.last))
    partition_paths = None if row.partition_paths is None else tuple(row.partition_paths)
    return RequestFile(row.path, Tally(row["keys"], row.hashes), row.size, first, last, partition_paths)


def write_part(storage: Storage, folder: str, tables: Iterable[pa.Table], brings: int = 0) -> Iterator[pa.Table]:
    """Write the keyed rows of a task to a file of its own, unless they are few.

    Args:
        storage: of the table.
        folder: of the request.
        tables: the rows.
        brings: how many bytes all tasks of the job may bring to the driver. Of a harmonic series each task takes its
            part, so that it need not know how many tasks there are.

    Yields:
        One row of ``PARTS``; none if there are no rows.
    """
    task = TaskContext.get()
    if task is None:
        raise RuntimeError("requests are written by Spark tasks only")
    number, stream = task.partitionId(), iter(tables)
    first = list(islice(stream, 1))
    if first and first[0].nbytes <= brings // (number + 1):
        first += islice(stream, 1)
        if len(first) == 1:
            yield _part_with(number, first[0])
            return
    file = write_file(storage, f"{folder}/{number}-{uuid4().hex}.arrow", chain(first, stream))
    if file is not None:
        yield _part_of(number, file)


def write_file(storage: Storage, path: str, tables: Iterable[pa.Table]) -> RequestFile | None:
    """Write keyed rows to a file; returns None, and writes no file, if there are no rows."""
    tally, size, bounds = Tally(), 0, _Bounds([], [])
    partition_paths: set[str] | None = None
    sink: pa.NativeFile | None = None
    writer: pa.ipc.RecordBatchFileWriter | None = None
    try:
        for table in tables:
            keys = table.column(work_rows.RECORD_KEY).combine_chunks()
            arranged = _arranged(table, hashes_of(keys))
            if writer is None:
                sink = storage.filesystem.open_output_stream(storage.full_path(path))
                writer = pa.ipc.new_file(sink, arranged.schema, options=pa.ipc.IpcWriteOptions(compression="lz4"))
            for batch in _batches(arranged):
                bounds.add(batch)
                writer.write_batch(batch)
            tally, size = tally + Tally.of(keys), size + table.nbytes
            if work_rows.WANTED_PARTITION_PATH in table.column_names:
                found = pc.unique(table.column(work_rows.WANTED_PARTITION_PATH)).to_pylist()
                partition_paths = (partition_paths or set()).union(found)
    finally:
        for opened in (writer, sink):
            if opened is not None:
                opened.close()
    if writer is None:
        return None
    named = None if partition_paths is None else tuple(sorted(partition_paths))
    return RequestFile(path, tally, size, *bounds.to_arrays(), named)


def _part_of(task: int, file: RequestFile) -> pa.Table:
    """The row of ``PARTS`` of a task that wrote a file."""
    bounds = (file.first.tobytes(), file.last.tobytes())
    row = (task, file.path, file.tally.keys, file.tally.hashes, file.size, *bounds, file.partition_paths, None)
    return pa.table([[value] for value in row], schema=PARTS)


def _part_with(task: int, rows: pa.Table) -> pa.Table:
    """The row of ``PARTS`` of a task that brings its rows."""
    return pa.Table.from_pylist([{"task": task, DATA: packed(rows)}], PARTS)


@dataclass(frozen=True, slots=True)
class _Bounds:
    first: list[int]
    last: list[int]

    def add(self, batch: pa.RecordBatch) -> None:
        hashes = batch.column(_HASH)
        self.first.append(hashes[0].as_py())
        self.last.append(hashes[-1].as_py())

    def to_arrays(self) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        return np.array(self.first, np.uint32), np.array(self.last, np.uint32)


def _arranged(table: pa.Table, hashes: NDArray[np.uint32]) -> pa.Table:
    order = np.argsort(hashes, kind="stable")
    return table.take(pa.array(order)).append_column(_HASH, pa.array(hashes[order]))


def _batches(table: pa.Table) -> list[pa.RecordBatch]:
    rows = max(1, _BYTES_PER_BATCH * table.num_rows // max(table.nbytes, 1))
    batches: list[pa.RecordBatch] = table.combine_chunks().to_batches(max_chunksize=rows)
    return [batch for batch in batches if batch.num_rows]


def _within(rows: pa.Table, start: int, stop: int) -> pa.Table:
    hashes = rows.column(_HASH).to_numpy()
    first, last = np.searchsorted(hashes, np.array([start, stop], np.int64))
    return rows.slice(first, last - first).drop_columns(_HASH)
