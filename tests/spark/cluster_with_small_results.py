"""A cluster whose jobs may give few results; run by test_small_writes.py in a process of its own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

import rli
import rli_spark
from tests.support.java import SHORT_LIVED_SPARK
from tests.support.spark import prepare_workers

ROWS: Final = 40_000


def main(folder: Path) -> None:
    """Write a frame that is small for the driver, and larger than the results of a job may be."""
    prepare_workers()
    spark = (
        SparkSession.builder.master("local-cluster[1,1,1024]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "localhost")
        .config("spark.driver.extraJavaOptions", SHORT_LIVED_SPARK)
        .config("spark.executor.extraJavaOptions", SHORT_LIVED_SPARK)
        .config("spark.driver.maxResultSize", "1m")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    table = rli.create_table(folder / "table", record_key="id")
    # Of few partitions, so that what each task says of its work is no matter.
    frame = spark.range(ROWS, numPartitions=2).selectExpr("cast(id as string) id", "sha2(cast(id as string), 256) text")
    # The first write is a load.
    assert rli_spark.upsert(frame.limit(1), table).inserted == 1
    assert rli_spark.upsert(frame, table).inserted == ROWS - 1
    assert table.verify_index().records == ROWS
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
