"""Small frames: their rows come to the driver from Spark's own tasks, as Arrow and without Python workers.

Spark's statistics tell that a frame is small, without a job. The statistics are estimates, so each task gives a bounded number
of rows, and omits the content of rows that are wider than expected. If a frame turns out to be larger, the driver drops the rows
that came, and Python workers compute the frame again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  (the name that everybody knows)
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StringType, StructType

from rli.file_group import work_rows
from rli_spark.planning.execution_plan import ExecutionPlan
from rli_spark.session.batches import arrow_schema
from rli_spark.session.connect import is_connect

_LEAST_ROW_BYTES: Final = 64
"""Of most records with their key and partition path, in memory."""

_NUMBER: Final = f"{work_rows.PREFIX}row_number"
"""Column: numbers the rows of each task in the lower 33 bits, and the tasks in those above; less than 0 where a row came without
its content."""

_ITEM_BYTES: Final = 8
"""Of each item of an array beside its text."""

_TASK_BITS: Final = 33
_ROW_MASK: Final = (1 << _TASK_BITS) - 1


def rows_of_small(frame: DataFrame, execution: ExecutionPlan) -> pa.Table | None:
    """The rows of a frame, by one job; None if it is not small, or nobody knows.

    Task n may give an n-th of ``collected_bytes``, so that a task need not know how many tasks there are, and in any case
    ``brought_bytes``.

    Args:
        frame: the input.
        execution: decides how many bytes of rows may come.
    """
    most, each = execution.collected_bytes, execution.brought_bytes
    if not most or is_connect(frame.sparkSession):
        return None
    # Spark ignores the case of names. With two columns of one name, a reference to a column is ambiguous.
    names = {name.casefold() for name in frame.columns}
    if _NUMBER in names or len(names) < len(frame.columns):
        return None
    # Small files may hold rows that compress well, and decompressed rows may exceed the driver's heap.
    row_bytes = max(_LEAST_ROW_BYTES, frame._jdf.schema().defaultSize())  # noqa: SLF001  (Python has no name for it)
    total, least = most // row_bytes, min(most, each) // row_bytes
    last = f"greatest({least}, {total} div (shiftright({_NUMBER}, {_TASK_BITS}) + 1))"
    numbered = frame.withColumn(_NUMBER, F.monotonically_increasing_id())
    # One additional row shows that a task has too many rows.
    first = numbered.where(f"({_NUMBER} & {_ROW_MASK}) <= {last}")
    if not execution.collects(_expected_bytes(first)):
        return None
    narrow = _without_wide_rows(first, F.expr(last) * row_bytes)
    batches = narrow._collect_as_arrow()  # noqa: SLF001  (``toArrow`` begins with PySpark 4)
    if not batches:
        return arrow_schema(frame).empty_table()
    rows = pa.Table.from_batches(batches)
    numbers = rows.column(_NUMBER).to_numpy()
    if (numbers < 0).any():
        return None
    allowed = np.maximum(least, total // ((numbers >> _TASK_BITS) + 1))
    return None if ((numbers & _ROW_MASK) >= allowed).any() else rows.drop_columns(_NUMBER)


def _without_wide_rows(numbered: DataFrame, most: Column) -> DataFrame:
    """The rows, emptied where one is too wide: if all rows of its task up to it were as wide, they would exceed ``most``.

    Args:
        numbered: the rows.
        most: bytes that may come of a task.
    """
    widths = {field.name: _width(_column(field.name), field.dataType) for field in numbered.schema}
    total = _total(widths.values())
    if total is None:
        return numbered
    so_far = (F.col(_NUMBER).bitwiseAND(_ROW_MASK) + 1) * total.cast("double")
    is_narrow = so_far <= most
    content = [
        _column(name) if width is None else F.when(is_narrow, _column(name)).alias(name)
        for name, width in widths.items()
        if name != _NUMBER
    ]
    return numbered.select(*content, F.when(is_narrow, F.col(_NUMBER)).otherwise(F.lit(-1)).alias(_NUMBER))


def _column(name: str) -> Column:
    return F.col(f"`{name.replace('`', '``')}`")


def _width(value: Column, kind: DataType) -> Column | None:
    """About how many bytes a value has; None for types whose values all have the same number."""
    match kind:
        case StringType() | BinaryType():
            return F.octet_length(value).cast("long")
        case StructType():
            return _total(_width(value.getField(field.name), field.dataType) for field in kind)
        case MapType():
            return _width_of_items(F.map_keys(value), kind.keyType) + _width_of_items(
                F.map_values(value), kind.valueType
            )
        case ArrayType():
            return _width_of_items(value, kind.elementType)
        case _:
            return None


def _total(widths: Iterable[Column | None]) -> Column | None:
    """The sum of the widths that vary; None if none does."""
    known = [F.coalesce(width, F.lit(0)) for width in widths if width is not None]
    return sum(known[1:], known[0]) if known else None


def _width_of_items(array: Column, kind: DataType) -> Column:
    """About how many bytes an array has, whose items are of some type."""

    def added(width: Column, item: Column) -> Column:
        part = _width(item, kind)
        return width if part is None else width + F.coalesce(part, F.lit(0))

    return F.aggregate(array, F.size(array).cast("long") * _ITEM_BYTES, added)


def _expected_bytes(frame: DataFrame) -> int:
    """The size of a frame by the statistics of its plan; huge for sources without statistics."""
    plan = frame._jdf.queryExecution().optimizedPlan()  # noqa: SLF001  (Python has no name for it)
    return int(str(plan.stats().sizeInBytes()))
