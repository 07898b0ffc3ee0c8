"""A process that runs Apache Hudi of one version on Spark and takes orders.

Rows travel as Parquet files, whose paths are in the orders.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.support.orders import serve
from tests.support.spark import spark_session


@contextmanager
def _with_settings(spark: SparkSession, settings: dict[str, str]) -> Iterator[None]:
    before = {name: spark.conf.get(name, None) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, former in before.items():
            if former is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, former)


def _read(
    spark: SparkSession,
    *,
    path: str,
    output: str,
    options: dict[str, str],
    where: str | None,
    settings: dict[str, str],
) -> None:
    with _with_settings(spark, settings):
        frame = spark.read.format("hudi").options(**options).load(path)
        if where is not None:
            frame = frame.where(where)
        frame.coalesce(1).write.mode("overwrite").parquet(output)


def _write(spark: SparkSession, *, path: str, source: str, options: dict[str, str], mode: str) -> None:
    spark.read.parquet(source).write.format("hudi").options(**options).mode(mode).save(path)


def _sql(spark: SparkSession, *, statement: str, settings: dict[str, str]) -> list[list[Any]]:
    with _with_settings(spark, settings):
        return [[str(value) for value in row] for row in spark.sql(statement).collect()]


def _roll_back(spark: SparkSession, *, path: str, instant: str, options: dict[str, str]) -> bool:
    """As Hudi's streaming jobs do; the procedure of Hudi 1.2 for it reads no timeline of version 6."""
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001
    given = jvm.java.util.HashMap()
    for name, value in options.items():
        given.put(name, value)
    settings = jvm.org.apache.hudi.config.HoodieWriteConfig.newBuilder().withPath(path).withProps(given).build()
    context = jvm.org.apache.hudi.client.common.HoodieSparkEngineContext(spark.sparkContext._jsc)  # noqa: SLF001
    client = jvm.org.apache.hudi.client.SparkRDDWriteClient(context, settings)
    try:
        return bool(client.rollback(instant))
    finally:
        client.close()


def _start() -> Mapping[str, Callable[..., Any]]:
    version, *class_path = sys.argv[1:]
    spark = spark_session(version, *map(Path, class_path))
    orders: Mapping[str, Callable[..., Any]] = {"read": _read, "write": _write, "sql": _sql, "roll_back": _roll_back}
    return {name: partial(order, spark) for name, order in orders.items()}


if __name__ == "__main__":
    serve(_start)
