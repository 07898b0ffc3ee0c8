"""What differs in a session of Spark Connect: it has no context, no RDDs, and no JVM to call."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  (the name that everybody knows)

_CONNECT: Final = "pyspark.sql.connect."
_ADAPTIVE: Final = "spark.sql.adaptive.enabled"
_IDS: Final = 4096


def is_connect(spark: SparkSession) -> bool:
    """Whether a session talks to a server, which may be on another machine."""
    return type(spark).__module__.startswith(_CONNECT)


def default_parallelism(spark: SparkSession) -> int:
    """How many tasks Spark runs at a time, or would by its settings."""
    return _asked_parallelism(spark) if is_connect(spark) else spark.sparkContext.defaultParallelism


def undivided(spark: SparkSession) -> SparkSession:
    """A session of the same application in which each action is one job, for frames that Spark need not plan.

    With adaptive execution, Spark runs each shuffle and each frame to keep as a job of its own, to plan what follows by
    their sizes. Work in row batches is planned by the driver.
    """
    if is_connect(spark) or spark.conf.get(_ADAPTIVE) == "false":
        return spark
    return _undivided(spark)


@lru_cache(maxsize=8)
def _undivided(spark: SparkSession) -> SparkSession:
    session = spark.newSession()
    session.conf.set(_ADAPTIVE, "false")
    return session


@lru_cache(maxsize=8)
def _asked_parallelism(spark: SparkSession) -> int:
    # A range has as many partitions as the server's default says, which a client cannot read.
    return max(1, spark.range(_IDS).select(F.spark_partition_id()).distinct().count())


def rows_of(tables: Iterator[pa.Table]) -> Iterator[tuple[object, ...]]:
    """The rows of some tables."""
    for table in tables:
        yield from zip(*(column.to_pylist() for column in table.columns), strict=True)
