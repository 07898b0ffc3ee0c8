"""Spark and plain Python write one table in S3, and Spark reads it by Hadoop's own connector."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import rli
import rli_spark
from tests.support.children import start_child
from tests.support.object_store import ObjectStore
from tests.support.spark import spark_session
from tests.support.spark_packages import S3_PACKAGES
from tests.support.tables import check_stored

# Hudi's mark keeps it to PySpark 3.5, whose Hadoop the connector is for.
pytestmark = [pytest.mark.spark, pytest.mark.hudi, pytest.mark.slow]

CITIES = "xyz"


def rows(start: int, end: int, version: int) -> pa.Table:
    numbers = range(start, end)
    return pa.table(
        {
            "id": [f"k{number}" for number in numbers],
            "city": [CITIES[number % 3] for number in numbers],
            "ts": [version for _ in numbers],
        }
    )


def frame(session: SparkSession, start: int, end: int, version: int) -> DataFrame:
    return session.createDataFrame(rows(start, end, version).to_pylist(), "id string, city string, ts long")


def write_and_read(location: str, server: ObjectStore) -> None:
    """A child's work, whose JVM has the connector."""
    session = spark_session(packages=S3_PACKAGES)
    hadoop = session.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001
    hadoop.set("fs.s3a.endpoint", server.url)
    hadoop.set("fs.s3a.path.style.access", "true")
    hadoop.set("fs.s3a.access.key", server.options["access_key_id"])
    hadoop.set("fs.s3a.secret.key", server.options["secret_access_key"])
    ours = rli.open_table(location, storage_options=server.options)
    theirs = rli.open_table(location, storage_options=server.options)
    assert rli_spark.upsert(frame(session, 0, 300, 1), ours).inserted == 300
    result = theirs.upsert(rows(200, 400, 2))
    assert (result.inserted, result.updated) == (100, 100)
    result = rli_spark.upsert(frame(session, 350, 450, 3), ours)
    assert (result.inserted, result.updated) == (50, 50)
    read = rli_spark.read(session, ours)
    assert {row.id: row.ts for row in read.collect()} == expected()
    assert rli_spark.tag(frame(session, 0, 500, 4), ours).where("_rli_file_id is null").count() == 50


def expected() -> dict[str, int]:
    return {f"k{number}": 3 if number >= 350 else 2 if number >= 200 else 1 for number in range(450)}


def test_spark_and_python_share_table(object_store: ObjectStore, tmp_path: Path) -> None:
    location = f"s3://{object_store.new_bucket()}/my trips"
    table = rli.create_table(
        location.replace(" ", "%20"),
        record_key="id",
        partition_by="city",
        ordering="ts",
        index=f"lmdb://{tmp_path}/i",
        storage_options=object_store.options,
    )
    child = start_child(write_and_read, table.location, object_store)
    child.join()
    assert child.exitcode == 0
    read = table.read(columns=["id", "ts"]).to_pylist()
    assert {row["id"]: row["ts"] for row in read} == expected()
    assert len(read) == len(expected())
    check_stored(table)
