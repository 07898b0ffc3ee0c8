"""Jobs of Spark: their names in Spark's UI, and their ends in errors that name the cause."""

from __future__ import annotations

import os
import signal

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import rli
import rli_spark
from rli_spark.session.errors import unwrapped_errors

pytestmark = pytest.mark.spark

ABORTED = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times, most recent failure: \
Lost task 0.3 in stage 3.0 (TID 9) (10.0.0.7 executor 5): ExecutorLostFailure (executor 5 exited caused by one of the running \
tasks) Reason: Command exited with code 137
Driver stacktrace:
"""


def kill_itself(number: int) -> None:
    os.kill(os.getpid(), number)


def descriptions(spark: SparkSession) -> list[str | None]:
    """Of all jobs that Spark's UI shows, the newest first."""
    context = spark.sparkContext._jsc.sc()  # noqa: SLF001
    context.listenerBus().waitUntilEmpty()
    jobs = context.statusStore().jobsList(None)
    told = [jobs.apply(number).description() for number in range(jobs.size())]
    return [one.get() if one.isDefined() else None for one in told]


def test_jobs_name_their_purpose(spark: SparkSession, table: rli.Table) -> None:
    frame = spark.sql("select 'a' id, 'x' city, 1L ts")
    before = len(descriptions(spark))
    rli_spark.upsert(frame, table)
    spark.sparkContext.setJobDescription("nightly")
    try:
        rli_spark.upsert(frame.withColumn("ts", frame.ts + 1), table)
        assert spark.sparkContext.getLocalProperty("spark.job.description") == "nightly"
    finally:
        spark.sparkContext.setJobDescription(None)  # type: ignore[arg-type]
    named = descriptions(spark)
    own = [f"rli: {purpose}" for purpose in ("request", "compare fingerprints", "write group")]
    own += [f"nightly, rli: {stage}" for stage in ("request", "tag", "write")]
    assert named[: len(named) - before][::-1] == own


def test_lost_executors_are_an_error() -> None:
    told = r"executor 5 exited.*code 137; look for the reason.*memoryOverhead"
    with pytest.raises(rli.ExecutorLostError, match=told), unwrapped_errors():
        raise PySparkException(ABORTED)


def test_dead_workers_are_an_error(spark: SparkSession) -> None:
    with pytest.raises(rli.ExecutorLostError, match="Python worker exited unexpectedly"):
        rli_spark.SparkTasks(spark).run(kill_itself, [signal.SIGKILL])
