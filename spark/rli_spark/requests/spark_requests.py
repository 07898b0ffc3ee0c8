"""The request of a write: its records, or the keys that it deletes, computed once for all attempts to write them (P19)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from rli.coordination.requests import RequestFolder
from rli.file_group import work_rows
from rli.index.locators import FileLocator, Locator, PruningLocator, Unlocated
from rli.index.reports import SomeKeys, sum_of
from rli.storage import Storage
from rli.write.engine.contract import Request, TaggedRows, Tagging
from rli.write.rows.keying import Keying
from rli.write.rows.tally import Tally, require_same
from rli_spark.planning.execution_plan import ExecutionPlan, Place, Stage
from rli_spark.requests.comparisons import compare_files
from rli_spark.requests.file_probes import Located, LocatedInTasks, probe_files
from rli_spark.requests.keyed_rows import KeyedRows
from rli_spark.requests.loads import LoadedRows, all_differ
from rli_spark.requests.request_files import RequestFile, key_range, read_rows, tally_of_files
from rli_spark.requests.request_parts import Parts
from rli_spark.rows.headings import HEADINGS, headings_of
from rli_spark.rows.tagged_rows import SparkRows, tagged_headings
from rli_spark.session.batches import map_numbers
from rli_spark.session.connect import undivided
from rli_spark.session.jobs import jobs
from rli_spark.session.running_task import attempt_token


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

_SAVED: Final = pa.schema([("path", pa.string()), ("read_keys", pa.int64()), ("read_hashes", pa.int64())])


@dataclass(frozen=True, slots=True)
class SparkRequest(Request):
    """Keyed rows in files, for Spark's tasks.

    Attributes:
        spark: the session.
        execution: decides how many tasks work.
        folder: where the files are.
        keying: what formed the rows.
        files: one of each task that had rows.
        schema: of the records.
        bytes_per_row: on average.
        received: all rows of the frame.
    """

    spark: SparkSession
    execution: ExecutionPlan
    folder: RequestFolder
    keying: Keying
    files: tuple[RequestFile, ...]
    schema: pa.Schema
    bytes_per_row: float
    received: Tally

    @classmethod
    def of(cls, spark: SparkSession, execution: ExecutionPlan, folder: RequestFolder, rows: KeyedRows) -> SparkRequest:
        """The request of keyed rows; those that tasks brought are put into a file.

        Args:
            spark: the session.
            execution: decides how many tasks work.
            folder: takes the file.
            rows: all of them.
        """
        files = rows.parts.files
        if rows.parts.brought:
            brought = pa.concat_tables(rows.parts.brought)
            files = (*files, *Parts.of_driver(folder, brought, load=rows.load).files)
        bytes_per_row = sum(file.size for file in files) / max(tally_of_files(files).keys, 1)
        session = undivided(spark)
        return cls(session, execution, folder, rows.keying, files, rows.schema, bytes_per_row, rows.parts.received)

    @contextmanager
    def tag(self, locator: Locator, tagging: Tagging) -> Iterator[TaggedRows]:
        if isinstance(locator, Unlocated) and self._can_load:
            duplicates = self.received.keys - self.tally.keys
            yield LoadedRows(self.spark, self.execution, self.folder, self.files, tagging, locator, duplicates)
            return
        decided = self.execution.tag(self.tally.keys, self.size, Place.TASKS, jobs_before=jobs_before(locator))
        with self.tagged(locator, tagging, decided.tasks) as rows:
            yield rows

    @contextmanager
    def tagged(self, locator: Locator, tagging: Tagging, tasks: int) -> Iterator[TaggedRows]:
        """The work rows of an attempt, tagged by so many tasks; otherwise as ``tag``."""
        with jobs(self.spark, "locate keys in files"):
            located = self._located(locator)
        keying, sums, storage = self.keying, self.execution.sums(tasks), self.folder.storage
        with self.folder.of_attempt() as folder:
            path = folder.path

            def work(part: KeyRange) -> Iterator[pa.Table]:
                if part.rows is not None:
                    within = located.within(part.start, part.stop)
                    distinct = keying.distinct(part.rows)
                    tagged, read = tagging(distinct, within.locator), part.tally + within.tally
                    yield from tagged_headings(storage, path, tagged, read, sums=sums, distinct=distinct.num_rows)

            with jobs(self.spark, Stage.TAG):
                headings = headings_of(self.by_key(work, HEADINGS, tasks), sums)
            rows = SparkRows.of(self.spark, folder, self.execution, self.bytes_per_row, headings)
            require_same("read", self.tally + located.tally, rows.read)
            yield replace(rows, profile=replace(rows.profile, duplicates=self.received.keys - rows.distinct))

    @property
    def _can_load(self) -> bool:
        """Whether the rows can go to file groups as they are, if all of them are new."""
        if not all(file.load is not None and file.load.is_by_partition for file in self.files):
            return False
        return all_differ(self.spark, self.execution, self.folder, self.files)

    def _located(self, locator: Locator) -> Located:
        """How tasks locate their keys: each for itself, or with what the table's files were asked before."""
        if not isinstance(locator, FileLocator):
            return LocatedInTasks(locator)
        self.folder.require_kept()
        if isinstance(locator, PruningLocator):
            return compare_files(self.spark, self.execution, self.folder, self.files, locator)
        return probe_files(self.spark, self.execution, self.folder, self.files, locator)

    def files_of(self, save: Callable[[pa.Table, str], str | None]) -> list[str]:
        keying = self.keying

        def write(part: KeyRange) -> Iterator[pa.Table]:
            if part.rows is not None:
                path, read = save(keying.distinct(part.rows), attempt_token()), part.tally
                yield pa.table([[path], [read.keys], [read.hashes]], schema=_SAVED)

        with jobs(self.spark, "keep deleted keys"):
            rows = self.by_key(write, _SAVED, self._tasks).collect()
        require_same("read", self.tally, Tally.total(Tally(row.read_keys, row.read_hashes) for row in rows))
        return [row.path for row in rows if row.path is not None]

    def some_keys(self, choose: Callable[[pa.Array], SomeKeys]) -> SomeKeys:
        def look(part: KeyRange) -> Iterator[pa.Table]:
            if part.rows is not None:
                read, chosen = part.tally, choose(part.rows.column(work_rows.RECORD_KEY).unique())
                yield pa.table([[chosen.count], [list(chosen.sample)], [read.keys], [read.hashes]], schema=_CHOSEN)

        with jobs(self.spark, "look for conflicts"):
            rows = self.by_key(look, _CHOSEN, self._tasks).collect()
        require_same("read", self.tally, Tally.total(Tally(row.read_keys, row.read_hashes) for row in rows))
        return sum_of(SomeKeys(row.count_of_keys, tuple(row.sample)) for row in rows)

    @property
    def tally(self) -> Tally:
        """Of the keys of all rows; of those with one key some may have been left out already."""
        return tally_of_files(self.files)

    @property
    def size(self) -> int:
        """Bytes of the rows in memory."""
        return sum(file.size for file in self.files)

    @property
    def _tasks(self) -> int:
        return self.execution.parallelism.for_bytes(self.size)

    def by_key(self, function: KeyedFunction, schema: pa.Schema, tasks: int) -> DataFrame:
        """What a function makes of the rows, all those of one key in the same task.

        Args:
            function: picklable; gives tables of ``schema``.
            schema: of the output.
            tasks: how many share the rows out.

        Raises:
            LeaseLostError: another writer took this process for dead, and removed the files.
        """
        self.folder.require_kept()
        # Each task gets all of them; the names of partitions alone would be many times their number.
        files = tuple(replace(file, partition_paths=None, load=None) for file in self.files)
        read = partial(_read_ranges, self.folder.storage, files, tasks)

        def run(numbers: Iterator[int]) -> Iterator[pa.Table]:
            for part in read(numbers):
                yield from function(part)

        return map_numbers(self.spark, tasks, run, schema)


def jobs_before(locator: Locator) -> int:
    """How many jobs look for keys in the table's files before tasks tag their rows."""
    if not isinstance(locator, FileLocator):
        return 0
    return 2 if isinstance(locator, PruningLocator) else 1


def _read_ranges(
    storage: Storage, files: Sequence[RequestFile], tasks: int, numbers: Iterator[int]
) -> Iterator[KeyRange]:
    """The range of hashes of each of some task numbers."""
    for number in numbers:
        start, stop = key_range(number, tasks)
        found = list(read_rows(storage, files, start, stop))
        yield KeyRange(start, stop, pa.concat_tables(found) if found else None)
