"""The request of a write: its records, or the keys that it deletes, computed once for all attempts to write them (P19)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from rli.write.engine import (
    META_COLUMNS,
    FileLocator,
    Keying,
    Locator,
    Request,
    RequestFolder,
    SomeKeys,
    Storage,
    TaggedRows,
    Tagging,
    Tally,
    require_same,
    sum_of,
    work_rows,
)
from rli_spark.batches import arrow_schema, for_look_ups, map_tables, tasks_for
from rli_spark.errors import unwrapped_errors
from rli_spark.file_probes import Located, LocatedInTasks, probe_files
from rli_spark.request_files import PARTS, RequestFile, accepted_files, key_range, read_rows, write_part
from rli_spark.tagged_rows import TAGGED, SparkRows, heading_of_read, tagged_batches
from rli_spark.tie_breaker import Tied, with_tie_breaker


@dataclass(frozen=True, slots=True)
class KeyRange:
    """All requested rows whose keys have a hash in a range, always in the same order.

    Attributes:
        start, stop: the range; ``stop`` is not in it.
        rows: None where there are none.
    """

    start: int
    stop: int
    rows: pa.Table | None

    @property
    def tally(self) -> Tally:
        """Of the keys; of those that occur more than once, each occurrence."""
        return Tally() if self.rows is None else Tally.of(self.rows.column(work_rows.RECORD_KEY))


KeyedFunction = Callable[[KeyRange], Iterator[pa.Table]]
"""What a task makes of a range of keys."""

_CHOSEN: Final = pa.schema(
    [
        ("count_of_keys", pa.int64()),
        ("sample", pa.list_(pa.string())),
        ("read_keys", pa.int64()),
        ("read_hashes", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True)
class SparkRequest(Request):
    """Keyed rows in files, which outlive the executors that wrote them.

    Spark's cache would be no place for them: what is lost of it is computed again, and a frame may give other rows then.

    Attributes:
        spark: the session.
        folder: where the files are.
        keying: what formed the rows.
        files: one of each task that had rows.
        schema: of the records.
        bytes_per_row: on average.
    """

    spark: SparkSession
    folder: RequestFolder
    keying: Keying
    files: tuple[RequestFile, ...]
    schema: pa.Schema
    bytes_per_row: float

    @classmethod
    def of(cls, frame: DataFrame, keying: Keying, folder: RequestFolder) -> SparkRequest:
        """Compute the keyed rows of a frame.

        Args:
            frame: the input.
            keying: forms them.
            folder: takes the files.
        """
        storage, path = folder.storage, folder.path
        if keying.has_records:
            frame = frame.drop(*META_COLUMNS)
        # Fails here, on no records, if a column is missing or of a wrong type.
        schema = keying.schema(keying.keyed(arrow_schema(frame).empty_table()).schema)
        if keying.has_records:
            frame, keying = with_tie_breaker(frame), Tied(keying)

        def keyed(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
            for table in for_look_ups(tables):
                yield keying.distinct(keying.keyed(table))

        with unwrapped_errors():
            parts = map_tables(frame, lambda tables: write_part(storage, path, keyed(tables)), PARTS)
            files = accepted_files(parts.collect(), path)
        keys = sum(file.tally.keys for file in files)
        return cls(frame.sparkSession, folder, keying, files, schema, sum(file.size for file in files) / max(keys, 1))

    @contextmanager
    def tag(self, locator: Locator, tagging: Tagging) -> Iterator[TaggedRows]:
        keying = self.keying
        with unwrapped_errors():
            located = self._located(locator)

        def work(part: KeyRange) -> Iterator[pa.Table]:
            if part.rows is not None:
                within = located.within(part.start, part.stop)
                yield heading_of_read(part.tally + within.tally)
                yield tagged_batches(tagging(keying.distinct(part.rows), within.locator))

        with ExitStack() as kept:
            with unwrapped_errors():
                rows = SparkRows.of(self.by_key(work, TAGGED), kept, self.bytes_per_row)
            require_same("read", self.tally + located.tally, rows.read)
            yield rows

    def _located(self, locator: Locator) -> Located:
        """How tasks locate their keys: each for itself, or with what the table's files were asked before."""
        if not isinstance(locator, FileLocator):
            return LocatedInTasks(locator)
        self.folder.require_kept()
        return probe_files(self.spark, self.folder, self.files, locator)

    def some_keys(self, choose: Callable[[pa.Array], SomeKeys]) -> SomeKeys:
        def look(part: KeyRange) -> Iterator[pa.Table]:
            if part.rows is not None:
                read, chosen = part.tally, choose(part.rows.column(work_rows.RECORD_KEY).unique())
                yield pa.table([[chosen.count], [list(chosen.sample)], [read.keys], [read.hashes]], schema=_CHOSEN)

        with unwrapped_errors():
            rows = self.by_key(look, _CHOSEN).collect()
        require_same("read", self.tally, sum((Tally(row.read_keys, row.read_hashes) for row in rows), Tally()))
        return sum_of(SomeKeys(row.count_of_keys, tuple(row.sample)) for row in rows)

    @property
    def tally(self) -> Tally:
        """Of the keys of all rows; of those with one key some may have been left out already."""
        return sum((file.tally for file in self.files), Tally())

    @property
    def size(self) -> int:
        """Bytes of the rows in memory."""
        return sum(file.size for file in self.files)

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
            for part in read(numbers):
                yield from function(part)

        return map_tables(self.spark.range(0, tasks, 1, tasks), run, schema)


def _read_ranges(
    storage: Storage, files: Sequence[RequestFile], tasks: int, numbers: Iterator[pa.Table]
) -> Iterator[KeyRange]:
    """The range of hashes of each of some task numbers."""
    for table in numbers:
        for number in table.column(0).to_pylist():
            start, stop = key_range(number, tasks)
            found = list(read_rows(storage, files, start, stop))
            yield KeyRange(start, stop, pa.concat_tables(found) if found else None)
