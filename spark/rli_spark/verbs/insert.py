"""Inserting a frame."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame

from rli import CommitResult, OnDuplicates, OnExisting, Table
from rli.commit.step_clock import OnStep
from rli.table.table import opened_table
from rli.write.operations.insert import insert as write_insert
from rli.write.options import WriteOptions, pass_over
from rli_spark.engine import SparkEngine
from rli_spark.session.arguments import require_frame_and_table
from rli_spark.session.micro_batches import for_replays


def insert(
    df: DataFrame,
    table: Table,
    *,
    on_existing: OnExisting | str = OnExisting.SKIP,
    on_duplicates: OnDuplicates | str = OnDuplicates.SKIP,
    attempts: int | None = None,
    transaction: tuple[str, int] | None = None,
    metadata: Mapping[str, str] | None = None,
    on_step: OnStep = pass_over,
) -> CommitResult:
    """Insert the records whose keys are new to the whole table; those of known keys touch no file.

    Rows of a frame have no order. So of several records with one key the one with the least ordering value is
    inserted. Among equals, and in a table without ``ordering``, one is chosen by its content, always the same one.

    Args:
        df: the records.
        table: the table; its index must be reachable from the executors.
        on_existing: as for ``Table.insert``.
        on_duplicates: as for ``Table.upsert``.
        attempts: as for ``Table.upsert``.
        transaction: as for ``upsert``.
        metadata: as for ``Table.upsert``.
        on_step: as for ``upsert``.

    Raises:
        RliError: as for ``Table.insert``.
    """
    require_frame_and_table(df, table)
    options = WriteOptions.of(attempts, transaction, metadata, on_step, on_duplicates)
    engine, options = SparkEngine(df.sparkSession), for_replays(options, df.sparkSession)
    return opened_table(table).write_with(
        lambda definition, index: write_insert(
            definition,
            index,
            engine,
            df,
            options,
            on_existing=on_existing,
        )
    )
