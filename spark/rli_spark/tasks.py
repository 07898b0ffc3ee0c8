"""Runs the independent pieces of a write as Spark tasks."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession

from rli_spark.planning.resources import parallelism_of
from rli_spark.session.batches import map_numbers
from rli_spark.session.connect import is_connect
from rli_spark.session.jobs import jobs
from rli_spark.session.running_task import begin_task
from rli_spark.session.workers import require_same_python

Item = TypeVar("Item")
Result = TypeVar("Result")

_RESULTS: Final = pa.schema([("number", pa.int64()), ("result", pa.binary())])


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
        slices = parallelism_of(self.spark).for_pieces(len(items))
        with jobs(self.spark, _purpose_of(function)):
            if is_connect(self.spark):
                return _run_by_arrow(self.spark, function, items, slices)
            context = self.spark.sparkContext
            return context.parallelize(list(items), slices).map(partial(_done, function)).collect()


def _run_by_arrow(
    spark: SparkSession, function: Callable[[Item], Result], items: Sequence[Item], slices: int
) -> list[Result]:
    """The same without RDDs."""

    def run(numbers: Iterator[int]) -> Iterator[pa.Table]:
        for number in numbers:
            yield pa.table([[number], [pickle.dumps(function(items[number]))]], schema=_RESULTS)

    rows = map_numbers(spark, len(items), run, _RESULTS, slices).collect()
    results = {row.number: row.result for row in rows}
    return [pickle.loads(results[number]) for number in range(len(items))]  # noqa: S301  (of our own tasks)


def _purpose_of(function: Callable[..., object]) -> str:
    """The name of a function in words."""
    while isinstance(function, partial):
        function = function.func
    return getattr(function, "__name__", type(function).__name__).strip("_").replace("_", " ")


def _done(function: Callable[[Item], Result], item: Item) -> Result:
    begin_task()
    return function(item)
