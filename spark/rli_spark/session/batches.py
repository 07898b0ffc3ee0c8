"""Between Spark's small Arrow batches and the batches that look-ups and merges like."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from inspect import signature
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from rli.file_group.batches import coalesce_tables
from rli_spark.session.running_task import begin_task

LOOKUP_ROWS: Final = 262_144
"""Rows of one look-up: the more keys are sought at once, the fewer entries of the store are between two of them."""

_LOOKUP_BYTES: Final = 64 * 1024 * 1024
_OUTPUT_ROWS: Final = 65_536

# PySpark 4 wants to be told the time zone in which Arrow shows instants; the instants themselves are in UTC anyway.
_TIMEZONE: Final = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}

TableFunction = Callable[[Iterator[pa.Table]], Iterator[pa.Table]]
NumberFunction = Callable[[Iterator[int]], Iterator[pa.Table]]


def map_tables(frame: DataFrame, function: TableFunction, schema: pa.Schema) -> DataFrame:
    """A frame of what ``function`` makes of each Spark partition, given as a stream of Arrow tables.

    Args:
        frame: the input.
        function: picklable; runs in executors; gives tables of ``schema``.
        schema: of the output.
    """
    names = frame.columns

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task()
        for table in function(pa.table(batch).rename_columns(names) for batch in batches):
            yield from table.cast(schema).combine_chunks().to_batches(max_chunksize=_OUTPUT_ROWS)

    return _with_plain_names(frame).mapInArrow(run, spark_schema(schema))


def _with_plain_names(frame: DataFrame) -> DataFrame:
    """The frame under names that PySpark can refer to: it takes a dot for a field of a struct, and ignores letter case."""
    names = frame.columns
    if all(map(str.isidentifier, names)) and len({name.casefold() for name in names}) == len(names):
        return frame
    return frame.toDF(*(f"c{number}" for number in range(len(names))))


def map_numbers(
    spark: SparkSession, count: int, function: NumberFunction, schema: pa.Schema, tasks: int | None = None
) -> DataFrame:
    """A frame of what ``function`` makes of the numbers from 0 to ``count - 1``, which stand for pieces of work.

    Args:
        spark: the session.
        count: how many numbers.
        function: picklable; runs in executors; gives tables of ``schema``.
        schema: of the output.
        tasks: that share the numbers out; by default each number has its own.
    """

    def run(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        return function(number for table in tables for number in table.column(0).to_pylist())

    return map_tables(spark.range(0, count, 1, tasks or count), run, schema)


def for_look_ups(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The same rows in tables of ``LOOKUP_ROWS`` rows or more, or of as many as a task should hold at once."""
    return coalesce_tables(tables, LOOKUP_ROWS, _LOOKUP_BYTES)


def arrow_schema(frame: DataFrame) -> pa.Schema:
    """Arrow schema of a frame, as executors see it."""
    return arrow_schema_of(frame.schema)


def arrow_schema_of(schema: StructType) -> pa.Schema:
    """Arrow schema of a Spark schema, as executors see it."""
    return to_arrow_schema(schema, **_TIMEZONE)


def spark_schema(schema: pa.Schema) -> StructType:
    """Spark schema of an Arrow schema."""
    return from_arrow_schema(schema)
