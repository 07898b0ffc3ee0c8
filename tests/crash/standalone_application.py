"""A Spark application on a standalone cluster: ``standalone_application.py MASTER FOLDER WORKER``.

It writes a table and builds its metadata table, and kills one worker of the cluster in the midst of an upsert.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import rli
import rli_spark
from rli import Step
from tests.support.java import SHORT_LIVED_SPARK

RECORDS: Final = 3000


def main(master: str, folder: Path, worker: int) -> None:
    """Upsert twice, the second time with a metadata table and half of the workers, then tag, insert and delete."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "4",
        "spark.rli.smallWriteBytes": "0",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": SHORT_LIVED_SPARK,
        "spark.log.level": "ERROR",
    }
    builder = SparkSession.builder.master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    table = rli.create_table(folder / "table", record_key="id", partition_by="city", ordering="ts")
    assert rli_spark.upsert(records(spark, 0, RECORDS, 1), table).inserted == RECORDS
    assert len(hosts_of(spark)) == 2
    partitions = ("files", "column_stats", "bloom_filters", "record_index")
    assert {*rli_spark.enable_metadata(spark, table, partitions).added} == {*partitions}

    def kill_a_worker(step: Step) -> None:
        if step is Step.TAGGED:
            os.kill(worker, signal.SIGKILL)

    half = RECORDS // 2
    result = rli_spark.upsert(records(spark, half, RECORDS + half, 2), table, on_step=kill_a_worker)
    assert (result.inserted, result.updated) == (half, half)
    tagged = rli_spark.tag(records(spark, 0, RECORDS + 2 * half, 3), table)
    assert tagged.where("_rli_file_id is null").count() == half
    assert rli_spark.insert(records(spark, 0, RECORDS + 2 * half, 4), table).inserted == half
    assert rli_spark.delete(records(spark, 0, half, 0).select("id"), table).deleted == half
    versions = {row["ts"]: row["count"] for row in rli_spark.read(spark, table).groupBy("ts").count().collect()}
    assert versions == {2: 2 * half, 4: half}
    assert table.verify_index().agrees
    assert table.metadata.verify() == ()
    spark.stop()


def records(spark: SparkSession, start: int, end: int, ts: int) -> DataFrame:
    """Records with the keys of a range."""
    key = F.concat(F.lit("k"), F.col("id")).alias("id")
    return spark.range(start, end, numPartitions=4).select(
        key, (F.col("id") % 3).cast("string").alias("city"), F.lit(ts).alias("ts")
    )


def hosts_of(spark: SparkSession) -> set[str]:
    """The hosts of the executors; the driver is on another one."""
    infos = spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()  # noqa: SLF001
    return {info.host() for info in infos} - {"127.0.0.1"}


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
