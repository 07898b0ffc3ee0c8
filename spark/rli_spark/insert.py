"""Inserting a frame."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame

from rli import CommitResult, OnExisting, Table
from rli.write.engine import OnStep, WriteOptions, pass_over
from rli.write.engine import insert as write_insert
from rli_spark.arguments import require_frame_and_table
from rli_spark.engine import SparkEngine


def insert(
    df: DataFrame,
    table: Table,
    *,
    on_existing: OnExisting | str = OnExisting.SKIP,
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
        attempts: as for ``Table.upsert``.
        transaction: as for ``Table.upsert``.
        metadata: as for ``Table.upsert``.
        on_step: as for ``upsert``.

    Raises:
        RliError: as for ``Table.insert``.
    """
    require_frame_and_table(df, table)
    engine, options = SparkEngine(df.sparkSession), WriteOptions.of(attempts, transaction, metadata, on_step)
    return table.write_with(
        lambda definition, index: write_insert(
            definition,
            index,
            engine,
            df,
            options,
            on_existing=on_existing,
        )
    )
