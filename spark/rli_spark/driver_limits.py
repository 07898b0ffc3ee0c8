"""How much of a write the driver does itself, because the jobs of Spark would take longer than their work.

On a cluster this goes for small writes. On a local master, driver and tasks share the cores of one machine: rows gain
nothing by going to tasks, while the driver has room for them.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final, Self

from pyspark.sql import SparkSession

from rli import SettingsError
from rli_spark.connect import default_parallelism, is_connect

SMALL_WRITE_BYTES: Final = "spark.rli.smallWriteBytes"
"""Spark's setting for the size of rows that the driver writes; 0: tasks do all the work."""

_ROW_BYTES: Final = 16 * 1024 * 1024

_SHARE_OF_HEAP: Final = 4
"""Of a local master: rows up to a quarter of the heap. Python holds them beside it, but who gave a driver a large heap has the
memory for large batches."""

_LOCAL: Final = "local["
_LOCAL_TASKS: Final = 8
"""Tasks at a time of a local master, up to which the threads of the driver are as fast: they wait for Python's lock about a
tenth of the time that they work."""

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
        row_bytes: of all rows in memory.
        rewritten_bytes: of the base files that they change.
        file_groups: that they change.
    """

    row_bytes: int
    rewritten_bytes: float
    file_groups: float

    @classmethod
    def of(cls, spark: SparkSession) -> Self:
        """The limits of a session; raises ``SettingsError`` if their setting is no number."""
        tasks = default_parallelism(spark)
        is_local = not is_connect(spark) and _is_local(str(spark.sparkContext.master)) and tasks <= _LOCAL_TASKS
        value = spark.conf.get(SMALL_WRITE_BYTES, None)
        if value is None:
            row_bytes = _heap_bytes(spark) // _SHARE_OF_HEAP if is_local else _ROW_BYTES
        elif value.isdecimal():
            row_bytes = int(value)
        else:
            raise SettingsError(f"not a number of bytes: {SMALL_WRITE_BYTES}={value}; set it to 0 or more")
        if is_local:
            return cls(row_bytes, math.inf, math.inf)
        share_saved = 1 - _TASKS_LIKE_DRIVER / tasks
        file_groups = _FILE_GROUPS / share_saved if share_saved > 0 else math.inf
        return cls(row_bytes, _REWRITTEN_BYTES, file_groups)

    @property
    def brought_bytes(self) -> int:
        """Up to about how many bytes of rows come to the driver with the results of a job, which its heap holds."""
        return min(self.row_bytes, _ROW_BYTES)

    def suit(self, sizes: Collection[float]) -> bool:
        """Whether the driver takes no longer for file groups of some sizes in bytes than jobs of Spark do."""
        return sum(sizes) <= self.rewritten_bytes and len(sizes) <= self.file_groups


def _is_local(master: str) -> bool:
    return master == "local" or master.startswith(_LOCAL)


def _heap_bytes(spark: SparkSession) -> int:
    """The greatest size of the driver's heap."""
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001  (Python has no name for it)
    return int(jvm.java.lang.Runtime.getRuntime().maxMemory())
