"""Reading a table with Spark's own Parquet reader."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import reduce
from typing import Any, Final, TypeAlias

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (the name that everybody knows)
from pyspark.sql.types import StructType

from rli import Table
from rli.errors import InvalidInputError
from rli.write.engine import only_base_file, with_meta_columns
from rli_spark.batches import spark_schema
from rli_spark.hadoop_paths import hadoop_paths

Condition: TypeAlias = tuple[str, str, Any]

_OPERATORS: Final[dict[str, Callable[[Column, Any], Column]]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda column, values: column.isin(list(values)),
    "not in": lambda column, values: ~column.isin(list(values)),
}


def read(
    spark: SparkSession,
    table: Table,
    columns: Sequence[str] | None = None,
    filters: Sequence[Condition | Sequence[Condition]] | None = None,
    as_of: str | datetime | None = None,
) -> DataFrame:
    """The table's records, now or as of an instant, read at Spark's native speed from exactly the live files.

    Args:
        spark: the session.
        table: the table.
        columns: names; by default all but Hudi's meta columns, which can be named.
        filters: tuples (column, operator, value), all of which hold, or a list of such lists, of which one holds.
            Files whose partition path or column statistics show that no record passes are not opened by Spark.
            Filters that follow on the frame itself are pushed into the files by Spark.
        as_of: an instant of the timeline, or a time.

    Raises:
        InvalidInputError: ``columns`` or ``filters`` is a text.
        SchemaError: a column does not exist, or a filter does not fit.
        CorruptTableError: the timeline cannot be read, or a base file's footer.
    """
    snapshot = table.snapshot(as_of)
    if snapshot.schema is None:
        return spark.createDataFrame([], StructType())
    if isinstance(filters, str):
        raise InvalidInputError(
            f"in Spark a filter is not a text: filters={filters!r}; give tuples (column, op, value), or filter the frame: "
            "read(spark, table).where(…)"
        )
    full = with_meta_columns(snapshot.schema)
    scan = snapshot.scan(columns, filters)
    live = scan.matching_slices()
    if not live:
        frame = spark.createDataFrame([], spark_schema(full))
    else:
        paths = hadoop_paths(spark, table.definition.storage, (only_base_file(file_slice).path for file_slice in live))
        frame = spark.read.schema(spark_schema(full)).parquet(*paths)
    if filters is not None:
        frame = frame.where(_condition(filters))
    return frame.select(*(F.col(f"`{name}`") for name in scan.schema.names))


def _condition(filters: Sequence[Any]) -> Column:
    """The filter as a column; ``Snapshot.scan`` has checked its form."""
    alternatives = [filters] if isinstance(filters[0], tuple) else filters
    return reduce(operator.or_, (reduce(operator.and_, map(_comparison, all_of)) for all_of in alternatives))


def _comparison(condition: Condition) -> Column:
    name, symbol, value = condition
    return _OPERATORS[symbol](F.col(f"`{name}`"), value)
