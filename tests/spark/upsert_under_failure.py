"""A Spark application that upserts while something fails: ``upsert_under_failure.py FOLDER SCENARIO …``.

For each scenario it makes a table in a folder of that name below FOLDER, loads 4,000 records, then upserts half of them
again and 2,000 new ones.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pyarrow as pa
from pyspark import SparkConf, SparkContext, TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import rli
import rli_spark
from rli.file_group import work_rows
from rli.file_group.write_context import FileGroupTarget, WriteContext
from rli.file_group.writer import write_file_groups
from rli.index.record.entries.limits import IndexLimits
from rli.table.table import opened_table
from tests.spark.executor_deaths import Death, under
from tests.support.indexes import limit_index
from tests.support.java import SHORT_LIVED_SPARK
from tests.support.waiting import eventually

_MASTERS = {
    # With no other executor, all that it had shuffled and kept is computed again.
    "executors-die-at-work": "local-cluster[1,1,1024]",
    "task-fails": "local[2,4]",
}


def session(scenario: str) -> SparkSession:
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "localhost",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "4",
        "spark.rli.smallWriteBytes": "0",
        "spark.driver.memory": "1g",
        "spark.executor.memory": "512m",
        "spark.driver.extraJavaOptions": SHORT_LIVED_SPARK,
        "spark.executor.extraJavaOptions": SHORT_LIVED_SPARK,
        "spark.log.level": "ERROR",
        "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
        "spark.speculation": str(scenario == "speculation").lower(),
        "spark.speculation.interval": "50ms",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.quantile": "0.3",
        "spark.speculation.minTaskRuntime": "100ms",
    }
    conf = SparkConf().setAll(list(settings.items()))
    master = two_hosts(conf) if scenario == "speculation" else _MASTERS.get(scenario, "local[2]")
    return SparkSession.builder.config(conf=conf).master(master).getOrCreate()


def two_hosts(conf: SparkConf) -> str:
    """A cluster of two workers, in this driver's JVM, under different host names: no host runs two copies of a task."""
    SparkContext._ensure_initialized(conf=conf)  # noqa: SLF001
    jvm: Any = SparkContext._jvm  # noqa: SLF001
    conf_of_jvm, nothing = jvm.org.apache.spark.SparkConf(), jvm.scala.Option.empty()
    deploy = jvm.org.apache.spark.deploy
    masters = deploy.LocalSparkCluster.apply(1, 1, 1024, conf_of_jvm).start()
    folder = mkdtemp(prefix="spark-worker-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    deploy.worker.Worker.startRpcEnvAndEndpoint(
        "127.0.0.2", 0, 0, 1, 1024, masters, folder, nothing, conf_of_jvm, nothing
    )
    master: str = masters[0]
    return master


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


def slow_first_attempt(frame: DataFrame, folder: Path) -> DataFrame:
    """The frame, whose first attempt at one partition takes until Spark has started a second one."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = TaskContext.get()
        assert task is not None
        second = folder / "second-attempt"
        if task.partitionId() == 1 and task.attemptNumber() == 0:
            eventually(second.exists, "a second attempt")
        elif task.partitionId() == 1:
            second.touch()
        yield from batches

    return frame.mapInArrow(run, frame.schema)


class Saboteur:
    """Does the scenario's damage when the write reaches a step."""

    def __init__(self, scenario: str, table: rli.Table) -> None:
        self.scenario = scenario
        self.table = table

    def __call__(self, step: rli.Step) -> None:
        if self.scenario == "straggler" and step is rli.Step.PUBLISHED:
            self.write_late()
        if self.scenario == "driver-dies" and step is rli.Step.WRITTEN:
            os.kill(os.getpid(), signal.SIGKILL)

    def write_late(self) -> None:
        """An attempt that the driver never heard of finishes after the commit was published."""
        snapshot = opened_table(self.table).snapshot()
        instant = snapshot.timeline.completed_writes[-1].time
        group, base = next(iter(snapshot.slices.items()))
        schema = snapshot.schema
        assert schema is not None
        context = WriteContext(opened_table(self.table).definition.storage, instant, schema, None, ("city",), "zstd")
        row: dict[str, list[object]] = {name: [None] for name in work_rows.work_schema(schema).names}
        row |= {work_rows.RECORD_KEY: ["late"], work_rows.CHANGE: [1], "id": ["late"], "city": ["0"], "fare": [9.9]}
        rows = pa.table(row).select(work_rows.work_schema(schema).names).cast(work_rows.work_schema(schema))
        write_file_groups(context, [FileGroupTarget(group, base, "9-9-9")], rows, [rows.num_rows])


def driver_port() -> str:
    context = SparkSession.active().sparkContext
    return str(context.getConf().get("spark.driver.port"))


def run(spark: SparkSession, scenario: str, folder: Path) -> None:
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
        batch = slow_first_attempt(batch, folder)
    if scenario == "executors-die-at-work":
        # Or this process would apply so little itself.
        limit_index(table, IndexLimits(small_journals=0))
        for number, death in enumerate(Death):
            # Records that are stored already would not be written again.
            rli_spark.upsert(records(spark, 2_000, 6_000, 2.0 + number), under(death, table, folder))
            # It took place.
            assert death.mark(folder).exists()
    rli_spark.upsert(batch, table, on_step=Saboteur(scenario, table))


def main(folder: Path, *scenarios: str) -> None:
    spark = session(scenarios[0])
    for scenario in scenarios:
        run(spark, scenario, folder / scenario)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
