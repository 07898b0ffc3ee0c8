"""Small writes: the driver tags and writes them itself, because each job of Spark costs more than all of their work.

The rows of a small request come to the driver, by the request's job or in its files. A write that turns out to rewrite large
files, or so many that Spark's tasks take less time in all, goes back to the tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from rli.coordination.requests import RequestFolder
from rli.file_group import work_rows
from rli.file_group.write_context import FileGroupResult
from rli.index.locators import FileLocator, Locator
from rli.index.reports import SomeKeys
from rli.write.engine.contract import Request, TaggedRows, Tagging
from rli.write.engine.local import LocalRows
from rli.write.engine.workload import WorkloadProfile
from rli.write.engine.write_plan import WritePlan
from rli.write.rows.late_moves import LateMoves
from rli.write.rows.tagging import TaggedBatch
from rli.write.rows.tally import Tally, require_same
from rli_spark.planning.execution_plan import ExecutionPlan, Place
from rli_spark.requests.keyed_rows import KeyedRows
from rli_spark.requests.request_files import key_range, read_rows, tally_of_files
from rli_spark.requests.spark_requests import SparkRequest, jobs_before
from rli_spark.rows.headings import Headings
from rli_spark.rows.tagged_rows import SparkRows, arriving_headings, tagged_headings
from rli_spark.session.connect import rows_of, undivided

_MOST_PARTS: Final = 8
"""Files in which the driver gives rows back to tasks, at most."""


@dataclass(frozen=True, slots=True)
class SmallRequest(Request):
    """Keyed rows in the driver.

    Attributes:
        spark: the session.
        execution: decides what the driver does.
        folder: for rows that go back to the tasks.
        rows: all of them, as the tasks gave them.
        keyed: one row for each key.
        schema: of the records.
        bytes_per_row: on average.
    """

    spark: SparkSession
    execution: ExecutionPlan
    folder: RequestFolder
    rows: KeyedRows
    keyed: pa.Table
    schema: pa.Schema
    bytes_per_row: float

    @property
    def received(self) -> Tally:  # type: ignore[override]
        return self.rows.parts.received

    @classmethod
    def of(cls, spark: SparkSession, execution: ExecutionPlan, folder: RequestFolder, rows: KeyedRows) -> SmallRequest:
        """The request of rows that have come to the driver, or do so now from their files.

        Raises:
            LeaseLostError: another writer took this process for dead, and removed the files.
            VoidAttemptError: the files hold other keys than were written.
        """
        files = rows.parts.files
        if files:
            folder.require_kept()
        read = list(read_rows(folder.storage, files, *key_range(0, 1)))
        keys = (table.column(work_rows.RECORD_KEY) for table in read)
        require_same("read", tally_of_files(files), Tally.total(map(Tally.of, keys)))
        keyed = rows.keying.distinct(pa.concat_tables([*rows.parts.brought, *read]))
        return cls(spark, execution, folder, rows, keyed, rows.schema, keyed.nbytes / max(keyed.num_rows, 1))

    @contextmanager
    def tag(self, locator: Locator, tagging: Tagging) -> Iterator[TaggedRows]:
        searched = self._searched(locator) if isinstance(locator, FileLocator) else []
        decided = self.execution.tag(
            self.keyed.num_rows, self.keyed.nbytes, Place.DRIVER, jobs_before=jobs_before(locator), searched=searched
        )
        if not decided.by_driver:
            request = SparkRequest.of(self.spark, self.execution, self.folder, self.rows)
            with request.tagged(locator, tagging, decided.tasks) as tagged:
                yield tagged
        else:
            local = LocalRows.of(tagging(self.keyed, locator), self.received.keys - self.keyed.num_rows)
            yield SmallRows(self.spark, self.folder, self.execution, local, self.bytes_per_row, local.profile)

    def _searched(self, locator: FileLocator) -> list[int]:
        """The bytes of each file that may hold the keys."""
        paths = None
        if work_rows.WANTED_PARTITION_PATH in self.keyed.column_names:
            paths = pc.unique(self.keyed.column(work_rows.WANTED_PARTITION_PATH)).to_pylist()
        return [file_slice.size for file_slice in locator.candidates(paths)]

    def files_of(self, save: Callable[[pa.Table, str], str | None]) -> list[str]:
        path = save(self.keyed, "0-0-0")
        return [] if path is None else [path]

    def some_keys(self, choose: Callable[[pa.Array], SomeKeys]) -> SomeKeys:
        return choose(self.keyed.column(work_rows.RECORD_KEY).combine_chunks())


def request_of(
    spark: SparkSession, execution: ExecutionPlan, folder: RequestFolder, rows: KeyedRows
) -> SmallRequest | SparkRequest:
    """The request of keyed rows: a small one if the driver is to write them."""
    parts = rows.parts
    came, files = len(parts.brought), len(parts.files)
    decided = execution.request(parts.num_rows, parts.num_bytes, brought=came, files=files)
    kind = SmallRequest if decided.by_driver else SparkRequest
    return kind.of(spark, execution, folder, rows)


@dataclass(frozen=True, slots=True)
class SmallRows(TaggedRows):
    """Work rows in the driver.

    Attributes:
        spark: the session.
        folder: of the request, for rows that go back to the tasks.
        execution: decides what the driver does.
        local: the rows.
        bytes_per_row: an estimate.
        profile: counts of the rows.
    """

    spark: SparkSession
    folder: RequestFolder
    execution: ExecutionPlan
    local: LocalRows
    bytes_per_row: float
    profile: WorkloadProfile

    def without_late_moves(self, late: LateMoves) -> TaggedRows:
        sizes = [file_slice.size for file_slice in late.slices.values()]
        size = int(sum(self.profile.leaving.values()) * self.bytes_per_row)
        decided = self.execution.resolve(size, Place.DRIVER, sizes)
        if not decided.by_driver:
            return self._in_tasks().resolved(late, decided.tasks)
        local = self.local.without_late_moves(late)
        return replace(self, local=local, profile=local.profile)

    def keys_of_moves(self, most: int) -> list[str]:
        return self.local.keys_of_moves(most)

    def write(self, plan: WritePlan) -> Iterable[FileGroupResult]:
        decided = self.execution.write(plan.sizes.values(), Place.DRIVER)
        return self.local.write(plan) if decided.by_driver else self._in_tasks().written(plan, decided.tasks)

    def _parts(self, rows: pa.Table) -> Iterator[pa.Table]:
        """Rows in parts for some tasks, which give them to the tasks that write.

        Spark prefers executors that hold a fifth of a task's input. With a single part, all tasks would wait for the same executor.
        """
        step = max(1, -(-rows.num_rows // min(self.execution.parallelism.cores(), _MOST_PARTS)))
        for start in range(0, rows.num_rows, step):
            yield rows.slice(start, step)

    def _in_tasks(self) -> SparkRows:
        """The rows in files, for Spark's tasks."""
        self.folder.require_kept()
        storage, path = self.folder.storage, self.folder.path
        moves, read = self.local.moving, Tally()
        if self.profile.arriving:
            moving = arriving_headings(storage, path, moves, read)
        else:
            moving = tagged_headings(storage, path, TaggedBatch(moves), read)
        staying = (tagged_headings(storage, path, TaggedBatch(rows), read) for rows in self._parts(self.local.unmoved))
        session = undivided(self.spark)
        headings = Headings.summed(rows_of(chain(*staying, moving)))
        return SparkRows.of(session, self.folder, self.execution, self.bytes_per_row, headings)
