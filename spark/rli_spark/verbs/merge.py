"""Merging a frame of changes."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame

from rli import CommitResult, MissingColumns, OnDuplicates, OnPartitionChange, Table
from rli.commit.step_clock import OnStep
from rli.table.table import opened_table
from rli.write.operations.merge import MergeChoices
from rli.write.operations.merge import merge as write_merge
from rli.write.options import WriteOptions, pass_over
from rli_spark.engine import SparkEngine
from rli_spark.session.arguments import require_frame_and_table
from rli_spark.session.micro_batches import for_replays


def merge(  # noqa: PLR0913  (the choices are named)
    df: DataFrame,
    table: Table,
    op: str | None = None,
    when: str | None = None,
    *,
    on_partition_change: OnPartitionChange | str | None = None,
    missing: MissingColumns | str = MissingColumns.FAIL,
    on_duplicates: OnDuplicates | str = OnDuplicates.SKIP,
    attempts: int | None = None,
    transaction: tuple[str, int] | None = None,
    metadata: Mapping[str, str] | None = None,
    on_step: OnStep = pass_over,
) -> CommitResult:
    """Insert, update, move and delete records by a frame of changes, in one commit.

    Of several changes of one key the one with the greatest ordering value counts. Rows of a frame have no order, so among
    equals a delete counts; of several others one is chosen by its content, always the same one.

    As for ``upsert``, each task of the frame is computed once, however often the write is tried.

    Args:
        df: the changes, in a form that ``Table.merge`` takes.
        table: the table; its index must be reachable from the executors.
        op: as for ``Table.merge``.
        when: as for ``Table.merge``.
        on_partition_change: as for ``Table.upsert``.
        missing: as for ``Table.merge``.
        on_duplicates: as for ``Table.upsert``.
        attempts: as for ``Table.upsert``.
        transaction: as for ``upsert``.
        metadata: as for ``Table.upsert``.
        on_step: as for ``upsert``.

    Raises:
        RliError: as for ``Table.merge``.
    """
    require_frame_and_table(df, table)
    options = WriteOptions.of(attempts, transaction, metadata, on_step, on_duplicates)
    engine, options = SparkEngine(df.sparkSession), for_replays(options, df.sparkSession)
    choices = MergeChoices(op, when, on_partition_change, missing)
    return opened_table(table).write_with(
        lambda definition, index: write_merge(definition, index, engine, df, options, choices=choices)
    )
