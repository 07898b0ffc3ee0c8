"""Files of a request: keyed rows in batches, each written by one attempt of one task, and never changed.

Each batch is a separate stream of Arrow's IPC format. A reader that knows the offset of a batch reads it with a single request.

The rows of a file are arranged by the hash of their key, batch by batch, for each of the large tables that they came in.
So a task that takes a range of hashes reads a few batches of each file. The rows of a load are arranged by their partition
first: so a task that writes a file group reads the batches that belong to it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rli.codec.key_codec import HASHES
from rli.errors import CorruptTableError, RliError
from rli.file_group import work_rows
from rli.storage import Storage
from rli.write.rows.tally import Tally
from rli_spark.requests.arranging import FINGERPRINT, HASH, Load, arranged_by_hash, arranged_for_load

_BYTES_PER_BATCH: Final = 256 * 1024

COMPRESSION: Final = "lz4"
"""Of files that are kept, or go over a network. To write and read a local file without it takes half the time."""

_READERS: Final = 8
"""Files that a task reads at a time: a file on an object store takes tens of milliseconds to answer."""


@dataclass(frozen=True, slots=True)
class LoadedBatches:
    """What is known of the batches of a file of a load. Picklable.

    Attributes:
        partition_paths: of the records, in order.
        numbers: the position in these of the path of each batch, shape (batches,); -1 where a batch has several.
        counts: rows of each batch, shape (batches,).
        fingerprints: of the records; see ``arranging.Arranged``.
    """

    partition_paths: tuple[str, ...]
    numbers: NDArray[np.int32]
    counts: NDArray[np.int64]
    fingerprints: RequestFile

    @property
    def is_by_partition(self) -> bool:
        """Whether each batch has records of one partition alone."""
        return bool((self.numbers >= 0).all())

    def are_in(self, partition_path: str) -> NDArray[np.bool_]:
        """Which batches have the records of a partition, shape (batches,)."""
        number = bisect_left(self.partition_paths, partition_path)
        known = number < len(self.partition_paths) and self.partition_paths[number] == partition_path
        return self.numbers == (number if known else len(self.partition_paths))

    @property
    def gained(self) -> Counter[str]:
        """Partition path → records that it gains."""
        rows = np.bincount(self.numbers, weights=self.counts, minlength=len(self.partition_paths))
        return Counter({path: int(count) for path, count in zip(self.partition_paths, rows.tolist(), strict=True)})


@dataclass(frozen=True, slots=True)
class RequestFile:
    """A file of an accepted attempt. Picklable.

    Attributes:
        path: in the table's folder.
        tally: of its keys.
        size: bytes of its rows in memory.
        first, last: the least and the greatest hash in each batch, shape (batches,).
        offsets: where each batch begins in the file, and where the last one ends, shape (batches + 1,).
        partition_paths: where its records belong by their own values; None where keys come alone.
        load: more of the rows of a load; None for others.
    """

    path: str
    tally: Tally
    size: int
    first: NDArray[np.uint32]
    last: NDArray[np.uint32]
    offsets: NDArray[np.int64]
    partition_paths: tuple[str, ...] | None = None
    load: LoadedBatches | None = None

    def rows(
        self,
        storage: Storage,
        start: int,
        stop: int,
        columns: Sequence[str] | None = None,
        partition_path: str | None = None,
    ) -> list[pa.Table]:
        """The rows whose keys have a hash from ``start`` up to but not including ``stop``.

        Args:
            storage: of the table.
            start: the first hash.
            stop: the first hash behind the range.
            columns: names; by default all. Others are not decoded.
            partition_path: of a load: gives rows of this partition alone.
        """
        chosen = (self.last >= start) & (self.first < stop)
        if partition_path is not None and self.load is not None:
            chosen &= self.load.are_in(partition_path)
        wanted = np.flatnonzero(chosen)
        if not len(wanted):
            return []
        try:
            batches = _decoded(self._contents(storage, wanted), columns)
            rows = pa.Table.from_batches([_within(batch, start, stop) for batch in batches])
            return [rows.drop_columns(HASH)]
        except (pa.ArrowException, OSError, UnicodeDecodeError, KeyError) as error:
            # Errors of the storage have a number, or are rli's own; those of Arrow's readers have none.
            if isinstance(error, RliError) or getattr(error, "errno", None) is not None:
                raise
            raise CorruptTableError(
                f"a file of a write's request is damaged: file={self.path} ({error})", remedy="write the records again"
            ) from error

    def _contents(self, storage: Storage, batches: NDArray[np.intp]) -> Iterator[pa.Buffer]:
        """The content of some batches (rising, not empty): those that follow each other are read together."""
        runs = np.split(batches, np.flatnonzero(np.diff(batches) > 1) + 1)
        ranges = [range(int(self.offsets[run[0]]), int(self.offsets[run[-1] + 1])) for run in runs]
        for run, within, content in zip(runs, ranges, storage.read_ranges(self.path, ranges), strict=True):
            if content.size < len(within):
                raise pa.ArrowInvalid("it is shorter than when it was written")
            for number in run:
                first, last = (int(offset) - within.start for offset in self.offsets[number : number + 2])
                yield content.slice(first, last - first)


def _decoded(contents: Iterable[pa.Buffer], columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
    """The batches with the columns, by default all, and ``HASH``."""
    options = None
    for content in contents:
        if columns is not None and options is None:
            schema = pa.ipc.read_schema(content)
            fields = [schema.get_field_index(name) for name in (*columns, HASH)]
            options = pa.ipc.IpcReadOptions(included_fields=fields)
        batch = next(iter(pa.ipc.open_stream(content, options=options)), None)
        if batch is None:
            raise pa.ArrowInvalid("a stream of it holds no rows")
        # Who writes the table's folder may have changed the file. Arrow would read wherever its offsets lead.
        batch.validate(full=True)
        yield batch


def read_rows(
    storage: Storage,
    files: Sequence[RequestFile],
    start: int,
    stop: int,
    *,
    columns: Sequence[str] | None = None,
    partition_path: str | None = None,
) -> Iterator[pa.Table]:
    """The rows of all files whose keys have a hash in a range, always in the same order; see ``RequestFile.rows``."""
    with ThreadPoolExecutor(_READERS) as threads:
        for tables in threads.map(lambda file: file.rows(storage, start, stop, columns, partition_path), files):
            yield from tables


def tally_of_files(files: Iterable[RequestFile]) -> Tally:
    """Of the keys of all rows in some files."""
    return Tally.total(file.tally for file in files)


def key_range(number: int, ranges: int) -> tuple[int, int]:
    """The first hash of one of some ranges of about the same size, and the first one behind it."""
    return HASHES * number // ranges, HASHES * (number + 1) // ranges


def write_file(
    storage: Storage,
    path: str,
    tables: Iterable[pa.Table],
    load: Load | None = None,
    compression: str | None = COMPRESSION,
) -> RequestFile | None:
    """Write keyed rows to a file; returns None, and writes no file, if there are no rows."""
    partition_paths: set[str] | None = None
    of_batches: list[str | None] = []
    writer, fingerprints = (_Writer(storage, name, compression) for name in (path, f"{path}.fingerprints"))
    with writer, fingerprints:
        for table in tables:
            if work_rows.WANTED_PARTITION_PATH in table.column_names:
                found = pc.unique(table.column(work_rows.WANTED_PARTITION_PATH)).to_pylist()
                partition_paths = (partition_paths or set()).union(found)
            arranged = arranged_by_hash(table) if load is None else arranged_for_load(table, load)
            for run in arranged.runs:
                of_batches += [run.partition_path] * writer.write(run.rows)
            writer.tally += arranged.tally
            if arranged.fingerprints is not None:
                fingerprints.write(arranged.fingerprints)
                fingerprints.tally += Tally.of_hashes(arranged.fingerprints.column(FINGERPRINT).to_numpy())
    if not writer.size:
        return None
    named = None if partition_paths is None else tuple(sorted(partition_paths))
    file = replace(writer.file, partition_paths=named)
    if load is None or named is None:
        return file
    position = {name: number for number, name in enumerate(named)}
    numbers = np.array([-1 if name is None else position[name] for name in of_batches], np.int32)
    return replace(file, load=LoadedBatches(named, numbers, np.array(writer.counts, np.int64), fingerprints.file))


class _Writer:
    """Writes a file, which is not made before there are rows.

    Attributes:
        tally: of the keys, as the caller adds it up.
        size: bytes of the rows in memory.
        counts: rows of each batch.
    """

    def __init__(self, storage: Storage, path: str, compression: str | None) -> None:
        self._storage, self._path = storage, path
        self._options = pa.ipc.IpcWriteOptions(compression=compression)
        self._sink: pa.NativeFile | None = None
        self._first: list[int] = []
        self._last: list[int] = []
        self._offsets = [0]
        self.tally, self.size = Tally(), 0
        self.counts: list[int] = []

    def write(self, rows: pa.Table) -> int:
        """Append rows with rising hashes; returns how many batches they are."""
        if self._sink is None:
            self._sink = self._storage.filesystem.open_output_stream(self._storage.full_path(self._path))
        batches = _batches(rows)
        for batch in batches:
            content = self._encoded(batch)
            self._sink.write(content)
            self._offsets.append(self._offsets[-1] + content.size)
            hashes = batch.column(HASH)
            self._first.append(hashes[0].as_py())
            self._last.append(hashes[-1].as_py())
            self.counts.append(batch.num_rows)
        self.size += rows.nbytes
        return len(batches)

    def _encoded(self, batch: pa.RecordBatch) -> pa.Buffer:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema, options=self._options) as writer:
            writer.write_batch(batch)
        return sink.getvalue()

    @property
    def file(self) -> RequestFile:
        """What was written."""
        first, last = (np.array(hashes, np.uint32) for hashes in (self._first, self._last))
        return RequestFile(self._path, self.tally, self.size, first, last, np.array(self._offsets, np.int64))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._sink is not None:
            self._sink.close()


def _batches(table: pa.Table) -> list[pa.RecordBatch]:
    rows = max(1, _BYTES_PER_BATCH * table.num_rows // max(table.nbytes, 1))
    batches: list[pa.RecordBatch] = table.combine_chunks().to_batches(max_chunksize=rows)
    return [batch for batch in batches if batch.num_rows]


def _within(rows: pa.RecordBatch, start: int, stop: int) -> pa.RecordBatch:
    hashes = rows.column(HASH).to_numpy()
    first, last = np.searchsorted(hashes, np.array([start, stop], np.int64))
    return rows.slice(first, last - first)
