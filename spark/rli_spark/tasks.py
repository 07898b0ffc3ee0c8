"""Runs the independent pieces of a write as Spark tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from pyspark.sql import SparkSession

from rli_spark.errors import unwrapped_errors
from rli_spark.workers import require_same_python
from rli_spark.zip_directories import watch_zip_directories

Item = TypeVar("Item")
Result = TypeVar("Result")

_TASKS_PER_CORE = 4


@dataclass(frozen=True, slots=True)
class SparkTasks:
    """Runs tasks on the executors of a Spark session.

    Attributes:
        spark: the session.
    """

    spark: SparkSession

    def run(self, function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """The result of one accepted attempt for each item, in the order of the items."""
        if not items:
            return []
        require_same_python(self.spark)
        context = self.spark.sparkContext
        slices = min(len(items), context.defaultParallelism * _TASKS_PER_CORE)
        with unwrapped_errors():
            return context.parallelize(list(items), slices).map(partial(_done, function)).collect()


def _done(function: Callable[[Item], Result], item: Item) -> Result:
    watch_zip_directories()
    return function(item)
