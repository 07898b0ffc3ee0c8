"""Reading file slices with log files: a task merges the records of some of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from rli.view.file_slices import FileSlice
from rli.view.scan import SnapshotScan
from rli_spark.planning.resources import parallelism_of
from rli_spark.session.batches import map_numbers


def merged_records(
    spark: SparkSession, scan: SnapshotScan, slices: Sequence[FileSlice], schema: pa.Schema
) -> DataFrame:
    """The records of slices with log files that pass the scan's filter, when the frame is computed.

    Args:
        spark: the session.
        scan: of a state of the table.
        slices: some of the scan's, with log files.
        schema: of the columns that are wanted, which may be others than the scan's.
    """
    # Tasks do not need the listing of the plan.
    reading = replace(scan, slices={}, schema=schema, require_not_removed=_pass, skipping=None)

    def read(numbers: Iterator[int]) -> Iterator[pa.Table]:
        for number in numbers:
            yield from (pa.Table.from_batches([batch]) for batch in reading.merged(slices[number]))

    tasks = parallelism_of(spark).for_bytes(sum(one.size for one in slices))
    return map_numbers(spark, len(slices), read, schema, max(1, min(len(slices), tasks)))


def _pass(_: Sequence[FileSlice]) -> None:
    """A file that is missing is an error of the task."""
