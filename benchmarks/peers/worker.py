"""A process with one Spark and the engines that live on it; takes orders as JSON lines.

Each order names a table and a Parquet file or keys, and is answered with the seconds that it took, or what was found.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from benchmarks.peers.engines import KEY, PARTITION, Engine
from benchmarks.peers.products import PRODUCTS, Product
from benchmarks.sessions import spark_session
from tests.support.orders import serve
from tests.support.spark_packages import jar_of


class Worker:
    """The engines of one Spark.

    Args:
        spark: the session.
        folder: for the tables.
        product: the engines that it can make.
    """

    def __init__(self, spark: SparkSession, folder: Path, product: Product) -> None:
        self._spark = spark
        self._folder = folder
        self._product = product
        self._engines: dict[str, Engine] = {}

    def load(self, table: str, engine: str, options: dict[str, str], source: str) -> float:
        """Make a table of an engine; returns the seconds."""
        made = self._product.engines[engine](self._spark, self._folder / table, engine, options)
        self._engines[table] = made
        return self._timed(made.load, source)

    def upsert(self, table: str, source: str) -> tuple[float, float | None]:
        """The seconds, and those that tagging took of them, where that is known."""
        rows = self._spark.read.parquet(source)
        started = time.perf_counter()
        tagged_after = self._engines[table].upsert(rows)
        return time.perf_counter() - started, tagged_after

    def delete(self, table: str, source: str) -> float:
        return self._timed(self._engines[table].delete, source)

    def look_up(self, table: str, keys: list[str]) -> tuple[float, int]:
        started = time.perf_counter()
        found = self._engines[table].look_up(keys)
        return time.perf_counter() - started, found

    def drop(self, table: str) -> None:
        """Remove a table."""
        self._engines.pop(table).drop()

    def state(self, table: str) -> tuple[int, int, int]:
        """Rows, distinct keys, and the checksum of ``workload.State``."""
        checksum = sql.sum(sql.crc32(sql.concat_ws("|", KEY, PARTITION, "version")))
        row = self._engines[table].read().agg(sql.count("*"), sql.countDistinct(KEY), checksum).collect()[0]
        return int(row[0]), int(row[1]), int(row[2])

    def _timed(self, operation: Callable[[Any], None], source: str) -> float:
        rows = self._spark.read.parquet(source)
        started = time.perf_counter()
        operation(rows)
        return time.perf_counter() - started


def _start() -> Mapping[str, Callable[..., Any]]:
    name, folder, class_path, memory, master = sys.argv[1:]
    product = PRODUCTS[name]
    settings = {setting: value.format(folder=folder) for setting, value in product.settings.items()}
    if product.package and product.on_class_path:
        class_path = f"{class_path}:{jar_of(product.package)}"
    elif product.package:
        settings["spark.jars.packages"] = product.package
    settings["spark.driver.extraClassPath"] = class_path
    worker = Worker(spark_session(settings, memory, master), Path(folder), product)
    return {name: getattr(worker, name) for name in ("load", "upsert", "delete", "look_up", "drop", "state")}


if __name__ == "__main__":
    serve(_start)
