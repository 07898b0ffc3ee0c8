"""Overwriting partitions by a frame, and dropping partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession

from rli import CommitResult, OnDuplicates, OnPartitionChange, Table
from rli.commit.step_clock import OnStep
from rli.table.table import opened_table
from rli.write.operations.drop_partitions import drop_partitions as write_drop
from rli.write.operations.overwrite import overwrite_partitions as write_overwrite
from rli.write.operations.replacing import Partitions
from rli.write.options import WriteOptions, pass_over
from rli_spark.engine import SparkEngine
from rli_spark.session.arguments import require_frame_and_table, require_session_and_table
from rli_spark.session.executors import require_reachable
from rli_spark.session.micro_batches import for_replays


def overwrite_partitions(  # noqa: PLR0913  (the choices of a write)
    df: DataFrame,
    table: Table,
    *,
    partitions: Partitions | None = None,
    on_partition_change: OnPartitionChange | str | None = None,
    on_duplicates: OnDuplicates | str = OnDuplicates.SKIP,
    attempts: int | None = None,
    transaction: tuple[str, int] | None = None,
    metadata: Mapping[str, str] | None = None,
    on_step: OnStep = pass_over,
) -> CommitResult:
    """Replace the partitions of a frame's records by these records, in one commit.

    As for ``upsert``, each task of the frame is computed once, however often the write is tried. Of several records with one
    key, one counts: ``upsert`` says which one.

    Args:
        df: the records, without deletes.
        table: the table; its index must be reachable from the executors.
        partitions: as for ``Table.overwrite_partitions``; "all" for the whole table.
        on_partition_change: as for ``Table.overwrite_partitions``.
        on_duplicates: as for ``Table.upsert``.
        attempts: as for ``Table.upsert``.
        transaction: as for ``upsert``. A repeat names the same partitions, too.
        metadata: as for ``Table.upsert``.
        on_step: as for ``upsert``.

    Raises:
        RliError: as for ``Table.overwrite_partitions``.
    """
    require_frame_and_table(df, table)
    options = WriteOptions.of(attempts, transaction, metadata, on_step, on_duplicates)
    engine, options = SparkEngine(df.sparkSession), for_replays(options, df.sparkSession)
    return opened_table(table).write_with(
        lambda definition, index: write_overwrite(
            definition,
            index,
            engine,
            df,
            options,
            partitions=partitions,
            on_partition_change=on_partition_change,
        )
    )


def drop_partitions(
    spark: SparkSession,
    table: Table,
    partitions: Sequence[str],
    *,
    missing_ok: bool = False,
    attempts: int | None = None,
    transaction: tuple[str, int] | None = None,
    metadata: Mapping[str, str] | None = None,
    on_step: OnStep = pass_over,
) -> CommitResult:
    """Remove all records of some partitions; tasks tell the index which keys are gone.

    Args:
        spark: the session.
        table: the table; its index must be reachable from the executors.
        partitions: as for ``Table.drop_partitions``.
        missing_ok: as for ``Table.drop_partitions``.
        attempts: as for ``Table.upsert``.
        transaction: as for ``Table.drop_partitions``.
        metadata: as for ``Table.upsert``.
        on_step: as for ``Table.upsert``.

    Raises:
        RliError: as for ``Table.drop_partitions``.
    """
    require_session_and_table(spark, table)
    require_reachable(spark, opened_table(table).refreshed()[1])
    options, engine = WriteOptions.of(attempts, transaction, metadata, on_step), SparkEngine(spark)
    return opened_table(table).write_with(
        lambda definition, index: write_drop(definition, index, engine, partitions, options, missing_ok=missing_ok)
    )
