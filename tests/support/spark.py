"""A small local Spark session for tests and benchmarks."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyspark
from pyspark.sql import SparkSession

from rli_spark.planning.resources import SMALL_WRITE_BYTES
from tests.support.java import SHORT_LIVED_SPARK
from tests.support.spark_packages import HUDI_BUNDLE, jar_of

REPOSITORY = Path(__file__).resolve().parents[2]

_SETTINGS = {
    "spark.master": "local[2]",
    "spark.driver.memory": "1g",
    "spark.driver.host": "localhost",
    "spark.driver.bindAddress": "127.0.0.1",
    # When a job fails, Spark kills the Python workers of its other tasks after two seconds, those too that have become
    # idle since then and are the next job's.
    "spark.python.task.killTimeout": "1h",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Tests write few records. Those of small writes ask for them.
    SMALL_WRITE_BYTES: "0",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.driver.extraJavaOptions": f"-Duser.timezone=UTC {SHORT_LIVED_SPARK} -Xms1g",
}

_WITHOUT_DEFAULTS = Path(__file__).with_name("hadoop")
"""In place of 1,300 settings of HDFS, MapReduce and YARN, which Hudi sends to each of its tasks."""

_FORKED_WORKERS: Final = {"spark.python.daemon.module": "rli_spark.daemon"}
"""Python workers that have everything loaded. Spark ends each that is idle for a minute, and the next test starts others. On PySpark 4, the
tests run with Spark's own daemon."""

HUDI_SETTINGS = {
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
    "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
    # Of the files that bring Hudi's rows to tests: Spark 3 writes none before 1582 and 1900 otherwise.
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
}


def spark_session(hudi_version: str | None = None, *class_path: Path, packages: Sequence[str] = ()) -> SparkSession:
    """The session of this process, on two threads and in UTC.

    Args:
        hudi_version: puts this release of Apache Hudi on the class path, fetched as a Spark package at the first
            use on a machine. Needs PySpark 3.5. A JVM keeps the class path it was started with, so one process
            uses one version only; ``tests.support.hudi`` gives each version a process of its own.
        class_path: folders and jars whose files win over those of the same name in Hudi's bundle.
        packages: that are put on the class path too, fetched likewise.
    """
    prepare_workers()
    settings = _SETTINGS | (_FORKED_WORKERS if pyspark.__version__.startswith("3.") else {})
    class_paths = [*map(str, class_path), *(str(jar_of(package)) for package in packages)]
    if hudi_version is not None:
        settings |= HUDI_SETTINGS
        # Hudi's bloom index by the metadata table sends its view of files to tasks, with the locks in it.
        settings["spark.driver.extraJavaOptions"] += " --add-opens=java.base/java.util.concurrent.locks=ALL-UNNAMED"
        # Where Spark itself loads it from. As a package of Spark's it would come by another class loader, which not
        # every thread of Hudi's looks into: Avro then remembers that Hudi's own records have no class.
        class_paths += [str(_WITHOUT_DEFAULTS), str(jar_of(HUDI_BUNDLE.format(version=hudi_version)))]
    if class_paths:
        settings["spark.driver.extraClassPath"] = os.pathsep.join(class_paths)
    builder = SparkSession.builder.appName("rli-tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


@contextmanager
def small_writes(spark: SparkSession, size: int) -> Iterator[None]:
    """Writes of up to about so many bytes are done in the driver."""
    before = spark.conf.get(SMALL_WRITE_BYTES) or "0"
    spark.conf.set(SMALL_WRITE_BYTES, size)
    try:
        yield
    finally:
        spark.conf.set(SMALL_WRITE_BYTES, before)


def prepare_workers() -> None:
    """Say what the Python workers of this driver run in: with this Python, able to import the helpers of tests by name."""
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH")]))
    os.environ["PYSPARK_PYTHON"] = sys.executable
