"""Reading what commits changed: the file slices before and after each commit are compared in tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from rli import ChangeImages, Table
from rli.reads.changes.table_changes import ChangeChoices, PlannedChanges
from rli.table.table import opened_table
from rli_spark.planning.resources import parallelism_of
from rli_spark.reads.filters import Condition, require_portable
from rli_spark.session.arguments import require_session_and_table
from rli_spark.session.batches import map_numbers, spark_schema


def changes(
    spark: SparkSession,
    table: Table,
    since: str | date | None = None,
    until: str | date | None = None,
    *,
    images: ChangeImages | str = ChangeImages.AFTER,
    columns: Sequence[str] | None = None,
    filters: str | Sequence[Condition | Sequence[Condition]] | None = None,
) -> DataFrame:
    """What the commits changed that completed after ``since``, up to ``until``, record by record.

    The rows are those of ``Table.changes``, in any order: sort by ``_completion_time``. The range is planned at once, on the
    driver; the files are read when the frame is computed, a task for a few file groups. The driver also finds the records that
    commits of other engines moved from one file group to another: it reads the keys of these commits.

    Args:
        spark: the session.
        table: the table.
        since: as for ``Table.changes``.
        until: as for ``Table.changes``. To go on from a position later, give both ends.
        images: as for ``Table.changes``.
        columns: as for ``Table.changes``.
        filters: as for ``read``.

    Raises:
        InvalidInputError: an argument is of the wrong kind, or ``filters`` a pyarrow expression.
        RliError: otherwise as for ``Table.changes``. Where others remove a file before the frame is computed, Spark's error names
            an ``InstantNotFoundError``.
    """
    require_session_and_table(spark, table)
    require_portable(filters)
    opened = opened_table(table)
    choices = ChangeChoices(opened.scope, images, columns, filters)
    planned = PlannedChanges.of(opened.reloaded(), since, until, choices)
    request, pieces = planned.request, planned.pieces()
    if not pieces:
        return spark.createDataFrame([], spark_schema(request.result_schema))

    def read(numbers: Iterator[int]) -> Iterator[pa.Table]:
        for number in numbers:
            yield from map(_as_table, pieces[number].rows(request))

    tasks = parallelism_of(spark).for_bytes(sum(piece.size for piece in pieces))
    return map_numbers(spark, len(pieces), read, request.result_schema, min(len(pieces), tasks))


def _as_table(batch: pa.RecordBatch) -> pa.Table:
    return pa.Table.from_batches([batch])
