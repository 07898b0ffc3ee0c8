"""What differs in a session of Spark Connect: it has no context, no RDDs, and no JVM to call."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  (the name that everybody knows)

_CONNECT: Final = "pyspark.sql.connect."
_IDS: Final = 4096


def is_connect(spark: SparkSession) -> bool:
    """Whether a session talks to a server, which may be on another machine."""
    return type(spark).__module__.startswith(_CONNECT)


def default_parallelism(spark: SparkSession) -> int:
    """How many tasks Spark runs at a time, or would by its settings."""
    return _asked_parallelism(spark) if is_connect(spark) else spark.sparkContext.defaultParallelism


@lru_cache(maxsize=8)
def _asked_parallelism(spark: SparkSession) -> int:
    # A range has as many partitions as the server's default says, which a client cannot read.
    return max(1, spark.range(_IDS).select(F.spark_partition_id()).distinct().count())


def rows_of(tables: Iterator[pa.Table]) -> Iterator[tuple[object, ...]]:
    """The rows of some tables."""
    for table in tables:
        yield from zip(*(column.to_pylist() for column in table.columns), strict=True)
