"""Small frames: their rows come to the driver from Spark's own tasks, as Arrow and past all Python workers.

Spark's statistics tell beforehand that a frame is small, without a job. They are estimates, so each task gives a bounded
number of rows. A frame that turns out to have more is left to workers, and no row that came counts.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame

from rli_spark.batches import arrow_schema
from rli_spark.connect import is_connect

_GROWTH: Final = 2
"""Times as many bytes as Spark expects, at least: it takes rows for as large as their compressed files."""

_LEAST_ROW_BYTES: Final = 64
"""Of most records with their key and partition path, in memory."""

_FIRST_ROWS: Final = "(monotonically_increasing_id() & 8589934591) < {count}"
"""Each task's rows have numbers of their own, in the lower 33 bits."""


def rows_of_small(frame: DataFrame, most: int) -> pa.Table | None:
    """The rows of a frame, by one job; None if it is not small, or nobody knows.

    Args:
        frame: the input.
        most: about how many bytes of rows may come to the driver.
    """
    if not most or is_connect(frame.sparkSession):
        return None
    # Files of rows that compress well are small, and the rows may still be more than the driver's heap holds.
    count = most // max(_LEAST_ROW_BYTES, frame._jdf.schema().defaultSize())  # noqa: SLF001  (Python has no name for it)
    first = frame.where(_FIRST_ROWS.format(count=count))
    if _expected_bytes(first) * _GROWTH > most:
        return None
    batches = first._collect_as_arrow()  # noqa: SLF001  (``toArrow`` begins with PySpark 4)
    rows = pa.Table.from_batches(batches) if batches else arrow_schema(frame).empty_table()
    return rows if rows.num_rows < count else None


def _expected_bytes(frame: DataFrame) -> int:
    """By the statistics of its plan; those of sources without any are huge."""
    plan = frame._jdf.queryExecution().optimizedPlan()  # noqa: SLF001  (Python has no name for it)
    return int(str(plan.stats().sizeInBytes()))
