"""Compacting a merge-on-read table with executors."""

from __future__ import annotations

from pyspark.sql import SparkSession

from rli import CompactionResult, Table
from rli.commit.step_clock import OnStep
from rli.table.table import opened_table
from rli.write.options import pass_over
from rli_spark.session.arguments import require_session_and_table
from rli_spark.session.executors import require_reachable
from rli_spark.tasks import SparkTasks


def compact(
    spark: SparkSession,
    table: Table,
    *,
    least_share: float = 0.0,
    most_bytes: int | None = None,
    take_over: bool = False,
    attempts: int | None = None,
    on_step: OnStep = pass_over,
) -> CompactionResult:
    """Merge log files into new base files, a file group in each task; see ``Table.compact``."""
    require_session_and_table(spark, table)
    require_reachable(spark, opened_table(table).refreshed()[1])
    return table.compact(
        least_share=least_share,
        most_bytes=most_bytes,
        take_over=take_over,
        tasks=SparkTasks(spark),
        attempts=attempts,
        on_step=on_step,
    )
