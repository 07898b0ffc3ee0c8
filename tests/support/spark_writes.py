"""Writes of frames with limits of their own, which users cannot choose."""

from __future__ import annotations

from pyspark.sql import DataFrame

import rli
from rli.table.table import opened_table
from rli.write.operations.delete import delete
from rli.write.operations.upsert import upsert
from rli.write.options import WriteOptions
from rli_spark.engine import SparkEngine
from rli_spark.planning.execution_plan import Limits


def upsert_within(limits: Limits, frame: DataFrame, table: rli.Table) -> rli.CommitResult:
    """As ``rli_spark.upsert``."""
    engine = SparkEngine(frame.sparkSession, limits=limits)
    return opened_table(table).write_with(
        lambda definition, index: upsert(definition, index, engine, frame, WriteOptions())
    )


def delete_within(limits: Limits, frame: DataFrame, table: rli.Table) -> rli.CommitResult:
    """As ``rli_spark.delete``."""
    engine = SparkEngine(frame.sparkSession, limits=limits)
    return opened_table(table).write_with(
        lambda definition, index: delete(definition, index, engine, frame, WriteOptions())
    )
