"""The Spark session of the benchmarks."""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

_SETTINGS = {
    "spark.driver.memory": "4g",
    "spark.driver.host": "localhost",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "UTC",
    "spark.log.level": "ERROR",
}


def spark_session() -> SparkSession:
    """A local session on two threads."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("rli benchmarks")
    for name, value in _SETTINGS.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
