"""The values of a frame's column, by which records are read: those that a secondary index can be asked for."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (the name that everybody knows)
from pyspark.sql.types import IntegralType, StringType

from rli.errors import InvalidInputError, SchemaError
from rli.filters.filter import WithValues

_MOST_VALUES: Final = 10_000
"""That come to the driver; more of them are joined with all records."""


def distinct_values(frame: DataFrame | None, column: str) -> DataFrame:
    """The distinct values of a column, without null, in a frame of that column alone.

    Raises:
        InvalidInputError: this is no frame.
        SchemaError: the frame has no such column.
    """
    if frame is None or not hasattr(frame, "mapInArrow"):
        raise InvalidInputError(
            f"the keys are no Spark frame: type={type(frame).__name__}", remedy="call spark.createDataFrame"
        )
    if frame.columns.count(column) != 1:
        raise SchemaError(f"the frame of keys has no such column: on={column} found={frame.columns}", remedy="name one")
    return frame.select(F.col(f"`{column}`")).where(F.col(f"`{column}`").isNotNull()).distinct()


def narrowed(values: DataFrame, kind: pa.DataType, filters: object) -> object:
    """A filter that no record with one of some values fails, for choosing files.

    Args:
        values: as ``distinct_values`` gives them.
        kind: the type of the column in the table.
        filters: of the caller.
    """
    [field] = values.schema.fields
    is_string = pa.types.is_string(kind) and isinstance(field.dataType, StringType)
    is_integer = pa.types.is_integer(kind) and isinstance(field.dataType, IntegralType)
    if not (is_string or is_integer):
        return filters
    few: list[Any] = [row[0] for row in values.limit(_MOST_VALUES + 1).collect()]
    if len(few) > _MOST_VALUES:
        return filters
    # A value that the column cannot hold is in no record.
    fitting = (
        few if is_string else [value for value in few if -(1 << kind.bit_width - 1) <= value < 1 << kind.bit_width - 1]
    )
    return WithValues({field.name: fitting}, filters)
