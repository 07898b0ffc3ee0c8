"""Writing a micro-batch as one transaction of its query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from rli import InvalidInputError, Table
from rli.table.table import opened_table
from rli.write.engine.contract import Engine
from rli.write.operations.insert import insert as write_insert
from rli.write.operations.merge import MergeChoices
from rli.write.operations.merge import merge as write_merge
from rli.write.operations.upsert import upsert as write_upsert
from rli.write.options import WriteOptions, pass_over
from rli_spark.session.micro_batches import for_replays, query_of


class StreamMode(StrEnum):
    """What becomes of the records of a stream."""

    UPSERT = "upsert"
    INSERT = "insert"
    MERGE = "merge"


@dataclass(frozen=True, slots=True)
class StreamVerb:
    """What becomes of the records of a stream, and what the caller says of it.

    Attributes:
        mode: the verb.
        op: of a merge, the column of operations; None where other columns tell.
        when: of a merge, the condition on changes of stored records; None for all.
    """

    mode: StreamMode
    op: str | None = None
    when: str | None = None

    @property
    def write(self) -> Callable[..., Any]:
        """The operation that writes a micro-batch."""
        if self.mode is StreamMode.MERGE:
            return partial(write_merge, choices=MergeChoices(self.op, self.when))
        return write_upsert if self.mode is StreamMode.UPSERT else write_insert


def batch_writer(
    table: Table, verb: StreamVerb, engine_for: Callable[[SparkSession], Engine]
) -> Callable[[DataFrame, int], None]:
    """Writes a micro-batch as one transaction of its query."""

    def write_batch(batch: DataFrame, number: int) -> None:
        spark = batch.sparkSession
        query = query_of(spark)
        if query is None:
            raise InvalidInputError(
                "a micro-batch belongs to no query", remedy="start the writer that write_stream returns"
            )
        options = for_replays(WriteOptions.of(None, (query, number), None, pass_over), spark)
        engine = engine_for(spark)
        opened_table(table).write_with(lambda definition, index: verb.write(definition, index, engine, batch, options))

    return write_batch


def writer_of(df: DataFrame, write_batch: Callable[[DataFrame, int], None], checkpoint: str) -> DataStreamWriter:
    """Spark's writer of a stream, which gives each micro-batch and its number to a function."""
    return df.writeStream.foreachBatch(write_batch).option("checkpointLocation", checkpoint)
