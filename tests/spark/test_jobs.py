"""Jobs of Spark: their names in Spark's UI, and their ends in errors that name the cause."""

from __future__ import annotations

import os
import signal

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import rli
import rli_spark
from rli_spark.session.errors import unwrapped_errors
from tests.support.spark import small_writes
from tests.support.tables import rows_of

pytestmark = pytest.mark.spark

ABORTED = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times, most recent failure: \
Lost task 0.3 in stage 3.0 (TID 9) (10.0.0.7 executor 5): ExecutorLostFailure (executor 5 exited caused by one of the running \
tasks) Reason: Command exited with code 137
Driver stacktrace:
"""


def kill_itself(number: int) -> None:
    os.kill(os.getpid(), number)


def piece_and_task(piece: int) -> tuple[int, int]:
    task = TaskContext.get()
    assert task is not None
    return piece, task.partitionId()


def jobs_of(spark: SparkSession) -> list[tuple[str | None, int]]:
    """Description and number of tasks of all jobs that Spark's UI shows, the oldest first."""
    context = spark.sparkContext._jsc.sc()  # noqa: SLF001
    context.listenerBus().waitUntilEmpty()
    found = context.statusStore().jobsList(None)
    jobs = [found.apply(number) for number in range(found.size())]
    told = [(job.description(), job.numTasks()) for job in jobs]
    return [(name.get() if name.isDefined() else None, tasks) for name, tasks in told][::-1]


def test_jobs_name_their_purpose(spark: SparkSession, table: rli.Table) -> None:
    frame = spark.sql("select 'a' id, 'x' city, 1L ts")
    before = len(jobs_of(spark))
    rli_spark.upsert(frame, table)
    spark.sparkContext.setJobDescription("nightly")
    try:
        rli_spark.upsert(frame.withColumn("ts", frame.ts + 1), table)
        assert spark.sparkContext.getLocalProperty("spark.job.description") == "nightly"
    finally:
        spark.sparkContext.setJobDescription(None)  # type: ignore[arg-type]
    own = [f"rli: {purpose}" for purpose in ("request", "compare fingerprints", "write group")]
    own += [f"nightly, rli: {stage}" for stage in ("request", "tag", "write")]
    assert [name for name, _ in jobs_of(spark)[before:]] == own


def test_driver_compares_few_moves(spark: SparkSession, table: rli.Table) -> None:
    stored = {"id": [f"k{n}" for n in range(400)], "city": ["a"] * 400, "ts": [5] * 400}
    table.upsert(pa.table(stored))
    columns = ("concat('k', id) id", "if(id < 2, 'b', 'a') city", "if(id = 1, 4L, 6L) ts")
    frame = spark.range(0, 400, 1, 1).selectExpr(*columns)
    before = len(jobs_of(spark))
    with small_writes(spark, 10_000):
        result = rli_spark.upsert(frame, table)
    assert [name for name, _ in jobs_of(spark)[before:]] == [f"rli: {stage}" for stage in ("request", "tag", "write")]
    assert (result.updated, result.moved, result.unchanged) == (398, 1, 1)
    assert {row["id"]: row["ts"] for row in rows_of(table) if row["city"] == "b" or row["ts"] == 5} == {
        "k0": 6,
        "k1": 5,
    }


@pytest.mark.parametrize("driver_bytes", [0, 10_000])
def test_late_moves_alone_write_nothing(spark: SparkSession, table: rli.Table, driver_bytes: int) -> None:
    table.upsert(pa.table({"id": [f"k{n}" for n in range(400)], "city": ["a"] * 400, "ts": [5] * 400}))
    frame = spark.range(0, 400, 1, 1).selectExpr("concat('k', id) id", "'b' city", "4L ts")
    with small_writes(spark, driver_bytes):
        result = rli_spark.upsert(frame, table)
    assert (result.updated, result.moved, result.unchanged) == (0, 0, 400)
    assert {(row["city"], row["ts"]) for row in rows_of(table)} == {("a", 5)}


def test_few_tasks_list_files(spark: SparkSession, table: rli.Table) -> None:
    count, setting = 40, "spark.sql.sources.parallelPartitionDiscovery.parallelism"
    numbers = [str(number) for number in range(count)]
    table.upsert(pa.table({"id": numbers, "city": numbers, "ts": [1] * count}))
    before = len(jobs_of(spark))
    assert rli_spark.read(spark, table).count() == count
    [tasks] = [tasks for name, tasks in jobs_of(spark)[before:] if name and name.startswith("Listing")]
    assert tasks <= 8
    assert spark.conf.get(setting, None) is None


def test_tasks_share_the_largest_pieces(spark: SparkSession) -> None:
    large = 8
    told = rli_spark.SparkTasks(spark).run(piece_and_task, range(100))
    assert [piece for piece, _ in told] == list(range(100))
    assert len({task for _, task in told[:large]}) == large


def test_lost_executors_are_an_error() -> None:
    told = r"nothing of a write is visible.*executor 5 exited.*code 137; look for the reason.*memoryOverhead"
    with pytest.raises(rli.ExecutorLostError, match=told), unwrapped_errors():
        raise PySparkException(ABORTED)


def test_dead_workers_are_an_error(spark: SparkSession) -> None:
    with pytest.raises(rli.ExecutorLostError, match="Python worker exited unexpectedly"):
        rli_spark.SparkTasks(spark).run(kill_itself, [signal.SIGKILL])
