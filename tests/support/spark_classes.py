"""Makes the archive of Spark's classes, once for an environment: ``python -m tests.support.spark_classes``.

Without it JVMs of Spark work too; they load and verify thousands of classes, which takes half of their start.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
from pyspark.sql import SparkSession

import rli
import rli_spark
from tests.support.java import SHORT_LIVED, SPARK_CLASSES
from tests.support.spark import prepare_workers


def make(archive: Path) -> None:
    """Write what a Spark application loads that writes, tags and reads a table."""
    prepare_workers()
    options = f"{SHORT_LIVED} -Xlog:cds*=off -XX:ArchiveClassesAtExit={archive}"
    settings = {
        "spark.master": "local[2]",
        "spark.driver.extraJavaOptions": options,
        "spark.log.level": "ERROR",
        "spark.rli.smallWriteBytes": "0",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    gateway = spark.sparkContext._gateway  # noqa: SLF001
    assert gateway is not None
    with TemporaryDirectory() as folder:
        table = rli.create_table(Path(folder, "table"), record_key="id", partition_by="city", ordering="ts")
        table.upsert(pa.table({"id": ["a", "b"], "city": ["x", "x"], "ts": [1, 1]}))
        frame = spark.createDataFrame([("a", "y", 2), ("c", "x", 1)], "id string, city string, ts long")
        rli_spark.upsert(frame, table)
        assert rli_spark.read(spark, table).groupBy("city").count().count() == 2
        spark.stop()
    # The JVM writes the archive when it ends, and it ends with its input.
    gateway.shutdown()
    jvm = gateway.proc
    jvm.stdin.close()
    jvm.wait()


def main() -> None:
    """Make the archive unless it is there; nobody sees a part of it."""
    if not SPARK_CLASSES.exists():
        unfinished = SPARK_CLASSES.with_suffix(".unfinished")
        make(unfinished)
        unfinished.rename(SPARK_CLASSES)


if __name__ == "__main__":
    main()
