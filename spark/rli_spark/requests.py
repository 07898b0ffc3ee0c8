"""The request of a write: its records, or the keys that it deletes, computed once for all attempts to write them (P19)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession

from rli.commit.requests import RequestFolder
from rli.errors import VoidAttemptError
from rli.storage import Storage
from rli_spark.batches import TableFunction, for_look_ups, map_tables, tasks_for
from rli_spark.errors import unwrapped_errors
from rli_spark.request_files import HASHES, PARTS, RequestFile, read_rows, write_part
from rli_spark.tally import Tally

KeyedFunction = Callable[[list[pa.Table]], Iterator[pa.Table]]
"""What a task makes of all requested rows of its keys, in tables whose order is always the same."""


@dataclass(frozen=True, slots=True)
class Request:
    """Keyed rows in files, which outlive the executors that wrote them.

    Spark's cache would be no place for them: what is lost of it is computed again, and a frame may give other rows then.

    Attributes:
        spark: the session.
        folder: where the files are.
        files: one of each task that had rows.
    """

    spark: SparkSession
    folder: RequestFolder
    files: tuple[RequestFile, ...]

    @classmethod
    def of(cls, frame: DataFrame, keyed: TableFunction, folder: RequestFolder) -> Request:
        """Compute the keyed rows of a frame.

        Args:
            frame: the input.
            keyed: as for ``map_tables``; gives tables with the column ``work_rows.RECORD_KEY``.
            folder: takes the files.
        """
        storage, path = folder.storage, folder.path
        with unwrapped_errors():
            parts = map_tables(frame, lambda tables: write_part(storage, path, keyed(for_look_ups(tables))), PARTS)
            # Of each task Spark takes the row of one attempt. The files of other attempts are named by nobody.
            rows = sorted(parts.collect(), key=lambda row: row.task)
        if len({row.task for row in rows}) < len(rows):
            raise VoidAttemptError(f"tasks of a request gave more than one result: folder={path}; write again")
        return cls(frame.sparkSession, folder, tuple(map(_file_of, rows)))

    @property
    def tally(self) -> Tally:
        """Of the keys of all rows; of those with one key some may have been left out already."""
        return sum((file.tally for file in self.files), Tally())

    @property
    def size(self) -> int:
        """Bytes of the rows in memory."""
        return sum(file.size for file in self.files)

    @property
    def bytes_per_row(self) -> float:
        return self.size / max(self.tally.keys, 1)

    def by_key(self, function: KeyedFunction, schema: pa.Schema) -> DataFrame:
        """What a function makes of the rows, all those of one key in the same task.

        Args:
            function: picklable; gives tables of ``schema``.
            schema: of the output.

        Raises:
            LeaseLostError: another writer took this process for dead, and removed the files.
        """
        self.folder.require_kept()
        tasks = tasks_for(self.spark, self.size)
        read = partial(_read_ranges, self.folder.storage, self.files, tasks)

        def run(numbers: Iterator[pa.Table]) -> Iterator[pa.Table]:
            for rows in read(numbers):
                yield from function(rows)

        return map_tables(self.spark.range(0, tasks, 1, tasks), run, schema)

    def require_whole(self, read: Tally) -> None:
        """Raise ``VoidAttemptError`` unless the tasks of an attempt have read all rows once."""
        require_same("read", self.tally, read)


def require_same(done: str, expected: Tally, found: Tally) -> None:
    """Raise ``VoidAttemptError`` if the tasks of a write had other keys than those before them.

    Args:
        done: what they did with the keys.
        expected: the keys of the stage before.
        found: their own.
    """
    if found != expected:
        raise VoidAttemptError(
            f"the tasks of this write have {done} other records than were requested: expected={expected} "
            f"found={found}; nothing was written: write again, and if it happens again, check the storage of the table"
        )


def _file_of(row: Row) -> RequestFile:
    first, last = (np.frombuffer(bounds, np.uint32) for bounds in (row.first, row.last))
    return RequestFile(row.path, Tally(row["keys"], row.hashes), row.size, first, last)


def _read_ranges(
    storage: Storage, files: Sequence[RequestFile], tasks: int, numbers: Iterator[pa.Table]
) -> Iterator[list[pa.Table]]:
    """For each of some task numbers, the rows of its range of hashes."""
    for table in numbers:
        for number in table.column(0).to_pylist():
            yield list(read_rows(storage, files, HASHES * number // tasks, HASHES * (number + 1) // tasks))
