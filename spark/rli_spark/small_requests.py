"""Small writes: the driver tags and writes them itself, because each job of Spark costs more than all of their work.

The rows of a small request come to the driver. A write that turns out to rewrite large files, or so many that Spark's tasks
take less time in all, goes back to the tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from rli import SettingsError
from rli.write.engine import (
    FileGroupResult,
    FileLocator,
    LateMoves,
    LocalRows,
    Locator,
    Request,
    RequestFolder,
    SomeKeys,
    TaggedBatch,
    TaggedRows,
    Tagging,
    Tally,
    WorkloadProfile,
    WritePlan,
    work_rows,
)
from rli_spark.batches import map_numbers
from rli_spark.connect import default_parallelism, undivided
from rli_spark.errors import unwrapped_errors
from rli_spark.keyed_rows import KeyedRows
from rli_spark.requests import SparkRequest
from rli_spark.tagged_rows import TAGGED, SparkRows, arriving_batches, tagged_batches

_REWRITTEN_BYTES: Final = 64 * 1024 * 1024
"""Of base files that the driver rewrites: about a task's share."""

_FILE_GROUPS: Final = 250
"""The driver writes about so many small ones in the time that the jobs of Spark take beside the work of their tasks."""

_TASKS_LIKE_DRIVER: Final = 2
"""So many tasks at a time write small file groups about as fast as the driver does."""

_SEARCHED_BYTES: Final = 256 * 1024 * 1024
"""Of base files in which the driver looks for keys, where no store knows them: it reads their key columns at most."""

_BYTES_OF_OPENING: Final = 1024 * 1024
"""To open a file takes about as long as to search so many bytes."""

SMALL_WRITE_BYTES: Final = "spark.rli.smallWriteBytes"
"""Spark's setting for the size of rows that come to the driver; 0: tasks do all the work."""

_DEFAULT_BYTES: Final = 16 * 1024 * 1024


def small_write_bytes(spark: SparkSession) -> int:
    """Up to about how many bytes of rows a write is a small one; raises ``SettingsError`` if the setting is no number."""
    value = spark.conf.get(SMALL_WRITE_BYTES, str(_DEFAULT_BYTES)) or ""
    if not value.isdecimal():
        raise SettingsError(f"not a number of bytes: {SMALL_WRITE_BYTES}={value}; set it to 0 or more")
    return int(value)


@dataclass(frozen=True, slots=True)
class SmallRequest(Request):
    """Keyed rows in the driver.

    Attributes:
        spark: the session.
        folder: for rows that go back to the tasks.
        rows: all of them.
        keyed: one row for each key.
        schema: of the records.
        bytes_per_row: on average.
    """

    spark: SparkSession
    folder: RequestFolder
    rows: KeyedRows
    keyed: pa.Table
    schema: pa.Schema
    bytes_per_row: float

    @classmethod
    def of(cls, spark: SparkSession, folder: RequestFolder, rows: KeyedRows) -> SmallRequest:
        """The request of rows that have all come to the driver."""
        keyed = rows.keying.distinct(pa.concat_tables(rows.parts.brought))
        return cls(spark, folder, rows, keyed, rows.schema, keyed.nbytes / max(keyed.num_rows, 1))

    @contextmanager
    def tag(self, locator: Locator, tagging: Tagging) -> Iterator[TaggedRows]:
        if isinstance(locator, FileLocator) and self._searched_bytes(locator) > _SEARCHED_BYTES:
            with SparkRequest.of(self.spark, self.folder, self.rows).tag(locator, tagging) as tagged:
                yield tagged
        else:
            with ExitStack() as kept:
                local = LocalRows.of(tagging(self.keyed, locator))
                yield SmallRows(self.spark, kept, local, self.bytes_per_row, local.profile)

    def _searched_bytes(self, locator: FileLocator) -> int:
        """Of the files that may hold the keys, with what it takes to open them."""
        paths = None
        if work_rows.WANTED_PARTITION_PATH in self.keyed.column_names:
            paths = pc.unique(self.keyed.column(work_rows.WANTED_PARTITION_PATH)).to_pylist()
        return sum(file_slice.size + _BYTES_OF_OPENING for file_slice in locator.candidates(paths))

    def some_keys(self, choose: Callable[[pa.Array], SomeKeys]) -> SomeKeys:
        return choose(self.keyed.column(work_rows.RECORD_KEY).combine_chunks())


def request_of(spark: SparkSession, folder: RequestFolder, rows: KeyedRows) -> SmallRequest | SparkRequest:
    """The request of keyed rows: a small one if all of them have come to the driver."""
    is_small = rows.parts.brought and not rows.parts.files
    return (SmallRequest if is_small else SparkRequest).of(spark, folder, rows)


@dataclass(frozen=True, slots=True)
class SmallRows(TaggedRows):
    """Work rows in the driver.

    Attributes:
        spark: the session.
        kept: gives back what Spark keeps.
        local: the rows.
        bytes_per_row: an estimate.
        profile: counts of the rows.
    """

    spark: SparkSession
    kept: ExitStack
    local: LocalRows
    bytes_per_row: float
    profile: WorkloadProfile

    def without_late_moves(self, late: LateMoves) -> TaggedRows:
        if not self._suits_driver([file_slice.size for file_slice in late.slices.values()]):
            return self._in_tasks().without_late_moves(late)
        local = self.local.without_late_moves(late)
        return replace(self, local=local, profile=local.profile)

    def keys_of_moves(self, most: int) -> list[str]:
        return self.local.keys_of_moves(most)

    def write(self, plan: WritePlan) -> Iterable[FileGroupResult]:
        rows = self.local if self._suits_driver(plan.sizes.values()) else self._in_tasks()
        return rows.write(plan)

    def _suits_driver(self, sizes: Collection[float]) -> bool:
        """Whether the driver takes no longer for file groups of some sizes in bytes than jobs of Spark do."""
        if sum(sizes) > _REWRITTEN_BYTES:
            return False
        if len(sizes) <= _FILE_GROUPS:
            return True
        share_saved = 1 - _TASKS_LIKE_DRIVER / default_parallelism(self.spark)
        return len(sizes) * share_saved <= _FILE_GROUPS

    def _in_tasks(self) -> SparkRows:
        """The rows for Spark's tasks."""
        staying = TaggedBatch(self.local.unmoved)
        moves, read = self.local.moving, Tally()
        moving = arriving_batches(moves, read) if self.profile.arriving else tagged_batches(TaggedBatch(moves), read)
        batches = pa.concat_tables([*tagged_batches(staying, read), *moving])

        def chosen(numbers: Iterator[int]) -> Iterator[pa.Table]:
            return (batches.slice(number, 1) for number in numbers)

        with unwrapped_errors():
            # ``createDataFrame`` would make this session, which lacks the caller's views, the active one.
            session = undivided(self.spark)
            frame = map_numbers(session, batches.num_rows, chosen, TAGGED, default_parallelism(session))
            return SparkRows.of(frame, self.kept, self.bytes_per_row)
