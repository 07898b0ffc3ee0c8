"""A Spark application on a small cluster that loses its executors in the middle of writes, in a process of its own.

Half of each frame's keys are other ones each time that a task of it is computed. Each order is one write, or a few; its
answer says what became of the table.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import rli
import rli_spark
from rli import Step
from tests.spark.upsert_under_failure import driver_port
from tests.support.java import SHORT_LIVED_SPARK
from tests.support.orders import serve
from tests.support.tables import check_stored, stray_files
from tests.support.waiting import eventually

ROWS = 400

KNOWN = ROWS // 2
"""Every second record moves to another partition; the others are new."""

_SETTINGS = {
    "spark.rli.smallWriteBytes": "0",
    "spark.ui.enabled": "false",
    "spark.driver.host": "localhost",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.executor.memory": "512m",
    "spark.driver.extraJavaOptions": SHORT_LIVED_SPARK,
    "spark.executor.extraJavaOptions": SHORT_LIVED_SPARK,
    # Executors are all on one machine, so no task waits for another one that may be nearer to its data.
    "spark.locality.wait": "0",
    "spark.log.level": "ERROR",
    "spark.deploy.maxExecutorRetries": "-1",
    # A busy machine adds losses of its own to those of a case: an executor that waits longer than the timeouts below is given back.
    "spark.stage.maxConsecutiveAttempts": "20",
    "spark.decommission.enabled": "true",
    "spark.storage.decommission.enabled": "true",
    # How long an executor that is to go waits between two looks at what it still keeps; 30 seconds otherwise.
    "spark.storage.decommission.replicationReattemptInterval": "1s",
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.initialExecutors": "2",
    # Longer than what the driver does between two jobs: an executor takes seconds to start.
    "spark.dynamicAllocation.executorIdleTimeout": "8s",
    "spark.dynamicAllocation.cachedExecutorIdleTimeout": "8s",
    "spark.dynamicAllocation.shuffleTracking.timeout": "8s",
}

Loss = Callable[[SparkSession], None]


def session() -> SparkSession:
    builder = SparkSession.builder.master("local-cluster[2,1,1024]")
    for name, value in {**_SETTINGS, "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"]}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def records(spark: SparkSession, first: int) -> DataFrame:
    """Records whose new keys and their partitions are never the same."""

    def fresh(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            numbers = batch.column(0).to_pylist()
            keys = [f"k{n}" if n % 2 else uuid4().hex for n in numbers]
            cities = ["moved" if n % 2 else key[0] for n, key in zip(numbers, keys, strict=True)]
            yield pa.RecordBatch.from_pydict({"id": keys, "city": cities, "ts": [2] * len(keys), "n": numbers})

    frame = spark.range(first, first + ROWS, 1, 4)
    return frame.mapInArrow(fresh, "id string, city string, ts long, n long")


def stored_before(first: int) -> pa.Table:
    numbers = [n for n in range(first, first + ROWS) if n % 2]
    columns = {"id": [f"k{n}" for n in numbers], "city": ["here"] * KNOWN, "ts": [1] * KNOWN, "n": [-1] * KNOWN}
    return pa.table(columns)


def executors(spark: SparkSession) -> set[str]:
    ids: str = spark.sparkContext._jsc.sc().getExecutorIds().mkString(",")  # noqa: SLF001
    return set(filter(None, ids.split(",")))


def processes(spark: SparkSession) -> dict[str, int]:
    """The executors that the driver knows, and their processes."""
    pattern = f"CoarseGrainedExecutorBackend.*--driver-url.*{driver_port()}"
    found = subprocess.run(["pgrep", "-af", pattern], capture_output=True, text=True, check=False)
    running = re.findall(r"^(\d+) .* --executor-id (\d+) ", found.stdout, re.MULTILINE)
    known = executors(spark)
    return {executor: int(process) for process, executor in running if executor in known}


def signalled(number: signal.Signals, most: int) -> Loss:
    """Sends a signal to some executors, and waits until the driver knows that they are gone."""

    def lose(spark: SparkSession) -> None:
        # Executors that idle are given back, so they may go while they are looked for.
        while not (victims := dict(list(processes(spark).items())[:most])):
            spark.range(0, 4, 1, 4).count()
        for process in victims.values():
            with suppress(ProcessLookupError):
                os.kill(process, number)
        eventually(lambda: not victims.keys() & executors(spark), "executors are gone")

    return lose


def idle(spark: SparkSession) -> None:
    """Waits until Spark has given an executor back, and what it had cached with it."""
    before = executors(spark)
    eventually(lambda: not before or before - executors(spark), "an executor is given back")


kill_all = signalled(signal.SIGKILL, most=2)
kill_one = signalled(signal.SIGKILL, most=1)
decommission = signalled(signal.SIGPWR, most=1)
"""The other one is there to take what it kept."""

UPSERTS: dict[str, dict[Step, Loss]] = {
    "killed after request, tags and files": {Step.REQUESTED: kill_one, Step.TAGGED: kill_all, Step.WRITTEN: kill_one},
    "killed after every step": {
        Step.REQUESTED: kill_one,
        Step.TAGGED: kill_all,
        Step.RESOLVED: kill_one,
        Step.WRITTEN: kill_one,
        Step.PUBLISHED: kill_one,
    },
    "decommissioned after tagged": {Step.TAGGED: decommission},
    "given back after tagged": {Step.TAGGED: idle},
}


class Losing:
    """Loses executors after some steps of a write."""

    def __init__(self, spark: SparkSession, losses: Mapping[Step, Loss]) -> None:
        self._spark, self._left = spark, dict(losses)

    def __call__(self, step: Step) -> None:
        if step in self._left:
            self._left.pop(step)(self._spark)


def write(spark: SparkSession, table: rli.Table, first: int, losses: Mapping[Step, Loss]) -> dict[str, Any]:
    result = rli_spark.upsert(records(spark, first), table, on_step=Losing(spark, losses))
    numbers = Counter(n for n in table.read(columns=["n"]).column("n").to_pylist() if first <= n < first + ROWS)
    return {
        "counts": [result.inserted, result.updated, result.moved, result.unchanged],
        "missing": ROWS - len(numbers),
        "repeated": sum(count > 1 for count in numbers.values()),
        "strays": len(stray_files(table, result.instant or "")),
    }


class Application:
    """The writes that tests order.

    Args:
        folder: for the tables.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._spark = session()
        self._table = self._created("trips", target_file_size=64 * 1024, small_file_size=0)
        self._written = 0

    def _created(self, name: str, **options: Any) -> rli.Table:
        index = options.pop("index", f"lmdb://{self._folder / name}-index")
        return rli.create_table(
            self._folder / name, record_key="id", partition_by="city", ordering="ts", index=index, **options
        )

    def upsert(self, case: str) -> dict[str, Any]:
        first = self._written
        self._written += ROWS
        self._table.upsert(stored_before(first))
        return write(self._spark, self._table, first, UPSERTS[case])

    def upsert_in_files(self) -> dict[str, Any]:
        """An upsert of a table whose index is its files: executors die while it tags and writes."""
        table = self._created("in_files", index="global-simple:")
        table.upsert(stored_before(0))
        written = write(self._spark, table, 0, dict.fromkeys((Step.TAGGED, Step.RESOLVED, Step.WRITTEN), kill_one))
        check_stored(table)
        return written

    def load(self) -> dict[str, Any]:
        """The first write of a table: an executor dies before and after the look at its fingerprints."""
        table = self._created("loaded")
        written = write(self._spark, table, 0, dict.fromkeys((Step.REQUESTED, Step.TAGGED), kill_one))
        check_stored(table)
        return written

    def delete(self) -> dict[str, Any]:
        """Deletes keys of which another half is unknown each time."""
        self._table.upsert(stored_before(0))
        before = self._table.read().num_rows
        keys = (
            records(self._spark, 0)
            .withColumn("id", F.when(F.rand() < 0.5, F.col("id")).otherwise(F.concat("id", F.lit("?"))))
            .select("id")
        )
        result = rli_spark.delete(keys, self._table, on_step=Losing(self._spark, {Step.TAGGED: kill_one}))
        gone = before - self._table.read().num_rows
        return {"requested": result.deleted + result.unchanged, "agrees": result.deleted == gone > 0}

    def cluster(self) -> dict[str, Any]:
        # Small files, which the clustering puts together.
        self._table.upsert(stored_before(0))
        self._table.upsert(stored_before(ROWS))
        before = self._table.read().sort_by("id")
        result = rli_spark.cluster(self._spark, self._table, on_step=Losing(self._spark, {Step.RESOLVED: kill_one}))
        return {"replaced": result.files_replaced > 0, "same": self._table.read().sort_by("id").equals(before)}

    def check(self) -> None:
        """Raise ``AssertionError`` if the table that most orders write does not agree with its files and its index."""
        check_stored(self._table)


def main() -> dict[str, Callable[..., Any]]:
    application = Application(Path(sys.argv[1]))
    return {
        name: getattr(application, name) for name in ("upsert", "upsert_in_files", "load", "delete", "cluster", "check")
    }


if __name__ == "__main__":
    serve(main)
