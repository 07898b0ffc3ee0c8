"""Micro-batches of streams, which Spark names by their query and number, and replays after a failure."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from pyspark.sql import SparkSession

from rli.view.caller_metadata import ComparedBy
from rli.write.options import WriteOptions
from rli_spark.session.connect import is_connect

_QUERY_ID: Final = "sql.streaming.queryId"


def query_of(spark: SparkSession) -> str | None:
    """The id of the query whose micro-batch this thread writes; None elsewhere, and in Spark Connect, which does not tell."""
    return None if is_connect(spark) else spark.sparkContext.getLocalProperty(_QUERY_ID)


def for_replays(options: WriteOptions, spark: SparkSession) -> WriteOptions:
    """The options of a write; if its transaction is a micro-batch of its query, a repeat is compared by record keys alone.

    Spark replays a micro-batch with the same rows of its sources. What the query adds to them, such as the time or the columns
    of another table, may have changed by then, and the stream must go on.
    """
    transaction = options.caller.transaction
    if transaction is None or transaction.application_id != query_of(spark):
        return options
    return replace(options, repeats_by=ComparedBy.KEYS)
