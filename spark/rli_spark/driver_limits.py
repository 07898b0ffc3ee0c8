"""How much of a write the driver does itself, because the jobs of Spark would take longer than their work.

On a cluster, the driver does small writes itself. With a local master, tasks run on the driver's machine, so moving rows to tasks
gains nothing.
"""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final, Self

from pyspark.sql import SparkSession

from rli import SettingsError
from rli_spark.session.connect import default_parallelism, is_connect

SMALL_WRITE_BYTES: Final = "spark.rli.smallWriteBytes"
"""Spark's setting for the size of rows that the driver writes; 0: tasks do all the work."""

_BROUGHT_BYTES: Final = 16 * 1024 * 1024
"""Of rows that come to the driver with the results of a job, which its heap holds."""

_COLLECTED_BYTES: Final = 64 * 1024 * 1024
"""Of rows that come to the driver of a local master as Arrow, from Spark's own tasks, without Python workers. The driver's heap,
1 GiB by default, holds these rows for a moment."""

_HEAPS_OF_ROWS: Final = 4
"""On a local master the driver reads rows of up to a quarter of its heap. Python holds these rows outside of the heap, so the heap
tells the memory of the machine only roughly."""

_HEAPS_COLLECTED: Final = 12
"""For a moment, Spark's heap holds several copies of the rows that come as Arrow."""

_RESULT_SIZE: Final = "spark.driver.maxResultSize"
_UNITS: Final = ("", "k", "m", "g", "t", "p")
_SIZE: Final = re.compile(f"(?P<number>[0-9]+)(?P<unit>[{''.join(_UNITS)}]?)b?")

_RESULTS_OF_JOB: Final = 8
"""A part of ``spark.driver.maxResultSize``: with any master, Spark fails a job whose results exceed it."""

_MOST_READ_BYTES: Final = 1024 * 1024 * 1024
"""Whatever the heap: Python takes about five times as much, and Arrow puts at most 2 GiB of text into an array."""

_LOCAL: Final = re.compile(r"local(?:\[(?P<cores>\d+|\*)(?:,\s*\d+)?\])?")
_LOCAL_CORES: Final = 8
"""Up to which the threads of the driver are as fast as tasks: they wait for Python's lock about a tenth of the time that they
work."""

_REWRITTEN_BYTES: Final = 64 * 1024 * 1024
"""Of base files that the driver of a cluster rewrites: about a task's share."""

_FILE_GROUPS: Final = 250
"""The driver writes about so many small ones in the time that the jobs of Spark take beside the work of their tasks."""

_TASKS_LIKE_DRIVER: Final = 2
"""So many tasks at a time write small file groups about as fast as the driver does."""


@dataclass(frozen=True, slots=True)
class DriverLimits:
    """Up to what the driver tags and writes the rows of a request.

    Attributes:
        spark: the session.
        brought_bytes: of rows that come to the driver with the results of the request's job.
        collected_bytes: of a frame whose rows come as Arrow, past all workers.
        read_bytes: of rows that the driver reads from the request's files; 0: it reads none.
        is_local: whether tasks run on the machine of the driver, a few at a time.
    """

    spark: SparkSession
    brought_bytes: int
    collected_bytes: int
    read_bytes: int
    is_local: bool

    @classmethod
    def of(cls, spark: SparkSession) -> Self:
        """The limits of a session; raises ``SettingsError`` if their setting is no number."""
        set_bytes = _set_bytes(spark)
        is_local = not is_connect(spark) and _runs_here(str(spark.sparkContext.master))
        if is_local:
            heap = _heap_bytes(spark)
            row_bytes = heap // _HEAPS_OF_ROWS if set_bytes is None else set_bytes
            brought = min(row_bytes, _BROUGHT_BYTES)
            collected = min(row_bytes, _COLLECTED_BYTES, heap // _HEAPS_COLLECTED)
            read = min(row_bytes, _MOST_READ_BYTES)
        else:
            brought = collected = _BROUGHT_BYTES if set_bytes is None else set_bytes
            read = 0
        results = _result_bytes(spark) // _RESULTS_OF_JOB
        return cls(spark, min(brought, results), min(collected, results), read, is_local)

    def suit(self, sizes: Collection[float]) -> bool:
        """Whether the driver takes no longer for file groups of some sizes in bytes than jobs of Spark do."""
        if self.is_local:
            return True
        if sum(sizes) > _REWRITTEN_BYTES:
            return False
        if len(sizes) <= _FILE_GROUPS:
            return True
        share_saved = 1 - _TASKS_LIKE_DRIVER / default_parallelism(self.spark)
        return len(sizes) * share_saved <= _FILE_GROUPS


def _set_bytes(spark: SparkSession) -> int | None:
    value = spark.conf.get(SMALL_WRITE_BYTES, None)
    if value is None:
        return None
    if not value.isdecimal():
        raise SettingsError(f"not a number of bytes: {SMALL_WRITE_BYTES}={value}; set it to 0 or more")
    return int(value)


def _runs_here(master: str) -> bool:
    """Whether tasks of a Spark master run on the machine of the driver, no more at a time than its threads replace."""
    local = _LOCAL.fullmatch(master)
    if local is None:
        return False
    cores = local["cores"] or "1"
    return (os.cpu_count() or math.inf if cores == "*" else int(cores)) <= _LOCAL_CORES


def _heap_bytes(spark: SparkSession) -> int:
    """The greatest size of the driver's heap."""
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001  (Python has no name for it)
    return int(jvm.java.lang.Runtime.getRuntime().maxMemory())


def _result_bytes(spark: SparkSession) -> int:
    """The greatest size of the results of a job; raises ``SettingsError`` if the setting is no size."""
    value = spark.conf.get(_RESULT_SIZE, None) or "1g"
    # A client of Spark Connect has no JVM that would read it.
    size = _SIZE.fullmatch(value.strip().lower())
    if size is None:
        raise SettingsError(f"not a size: {_RESULT_SIZE}={value}; set it to a number of bytes, or to one such as 2g")
    return int(size["number"]) * 1024 ** _UNITS.index(size["unit"]) or sys.maxsize
