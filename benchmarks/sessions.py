"""The Spark session of the benchmarks."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from pyspark.sql import SparkSession

_SETTINGS: Final = {
    "spark.python.daemon.module": "rli_spark.daemon",
    "spark.driver.host": "localhost",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    # As rli compresses its base files.
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.session.timeZone": "UTC",
    "spark.log.level": "ERROR",
}
_ON_CLUSTER: Final = {"spark.executor.memory": "2g", "spark.executor.cores": "1", "spark.cores.max": "2"}
"""An application has an executor of one core on each of two workers, and leaves others to the next one."""

_NONE: Final[Mapping[str, str]] = MappingProxyType({})


LOCAL: Final = "local[2]"
"""A session without executors, on two threads."""


def spark_session(settings: Mapping[str, str] = _NONE, memory: str = "4g", master: str = LOCAL) -> SparkSession:
    """A session of two threads, or of a cluster.

    Args:
        settings: on top of those of all benchmarks.
        memory: heap of its JVM.
        master: where its tasks run.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(master).appName("rli benchmarks")
    of_executors = {} if master == LOCAL else _ON_CLUSTER
    for name, value in {**_SETTINGS, **of_executors, "spark.driver.memory": memory, **settings}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
