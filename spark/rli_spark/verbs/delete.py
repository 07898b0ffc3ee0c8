"""Deleting by key alone."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame

from rli import CommitResult, SchemaError, Table
from rli.commit.step_clock import OnStep
from rli.table.table import opened_table
from rli.write.operations.delete import delete as write_deletes
from rli.write.options import WriteOptions, pass_over
from rli_spark.engine import SparkEngine
from rli_spark.session.arguments import require_frame_and_table
from rli_spark.session.micro_batches import for_replays


def delete(
    df: DataFrame,
    table: Table,
    *,
    ordering: str | None = None,
    attempts: int | None = None,
    transaction: tuple[str, int] | None = None,
    metadata: Mapping[str, str] | None = None,
    on_step: OnStep = pass_over,
) -> CommitResult:
    """Remove records by their keys; keys that the table does not hold are counted as unchanged.

    With ordering values, a delete that is older than the stored record changes nothing, and the key keeps the value: see
    ``Table.delete``.

    As for ``upsert``, each task of the frame is computed once, however often the write is tried.

    Args:
        df: has the table's record-key columns, or the column ``_hoodie_record_key`` with whole record keys; other
            columns do not matter.
        table: the table.
        ordering: the column of ordering values; by default the table's ordering column, if the frame has it. Leave it out to
            delete whatever is stored.
        attempts: as for ``Table.upsert``.
        transaction: as for ``upsert``.
        metadata: as for ``Table.upsert``.
        on_step: as for ``upsert``.

    Raises:
        RliError: as for ``Table.delete``.
    """
    require_frame_and_table(df, table)
    field = opened_table(table).definition.properties.ordering_field
    column = field if ordering is None and field in df.columns else ordering
    if column is not None and column not in df.columns:
        raise SchemaError(
            f"the ordering column is missing: column={column} found={df.columns}", remedy="name a column of the frame"
        )
    options = WriteOptions.of(attempts, transaction, metadata, on_step)
    engine, options = SparkEngine(df.sparkSession), for_replays(options, df.sparkSession)
    return opened_table(table).write_with(
        lambda definition, index: write_deletes(
            definition,
            index,
            engine,
            df,
            options,
            column,
        )
    )
