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
from rli_spark.session.one_daemon import in_workers_of_frames
from rli_spark.session.running_task import begin_task
from rli_spark.session.workers import require_same_python

Item = TypeVar("Item")
Result = TypeVar("Result")

_RESULTS: Final = pa.schema([("number", pa.int64()), ("results", pa.binary())])


@dataclass(frozen=True, slots=True)
class SparkTasks:
    """Runs tasks on the executors of a Spark session.

    Attributes:
        spark: the session.
    """

    spark: SparkSession

    @property
    def at_once(self) -> int:
        """How many tasks run at a time."""
        return parallelism_of(self.spark).cores()

    def run(self, function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """The result of one accepted attempt for each item, in the order of the items.

        Items are dealt out to tasks in turn: of items that are sorted by their work, each task gets about the same.
        """
        if not items:
            return []
        require_same_python(self.spark)
        shares = _dealt(items, parallelism_of(self.spark).for_pieces(len(items)))
        with jobs(self.spark, _purpose_of(function)):
            if is_connect(self.spark):
                results = _run_by_arrow(self.spark, function, shares)
            else:
                # A task for each share. Left to itself, Spark gives a task items that follow each other.
                context = self.spark.sparkContext
                done = context.parallelize(shares, len(shares)).map(partial(_done, function))
                results = in_workers_of_frames(done).collect()
        return [results[number % len(shares)][number // len(shares)] for number in range(len(items))]


def _dealt(items: Sequence[Item], shares: int) -> list[Sequence[Item]]:
    return [items[first::shares] for first in range(shares)]


def _run_by_arrow(
    spark: SparkSession, function: Callable[[Item], Result], shares: Sequence[Sequence[Item]]
) -> list[list[Result]]:
    """The results of each share, without RDDs."""

    def run(numbers: Iterator[int]) -> Iterator[pa.Table]:
        for number in numbers:
            yield pa.table([[number], [pickle.dumps([function(item) for item in shares[number]])]], schema=_RESULTS)

    rows = map_numbers(spark, len(shares), run, _RESULTS).collect()
    results = {row.number: row.results for row in rows}
    return [pickle.loads(results[number]) for number in range(len(shares))]  # noqa: S301  (of our own tasks)


def _purpose_of(function: Callable[..., object]) -> str:
    """The name of a function in words."""
    while isinstance(function, partial):
        function = function.func
    return getattr(function, "__name__", type(function).__name__).strip("_").replace("_", " ")


def _done(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    begin_task()
    return [function(item) for item in items]
