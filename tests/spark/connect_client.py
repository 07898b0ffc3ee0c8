"""A client of Spark Connect that uses all of rli_spark; run by test_connect.py in a process of its own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

import rli
import rli_spark
from tests.support.java import SHORT_LIVED_SPARK
from tests.support.spark import prepare_workers

COLUMNS: Final = "id string, city string, ts long"

# Of the server. By Spark's default, each shuffle has 200 partitions.
_SETTINGS: Final = {
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": SHORT_LIVED_SPARK,
    "spark.default.parallelism": "2",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}


def main(folder: Path) -> None:
    """Write, tag, read, cluster and bootstrap a table, use an index alone, and build a metadata table."""
    prepare_workers()
    builder = SparkSession.builder.remote("local[2]")
    for name, value in _SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    table = rli.create_table(folder / "table", record_key="id", partition_by="city", ordering="ts")
    batch = spark.createDataFrame([("a", "Rome", 1), ("b", "Oslo", 1), ("c", "Rome", 1)], COLUMNS)
    assert rli_spark.upsert(batch, table).inserted == 3
    moved = rli_spark.upsert(spark.createDataFrame([("b", "Bern", 2), ("d", "Rome", 1)], COLUMNS), table)
    assert (moved.inserted, moved.moved) == (1, 1)
    places = {row["id"]: row["_rli_partition_path"] for row in rli_spark.tag(batch, table).collect()}
    assert places == {"a": "Rome", "b": "Bern", "c": "Rome"}
    assert rli_spark.delete(spark.createDataFrame([("a",)], "id string"), table).deleted == 1
    rli_spark.cluster(spark, table)
    assert sorted(row["id"] for row in rli_spark.read(spark, table).collect()) == ["b", "c", "d"]
    keys = spark.createDataFrame([("b",), ("nobody",)], "id string")
    assert [row["city"] for row in rli_spark.read(spark, table, keys=keys).collect()] == ["Bern"]
    assert rli_spark.insert(spark.createDataFrame([("d", "Oslo", 9), ("e", "Oslo", 1)], COLUMNS), table).inserted == 1
    changes = spark.createDataFrame([("e", "Oslo", 2, "u"), ("b", None, 9, "d")], f"{COLUMNS}, op string")
    merged = rli_spark.merge(changes, table, op="op", when="source.ts > target.ts")
    assert (merged.updated, merged.deleted) == (1, 1)
    replaced = spark.createDataFrame([("d", "Rome", 1), ("n", "Rome", 1)], COLUMNS)
    assert rli_spark.overwrite_partitions(replaced, table).inserted == 1
    assert rli_spark.drop_partitions(spark, table, ["Oslo"]).deleted == 1
    rli_spark.bootstrap_index(spark, table)
    assert rli_spark.verify_index(spark, table).agrees
    rli_spark.register_functions(spark)
    found = spark.sql(f"SELECT * FROM rli_lookup('{folder}/table', TABLE(SELECT 'n' AS id))").collect()  # noqa: S608  (of this test)
    assert [row["partition_path"] for row in found] == ["Rome"]
    refused(lambda: rli_spark.upsert(batch.selectExpr("cast(null as string) id", "city", "ts"), table))
    with rli.create_index(f"lmdb://{folder}/alone") as index, index.begin() as txn:
        rli_spark.stage(batch.selectExpr("id record_key", "city partition_path", "'-' file_id"), txn)
        assert txn.commit().placed == 3
        found = rli_spark.tag(batch, index, record_key="id").collect()
        assert {row["_rli_partition_path"] for row in found} == {"Rome", "Oslo"}
    files = rli.create_table(
        folder / "files", record_key="id", partition_by="city", ordering="ts", index="global-simple:"
    )
    assert rli_spark.upsert(batch, files).inserted == 3
    assert rli_spark.upsert(batch, files).unchanged == 3
    assert {row["_rli_partition_path"] for row in rli_spark.tag(batch, files).collect()} == {"Rome", "Oslo"}
    assert "record_index" in rli_spark.enable_metadata(spark, files, ["column_stats", "record_index"]).added
    assert files.metadata.verify() == ()
    spark.stop()


def refused(write: object) -> None:
    """Errors of executors reach the caller as they were raised."""
    assert callable(write)
    try:
        write()
    except rli.InvalidKeyError:
        return
    raise AssertionError("a null key was written")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
