"""What a session has for a write, as the numbers that a plan decides from."""

from __future__ import annotations

import os
import re
import sys
from functools import partial
from typing import Any, Final

from pyspark.sql import SparkSession

from rli import SettingsError
from rli.tasks import InThreads
from rli_spark.planning.execution_plan import Resources
from rli_spark.planning.parallelism import Parallelism
from rli_spark.session.connect import default_parallelism, is_connect

SMALL_WRITE_BYTES: Final = "spark.rli.smallWriteBytes"
"""Spark's setting for the size of rows that the driver writes; 0: tasks do all the work."""

_RESULT_SIZE: Final = "spark.driver.maxResultSize"
_DEPLOY_MODE: Final = "spark.submit.deployMode"
_IN_DRIVER: Final = "spark.kubernetes.submitInDriver"
_DRIVER_CORES: Final = "spark.driver.cores"
"""Of a driver that runs on the cluster, which gives it no more."""

_UNITS: Final = ("", "k", "m", "g", "t", "p")
_SIZE: Final = re.compile(f"(?P<number>[0-9]+)(?P<unit>[{''.join(_UNITS)}]?)b?")

_LOCAL: Final = re.compile(r"local(?:\[(?P<cores>\d+|\*)(?:,\s*\d+)?\])?")


def resources_of(spark: SparkSession) -> Resources:
    """What a session has; raises ``SettingsError`` if one of its settings is no size."""
    set_bytes = _set_bytes(spark)
    results = size_of_results(spark.conf.get(_RESULT_SIZE, None))
    threads = InThreads().threads
    if is_connect(spark):
        return Resources(results, set_bytes=set_bytes, driver_threads=threads)
    # On Kubernetes, a driver on the cluster is itself submitted as a client.
    if spark.conf.get(_DEPLOY_MODE, None) == "cluster" or spark.conf.get(_IN_DRIVER, None) == "true":
        threads = min(threads, cores_of_driver(spark.conf.get(_DRIVER_CORES, None)))
    return Resources(results, local_cores(str(spark.sparkContext.master)), _heap_bytes(spark), set_bytes, threads)


def parallelism_of(spark: SparkSession) -> Parallelism:
    """How many tasks of a session suit some work."""
    return Parallelism(partial(default_parallelism, spark))


def local_cores(master: str) -> int | None:
    """How many tasks of a local master run at a time; None if they run on other machines, or in other processes."""
    local = _LOCAL.fullmatch(master)
    if local is None:
        return None
    cores = local["cores"] or "1"
    return os.cpu_count() or sys.maxsize if cores == "*" else int(cores)


def cores_of_driver(value: str | None) -> int:
    """The cores of a driver that runs on the cluster, by its setting; raises ``SettingsError`` if that is no number of cores."""
    given = (value or "1").strip()
    if not given.isdecimal() or not int(given):
        raise SettingsError(f"not a number of cores: {_DRIVER_CORES}={given}", remedy="set it to 1 or more")
    return int(given)


def size_of_results(value: str | None) -> int:
    """The greatest size in bytes of the results of a job, by its setting; raises ``SettingsError`` if that is no size."""
    # A client of Spark Connect has no JVM that would read it.
    given = value or "1g"
    size = _SIZE.fullmatch(given.strip().lower())
    if size is None:
        raise SettingsError(
            f"not a size: {_RESULT_SIZE}={given}", remedy="set it to a number of bytes, or to one such as 2g"
        )
    # With 0, Spark sets no limit.
    return int(size["number"]) * 1024 ** _UNITS.index(size["unit"]) or sys.maxsize


def _set_bytes(spark: SparkSession) -> int | None:
    value = spark.conf.get(SMALL_WRITE_BYTES, None)
    if value is None:
        return None
    if not value.isdecimal():
        raise SettingsError(f"not a number of bytes: {SMALL_WRITE_BYTES}={value}", remedy="set it to 0 or more")
    return int(value)


def _heap_bytes(spark: SparkSession) -> int:
    """The greatest size of the driver's heap."""
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001  (Python has no name for it)
    return int(jvm.java.lang.Runtime.getRuntime().maxMemory())
