"""What the tasks of a request give the driver: a row each, which tells of the task's file or brings its few rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from sys import intern
from typing import Final
from uuid import uuid4

import numpy as np
import pyarrow as pa
from pyspark.sql import Row

from rli.coordination.requests import RequestFolder
from rli.errors import VoidAttemptError
from rli.storage import Storage
from rli.write.rows.tally import Tally
from rli_spark.requests.arranging import Load
from rli_spark.requests.request_files import COMPRESSION, LoadedBatches, RequestFile, write_file
from rli_spark.rows.row_batches import DATA, packed, unpack
from rli_spark.session.running_task import running_task

PARTS: Final = pa.schema(
    [
        ("task", pa.int32()),
        ("path", pa.string()),
        ("keys", pa.int64()),
        ("hashes", pa.int64()),
        ("size", pa.int64()),
        ("first", pa.binary()),
        ("last", pa.binary()),
        ("offsets", pa.binary()),
        ("partition_paths", pa.list_(pa.string())),
        (DATA, pa.binary()),
        ("load", pa.binary()),
        ("received_rows", pa.int64()),
        ("received_hashes", pa.int64()),
    ]
)
"""What a task says of its file, in one row: see ``RequestFile``; ``load`` as a row batch of ``_LOAD``. Few rows come themselves,
and have no file. The last columns tell what the task received of a request, see ``Parts.received``."""

_LOAD: Final = pa.schema([(name, pa.binary()) for name in ("numbers", "counts", "fingerprints")])
"""What else it says of the file of a load, in one row: see ``LoadedBatches``; the file of fingerprints as a row of ``PARTS``."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What the tasks of a job wrote or brought, in the order of the tasks.

    Attributes:
        files: of tasks with many rows.
        brought: the rows of tasks with few.
        received: all rows of a request, before those with one key were reduced; see ``Keying.received``.
    """

    files: tuple[RequestFile, ...]
    brought: tuple[pa.Table, ...]
    received: Tally = field(default_factory=Tally)

    @property
    def num_rows(self) -> int:
        """All rows."""
        return sum(file.tally.keys for file in self.files) + sum(rows.num_rows for rows in self.brought)

    @property
    def num_bytes(self) -> int:
        """Of all rows in memory."""
        return sum(file.size for file in self.files) + sum(rows.nbytes for rows in self.brought)

    @classmethod
    def of_driver(cls, folder: RequestFolder, rows: pa.Table, brings: int = 0, *, load: Load | None = None) -> Parts:
        """Keyed rows in the driver, written to a file if they have more than ``brings`` bytes."""
        if not rows.num_rows:
            return cls((), ())
        if rows.nbytes <= brings:
            return cls((), (rows,))
        file = write_file(folder.storage, f"{folder.path}/driver-{uuid4().hex}.arrow", [rows], load)
        return cls(() if file is None else (file,), ())

    @classmethod
    def accepted(cls, rows: Iterable[Row], folder: str) -> Parts:
        """The parts that a job's rows of ``PARTS`` tell of.

        Of each task Spark takes the row of one attempt. The files of other attempts are named by nobody.

        Raises:
            VoidAttemptError: a task gave more than one result.
        """
        ordered = sorted(rows, key=lambda row: row.task)
        if len({row.task for row in ordered}) < len(ordered):
            raise VoidAttemptError(
                f"tasks of a request gave more than one result: folder={folder}", remedy="write again"
            )
        return cls(
            _naming_once(_file_of(row) for row in ordered if row.path is not None),
            tuple(unpack(bytes(row.data)) for row in ordered if row.path is None),
            Tally.total(_received_by(row) for row in ordered),
        )


def write_part(
    storage: Storage,
    folder: str,
    tables: Iterable[pa.Table],
    brings: int = 0,
    *,
    load: Load | None = None,
    compression: str | None = COMPRESSION,
) -> Iterator[pa.Table]:
    """Write the keyed rows of a task to a file of its own, unless they are few.

    Args:
        storage: of the table.
        folder: of the request.
        tables: the rows.
        brings: how many bytes all tasks of the job may bring to the driver. Of a harmonic series each task takes its
            part, so that it need not know how many tasks there are.
        load: if the rows are those of a load.
        compression: as Arrow names it.

    Yields:
        One row of ``PARTS``; none if there are no rows.
    """
    number, stream = running_task().partitionId(), iter(tables)
    first = list(islice(stream, 1))
    if first and first[0].nbytes <= brings // (number + 1):
        first += islice(stream, 1)
        if len(first) == 1:
            yield _part_with(number, first[0])
            return
    path = f"{folder}/{number}-{uuid4().hex}.arrow"
    file = write_file(storage, path, chain(first, stream), load, compression)
    if file is not None:
        yield _part_of(number, file)


def _received_by(row: Row) -> Tally:
    # Tasks whose rows are not those of a request tell nothing of them.
    return Tally() if row.received_rows is None else Tally(row.received_rows, row.received_hashes)


def telling_received(part: pa.Table, received: Tally) -> pa.Table:
    """A row of ``PARTS`` with what its task received."""
    told = zip(("received_rows", "received_hashes"), (received.keys, received.hashes), strict=True)
    for name, number in told:
        part = part.set_column(PARTS.get_field_index(name), PARTS.field(name), pa.array([number], pa.int64()))
    return part


def table_of_files(files: Sequence[RequestFile]) -> pa.Table:
    """Files as a table of ``PARTS``, which ``files_of_table`` reads."""
    return pa.concat_tables([PARTS.empty_table(), *(_part_of(task, file) for task, file in enumerate(files))])


def files_of_table(table: pa.Table) -> tuple[RequestFile, ...]:
    """The files that ``table_of_files`` has put down."""
    return tuple(_file_of(Row(**row)) for row in table.to_pylist())


def _naming_once(files: Iterable[RequestFile]) -> tuple[RequestFile, ...]:
    """The files, of which those with the same partitions share their names: they are pickled once for a task, not once a file."""
    shared: dict[tuple[str, ...], tuple[str, ...]] = {}

    def sharing(file: RequestFile) -> RequestFile:
        if file.partition_paths is None:
            return file
        names = shared.setdefault(file.partition_paths, tuple(map(intern, file.partition_paths)))
        return replace(file, partition_paths=names, load=file.load and replace(file.load, partition_paths=names))

    return tuple(map(sharing, files))


def _part_of(task: int, file: RequestFile) -> pa.Table:
    """The row of ``PARTS`` of a task that wrote a file."""
    row = {
        "task": task,
        "path": file.path,
        "keys": file.tally.keys,
        "hashes": file.tally.hashes,
        "size": file.size,
        "first": file.first.tobytes(),
        "last": file.last.tobytes(),
        "offsets": file.offsets.tobytes(),
        "partition_paths": file.partition_paths,
    }
    if file.load is not None:
        load = file.load
        fingerprints = packed(table_of_files([load.fingerprints]))
        told = {"numbers": load.numbers.tobytes(), "counts": load.counts.tobytes(), "fingerprints": fingerprints}
        row["load"] = packed(pa.Table.from_pylist([told], _LOAD))
    return pa.Table.from_pylist([row], PARTS)


def _part_with(task: int, rows: pa.Table) -> pa.Table:
    """The row of ``PARTS`` of a task that brings its rows."""
    return pa.Table.from_pylist([{"task": task, DATA: packed(rows)}], PARTS)


def _file_of(row: Row) -> RequestFile:
    first, last = (np.frombuffer(bounds, np.uint32) for bounds in (row.first, row.last))
    offsets = np.frombuffer(row.offsets, np.int64)
    partition_paths = None if row.partition_paths is None else tuple(row.partition_paths)
    file = RequestFile(row.path, Tally(row["keys"], row.hashes), row.size, first, last, offsets, partition_paths)
    if row.load is None or partition_paths is None:
        return file
    (told,) = unpack(bytes(row.load)).to_pylist()
    numbers, counts = np.frombuffer(told["numbers"], np.int32), np.frombuffer(told["counts"], np.int64)
    (fingerprints,) = files_of_table(unpack(told["fingerprints"]))
    return replace(file, load=LoadedBatches(partition_paths, numbers, counts, fingerprints))
