"""A Spark application whose tasks are copied and computed again: ``task_copies.py MASTER FOLDER WORKER …``.

The workers are process numbers of a standalone cluster. Before some jobs, the application stops one of the two executors: its tasks
take too long, and Spark starts copies of them on the other executor. Then both executors continue, and race. During other jobs, the
application deletes what the first tasks have shuffled. The table's rows are as ``expected`` says, and Spark's event log tells what happened.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import rli
import rli_spark
from rli import Step
from rli.index.record.entries.limits import IndexLimits
from tests.support.indexes import limit_index
from tests.support.java import SHORT_LIVED_SPARK
from tests.support.waiting import eventually

LOADED: Final = 3_000
TASKS: Final = 6
"""Of each stage."""

BLOCKS: Final = "blocks"
"""Of the folder: where executors keep what they shuffle."""

EVENTS: Final = "events"
"""Of the folder: for Spark's log of events."""

_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.executor.memory": "512m",
    "spark.driver.extraJavaOptions": SHORT_LIVED_SPARK,
    "spark.executor.extraJavaOptions": SHORT_LIVED_SPARK,
    "spark.default.parallelism": str(TASKS),
    "spark.sql.shuffle.partitions": str(TASKS),
    "spark.rli.smallWriteBytes": "0",
    "spark.locality.wait": "0",
    "spark.log.level": "ERROR",
    "spark.eventLog.enabled": "true",
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.multiplier": "2",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.minTaskRuntime": "800ms",
    # How often a stage may lose what it reads.
    "spark.stage.maxConsecutiveAttempts": "20",
}

Row = tuple[str, str, int]
"""An id, a city and a version."""


def expected() -> set[Row]:
    """The rows of the table in the end."""
    rows = {_row(number, 0, 1) for number in range(LOADED // 4)}
    rows |= {_row(number, 1, 2) for number in range(LOADED // 2, LOADED)}
    return rows | {_row(number, 2, 3) for number in range(LOADED, LOADED * 2)}


def main(master: str, folder: Path, workers: Collection[int]) -> None:
    """Load, upsert and delete; stop executors in the first two, and delete shuffled rows in the others."""
    events = folder / EVENTS
    events.mkdir()
    builder = SparkSession.builder.master(master).config("spark.eventLog.dir", events.as_uri())
    for name, value in _SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    table = rli.create_table(
        folder / "table",
        record_key="id",
        partition_by="city",
        ordering="ts",
        index=f"lmdb://{folder / 'index'}",
        target_file_size=32 * 1024,
        small_file_size=0,
    )
    # Or the driver would apply so little by itself.
    limit_index(table, IndexLimits(small_journals=0, commit_keys=500, share_of_journals=1024))

    with closing(Stops(spark, workers, {Step.TAGGED, Step.REGISTERED})) as stop:
        assert rli_spark.upsert(records(spark, 0, LOADED, 0, 1), table, on_step=stop).inserted == LOADED
    with closing(Stops(spark, workers, {Step.INFLIGHT, Step.RESOLVED, Step.REGISTERED})) as stop:
        half = records(spark, LOADED // 2, LOADED * 2, 1, 2)
        moved = rli_spark.upsert(half, table, on_step=stop)
    assert (moved.inserted, moved.updated, moved.moved) == (LOADED, 0, LOADED // 2)
    with losses(folder / BLOCKS):
        again = rli_spark.upsert(records(spark, LOADED, LOADED * 2, 2, 3), table)
    assert (again.inserted, again.updated, again.moved) == (0, 0, LOADED)
    with losses(folder / BLOCKS):
        keys = records(spark, LOADED // 4, LOADED // 2, 0, 0).select("id")
        assert rli_spark.delete(keys, table).deleted == LOADED // 4
    spark.stop()


def records(spark: SparkSession, start: int, end: int, shift: int, ts: int) -> DataFrame:
    """Records with the keys of a range, in the cities of a shift."""
    numbers = spark.range(start, end, numPartitions=TASKS)
    city = ((F.col("id") + shift) % 4).cast("string").alias("city")
    return numbers.select(F.concat(F.lit("k"), F.col("id")).alias("id"), city, F.lit(ts).alias("ts"))


def _row(number: int, shift: int, ts: int) -> Row:
    return f"k{number}", str((number + shift) % 4), ts


class Stops:
    """Stops one executor at each of some steps of a write, until Spark has started a copy of a task.

    Args:
        spark: the session.
        workers: of the cluster.
        steps: each before a job.
    """

    def __init__(self, spark: SparkSession, workers: Collection[int], steps: Collection[Step]) -> None:
        self._spark, self._workers, self._steps = spark, workers, steps
        self._over = Event()
        self._waiting: Thread | None = None

    def __call__(self, step: Step) -> None:
        if step in self._steps:
            self.close()
            # An executor that still runs a task that has lost a race would get no task of the next job.
            eventually(lambda: not _running_tasks(self._spark), "no task runs")
            executor = _executors(self._workers)[0]
            os.kill(executor, signal.SIGSTOP)
            self._over.clear()
            self._waiting = Thread(target=self._go_on, args=[executor])
            self._waiting.start()

    def close(self) -> None:
        """Let all executors continue."""
        self._over.set()
        if self._waiting is not None:
            self._waiting.join()

    def _go_on(self, executor: int) -> None:
        try:
            while not _has_copies(self._spark) and not self._over.wait(0.02):
                pass
        finally:
            os.kill(executor, signal.SIGCONT)


@contextmanager
def losses(blocks: Path) -> Iterator[None]:
    """Deletes what the first tasks of each shuffle have shuffled, as soon as it is there."""
    ended, shuffles = Event(), set[str]()
    kept = set(blocks.rglob("shuffle_*.data"))

    def lose() -> None:
        while not ended.wait(0.002):
            for path in set(blocks.rglob("shuffle_*.data")) - kept:
                kept.add(path)
                shuffle = path.name.split("_")[1]
                if shuffle not in shuffles:
                    shuffles.add(shuffle)
                    path.unlink()

    thread = Thread(target=lose)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _executors(workers: Collection[int]) -> list[int]:
    """The processes of executors; workers start others, too."""
    command = ["pgrep", "-P", ",".join(map(str, workers)), "-f", "CoarseGrainedExecutorBackend"]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    return [int(line) for line in found.stdout.split()]


def _running_tasks(spark: SparkSession) -> int:
    """How many tasks executors run, with those of stages that have ended."""
    infos = spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()  # noqa: SLF001
    return sum(info.numRunningTasks() for info in infos)


def _has_copies(spark: SparkSession) -> bool:
    """Whether more tasks of a stage run and have ended than it has."""
    tracker = spark.sparkContext.statusTracker()
    stages = filter(None, map(tracker.getStageInfo, tracker.getActiveStageIds()))
    return any(stage.numActiveTasks + stage.numCompletedTasks > stage.numTasks for stage in stages)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), [int(worker) for worker in sys.argv[3:]])
