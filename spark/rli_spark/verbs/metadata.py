"""Building Hudi's metadata table with executors."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from rli import MetadataChange, Table
from rli_spark.session.arguments import require_session_and_table
from rli_spark.tasks import SparkTasks


def enable_metadata(
    spark: SparkSession,
    table: Table,
    partitions: Sequence[str] | None = None,
    *,
    columns: Sequence[str] | None = None,
    timeout: float | None = None,
) -> MetadataChange:
    """Build partitions of the metadata table, beside writers; see ``table.metadata.enable``.

    Executors read the footers and record keys of the table, up to 64 MiB of files in each task, and merge log files. They leave what they
    read in files of the table's folder, which go at the end. The driver sorts it, in bounded memory, and writes the partitions.

    Example:
        >>> enable_metadata(spark, table, ["files", "record_index"]).added  # doctest: +SKIP
        ('files', 'record_index')
    """
    require_session_and_table(spark, table)
    return table.metadata.enable(partitions, columns=columns, timeout=timeout, tasks=SparkTasks(spark))
