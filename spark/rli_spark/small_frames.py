"""Small frames: their rows come to the driver from Spark's own tasks, as Arrow and past all Python workers.

Spark's statistics tell beforehand that a frame is small, without a job. They are estimates, so each task gives a bounded
number of rows. A frame that turns out to have more is left to workers, and no row that came counts.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.functions import monotonically_increasing_id

from rli.write.engine import work_rows
from rli_spark.batches import arrow_schema
from rli_spark.connect import is_connect

_GROWTH: Final = 2
"""Times as many bytes as Spark expects, at least: it takes rows for as large as their compressed files."""

_LEAST_ROW_BYTES: Final = 64
"""Of most records with their key and partition path, in memory."""

_NUMBER: Final = f"{work_rows.PREFIX}row_number"
"""Column: numbers the rows of each task in the lower 33 bits, and the tasks in those above."""

_TASK_BITS: Final = 33
_ROW_MASK: Final = (1 << _TASK_BITS) - 1


def rows_of_small(frame: DataFrame, most: int, each: int) -> pa.Table | None:
    """The rows of a frame, by one job; None if it is not small, or nobody knows.

    Args:
        frame: the input.
        most: about how many bytes of rows may come to the driver. Of a harmonic series each task takes its part, so that it need
            not know how many tasks there are.
        each: how many of a single task may come in any case.
    """
    if not most or is_connect(frame.sparkSession):
        return None
    # Files of rows that compress well are small, and the rows may still be more than the driver's heap holds.
    row_bytes = max(_LEAST_ROW_BYTES, frame._jdf.schema().defaultSize())  # noqa: SLF001  (Python has no name for it)
    total, least = most // row_bytes, min(most, each) // row_bytes
    last = f"greatest({least}, {total} div (shiftright({_NUMBER}, {_TASK_BITS}) + 1))"
    numbered = frame.withColumn(_NUMBER, monotonically_increasing_id())
    # One row more shows that a task has more than may come.
    first = numbered.where(f"({_NUMBER} & {_ROW_MASK}) <= {last}")
    if _expected_bytes(first) * _GROWTH > most:
        return None
    batches = first._collect_as_arrow()  # noqa: SLF001  (``toArrow`` begins with PySpark 4)
    if not batches:
        return arrow_schema(frame).empty_table()
    rows = pa.Table.from_batches(batches)
    numbers = rows.column(_NUMBER).to_numpy()
    allowed = np.maximum(least, total // ((numbers >> _TASK_BITS) + 1))
    return None if ((numbers & _ROW_MASK) >= allowed).any() else rows.drop_columns(_NUMBER)


def _expected_bytes(frame: DataFrame) -> int:
    """By the statistics of its plan; those of sources without any are huge."""
    plan = frame._jdf.queryExecution().optimizedPlan()  # noqa: SLF001  (Python has no name for it)
    return int(str(plan.stats().sizeInBytes()))
