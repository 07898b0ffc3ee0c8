"""A cluster whose executors have a Python without rli; run by test_workers.py in a process of its own."""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession

import rli
import rli_spark
from tests.support.java import SHORT_LIVED_SPARK


def main(folder: Path) -> None:
    """Try to write, and print the error."""
    builder = SparkSession.builder.master("local-cluster[1,1,1024]").config("spark.ui.enabled", "false")
    for process in ("driver", "executor"):
        builder = builder.config(f"spark.{process}.extraJavaOptions", SHORT_LIVED_SPARK)
    spark = builder.getOrCreate()
    table = rli.create_table(folder / "table", record_key="id")
    try:
        rli_spark.upsert(spark.createDataFrame([("a",)], "id string"), table)
    except rli.SettingsError as error:
        print(error)  # noqa: T201  (for the test)
    assert table.timeline() == ()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
