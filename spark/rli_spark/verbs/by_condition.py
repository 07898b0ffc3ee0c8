"""Deleting and updating the records that meet a condition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from rli import CommitResult, Table
from rli.commit.step_clock import OnStep
from rli.table.table import opened_table
from rli.write.operations.by_condition import delete_where as write_deletes
from rli.write.operations.by_condition import update_where as write_updates
from rli.write.options import WriteOptions, pass_over
from rli_spark.engine import SparkEngine
from rli_spark.session.arguments import require_session_and_table
from rli_spark.session.executors import require_reachable


def delete_where(
    spark: SparkSession,
    table: Table,
    where: Any,
    *,
    attempts: int | None = None,
    transaction: tuple[str, int] | None = None,
    metadata: Mapping[str, str] | None = None,
    on_step: OnStep = pass_over,
) -> CommitResult:
    """Remove the records that meet a condition; each file group is read and rewritten by a task.

    Args:
        spark: the session.
        table: the table; its index must be reachable from the executors.
        where: as for ``Table.delete_where``, with the same meaning.
        attempts: as for ``Table.upsert``.
        transaction: as for ``Table.delete_where``.
        metadata: as for ``Table.upsert``.
        on_step: as for ``Table.upsert``.

    Raises:
        RliError: as for ``Table.delete_where``.
    """
    require_session_and_table(spark, table)
    require_reachable(spark, opened_table(table).refreshed()[1])
    options, engine = WriteOptions.of(attempts, transaction, metadata, on_step), SparkEngine(spark)
    return opened_table(table).write_with(
        lambda definition, index: write_deletes(definition, index, engine, where, options)
    )


def update_where(
    spark: SparkSession,
    table: Table,
    where: Any,
    values: Mapping[str, str],
    *,
    attempts: int | None = None,
    transaction: tuple[str, int] | None = None,
    metadata: Mapping[str, str] | None = None,
    on_step: OnStep = pass_over,
) -> CommitResult:
    """Set columns of the records that meet a condition; each file group is read and rewritten by a task.

    Records whose partition column is set move as by an upsert: they are a frame, which Spark shares out.

    Args:
        spark: the session.
        table: the table; its index must be reachable from the executors.
        where: as for ``Table.update_where``, with the same meaning.
        values: column → expression, as for ``Table.update_where``.
        attempts: as for ``Table.upsert``.
        transaction: as for ``Table.update_where``.
        metadata: as for ``Table.upsert``.
        on_step: as for ``Table.upsert``.

    Raises:
        RliError: as for ``Table.update_where``.
    """
    require_session_and_table(spark, table)
    require_reachable(spark, opened_table(table).refreshed()[1])
    options, engine = WriteOptions.of(attempts, transaction, metadata, on_step), SparkEngine(spark)
    return opened_table(table).write_with(
        lambda definition, index: write_updates(definition, index, engine, where, values, options)
    )
