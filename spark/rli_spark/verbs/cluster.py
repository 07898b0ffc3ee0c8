"""Clustering a table with executors."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from rli import CommitResult, Table
from rli.commit.step_clock import OnStep
from rli.table.table import opened_table
from rli.write.options import pass_over
from rli_spark.session.arguments import require_session_and_table
from rli_spark.session.executors import require_reachable
from rli_spark.tasks import SparkTasks


def cluster(
    spark: SparkSession,
    table: Table,
    *,
    smaller_than: int | None = None,
    sort_by: Sequence[str] = (),
    attempts: int | None = None,
    on_step: OnStep = pass_over,
) -> CommitResult:
    """Rewrite small base files into fewer, some of a partition in each task; see ``Table.cluster``."""
    require_session_and_table(spark, table)
    require_reachable(spark, opened_table(table).refreshed()[1])
    return table.cluster(
        smaller_than=smaller_than, sort_by=sort_by, tasks=SparkTasks(spark), attempts=attempts, on_step=on_step
    )
