"""Upserting a frame."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame

from rli import CommitResult, MissingColumns, OnDuplicates, OnPartitionChange, Table
from rli.commit.step_clock import OnStep
from rli.table.table import opened_table
from rli.write.operations.upsert import upsert as write_upsert
from rli.write.options import WriteOptions, pass_over
from rli_spark.engine import SparkEngine
from rli_spark.session.arguments import require_frame_and_table
from rli_spark.session.micro_batches import for_replays


def upsert(  # noqa: PLR0913  (the choices are named)
    df: DataFrame,
    table: Table,
    *,
    on_partition_change: OnPartitionChange | str | None = None,
    missing: MissingColumns | str = MissingColumns.FAIL,
    on_duplicates: OnDuplicates | str = OnDuplicates.SKIP,
    attempts: int | None = None,
    transaction: tuple[str, int] | None = None,
    metadata: Mapping[str, str] | None = None,
    on_step: OnStep = pass_over,
) -> CommitResult:
    """Insert records with new keys, update those with known keys, move those whose partition changed.

    Of several records with one key the one with the greatest ordering value counts. Among equals one is chosen by
    its content, always the same one, because rows of a frame have no order.

    Each task of the frame is computed once, and its records are kept until the write has ended: in the table's work folder,
    or those of a small write in the driver. (A frame with many more rows, or much wider ones, than Spark's statistics say is
    computed again before anything is written.) So neither a lost executor nor a further attempt changes what is written,
    whatever the frame would give by then. (Shuffles inside the frame are Spark's: it repeats their tasks as it does in any job.)
    Only if the table is given another index during the write, the write begins again with the frame.

    Args:
        df: the records.
        table: the table; its index must be reachable from the executors.
        on_partition_change: "move", "keep" or "fail"; by default what the table's settings say.
        missing: as for ``Table.upsert``.
        on_duplicates: as for ``Table.upsert``.
        attempts: as for ``Table.upsert``.
        transaction: as for ``Table.upsert``. A repeat computes the frame, to compare its rows with those that were committed: a
            frame that gives other rows by then is refused. Of a micro-batch whose transaction is its query's id and its number,
            record keys alone are compared, because Spark may compute the other values again.
        metadata: as for ``Table.upsert``.
        on_step: called on the driver after each step of the write; each attempt begins with the first step again.

    Raises:
        RliError: as for ``Table.upsert``.
    """
    require_frame_and_table(df, table)
    options = WriteOptions.of(attempts, transaction, metadata, on_step, on_duplicates)
    engine, options = SparkEngine(df.sparkSession), for_replays(options, df.sparkSession)
    return opened_table(table).write_with(
        lambda definition, index: write_upsert(
            definition,
            index,
            engine,
            df,
            options,
            on_partition_change=on_partition_change,
            missing=missing,
        )
    )
