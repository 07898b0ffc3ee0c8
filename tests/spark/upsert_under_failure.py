"""A Spark application that upserts while something fails: ``upsert_under_failure.py SCENARIO FOLDER``.

It loads 4,000 records, then upserts half of them again and 2,000 new ones.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import rli
import rli_spark
from rli.table.file_groups import work_rows
from rli.table.file_groups.file_group_writer import FileGroupTarget, WriteContext, write_file_group
from rli.table.following import sync
from tests.spark.executor_deaths import Death, under
from tests.support.spark import SHORT_LIVED

_MASTERS = {
    # With no other executor, all that it had shuffled and kept is computed anew.
    "executors-die-at-work": "local-cluster[1,1,1024]",
    "executor-dies": "local-cluster[2,1,1024]",
    "task-fails": "local[2,4]",
    "speculation": "local-cluster[2,1,1024]",
}


def session(scenario: str) -> SparkSession:
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "localhost",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "4",
        "spark.driver.memory": "1g",
        "spark.executor.memory": "512m",
        "spark.driver.extraJavaOptions": SHORT_LIVED,
        "spark.executor.extraJavaOptions": SHORT_LIVED,
        "spark.log.level": "ERROR",
        "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
        "spark.speculation": str(scenario == "speculation").lower(),
        "spark.speculation.interval": "50ms",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.quantile": "0.3",
        "spark.speculation.minTaskRuntime": "100ms",
    }
    builder = SparkSession.builder.master(_MASTERS.get(scenario, "local[2]"))
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def records(spark: SparkSession, start: int, end: int, fare: float) -> DataFrame:
    return spark.range(start, end, numPartitions=4).select(
        F.concat(F.lit("k"), F.col("id")).alias("id"),
        (F.col("id") % 3).cast("string").alias("city"),
        F.lit(fare).alias("fare"),
    )


def failing_once(frame: DataFrame, folder: Path) -> DataFrame:
    """The frame, whose every first attempt at a partition fails after its first batch."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = TaskContext.get()
        assert task is not None
        for batch in batches:
            yield batch
            mark = folder / f"failed-{task.partitionId()}"
            if not mark.exists():
                mark.touch()
                raise OSError("this attempt fails")

    return frame.mapInArrow(run, frame.schema)


def slow_first_attempt(frame: DataFrame) -> DataFrame:
    """The frame, whose first attempt at one partition takes so long that Spark starts a second one."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = TaskContext.get()
        assert task is not None
        if task.partitionId() == 1 and task.attemptNumber() == 0:
            time.sleep(5)
        yield from batches

    return frame.mapInArrow(run, frame.schema)


class Saboteur:
    """Does the scenario's damage when the write reaches a step."""

    def __init__(self, scenario: str, table: rli.Table) -> None:
        self.scenario = scenario
        self.table = table

    def __call__(self, step: rli.Step) -> None:
        if self.scenario == "executor-dies" and step is rli.Step.TAGGED:
            kill_an_executor()
        if self.scenario == "straggler" and step is rli.Step.PUBLISHED:
            self.write_late()
        if self.scenario == "driver-dies" and step is rli.Step.WRITTEN:
            os.kill(os.getpid(), signal.SIGKILL)

    def write_late(self) -> None:
        """An attempt that the driver never heard of finishes after the commit was published."""
        snapshot = self.table.snapshot()
        instant = snapshot.timeline.completed_writes[-1].time
        group, base = next(iter(snapshot.slices.items()))
        schema = snapshot.schema
        assert schema is not None
        context = WriteContext(self.table.definition.storage, instant, schema, None, ("city",), "zstd")
        row: dict[str, list[object]] = {name: [None] for name in work_rows.work_schema(schema).names}
        row |= {work_rows.RECORD_KEY: ["late"], work_rows.CHANGE: [1], "id": ["late"], "city": ["0"], "fare": [9.9]}
        rows = pa.table(row).select(work_rows.work_schema(schema).names).cast(work_rows.work_schema(schema))
        write_file_group(context, FileGroupTarget(group, base), rows, "9-9-9")


def kill_an_executor() -> None:
    """Kill one executor with the blocks that it caches."""
    found = subprocess.run(
        ["pgrep", "-f", f"CoarseGrainedExecutorBackend.*--driver-url.*{driver_port()}"],
        capture_output=True,
        text=True,
        check=True,
    )
    os.kill(int(found.stdout.split()[0]), signal.SIGKILL)


def driver_port() -> str:
    context = SparkSession.active().sparkContext
    return str(context.getConf().get("spark.driver.port"))


def main(scenario: str, folder: Path) -> None:
    spark = session(scenario)
    table = rli.create_table(
        folder / "trips",
        record_key="id",
        partition_by="city",
        index=f"lmdb://{folder / 'index'}",
        target_file_size=32 * 1024,
    )
    rli_spark.upsert(records(spark, 0, 4_000, 1.0), table)
    batch = records(spark, 2_000, 6_000, 1.5)
    if scenario == "task-fails":
        batch = failing_once(batch, folder)
    if scenario == "speculation":
        batch = slow_first_attempt(batch)
    if scenario == "executors-die-at-work":
        # Or this process would apply so little itself.
        setattr(sync, "SMALL_JOURNALS", 0)  # noqa: B010  (a constant but for this test)
        for death in Death:
            rli_spark.upsert(batch, under(death, table, folder))
            # It took place.
            assert death.mark(folder).exists()
    rli_spark.upsert(batch, table, on_step=Saboteur(scenario, table))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
