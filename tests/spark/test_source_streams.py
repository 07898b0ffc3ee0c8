"""A stream of changes gives each change once, also if its query stops and starts again."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

import rli
import rli_spark
from tests.support.tables import records

IS_SPARK_3 = pyspark.__version__.startswith("3.")

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skip_allowed("PySpark 3 has no Python data sources"),
    pytest.mark.skipif(IS_SPARK_3, reason="PySpark 3 has no Python data sources"),
]


def follow(spark: SparkSession, table: rli.Table, folder: Path, **options: str) -> None:
    """Write the changes that have come to files, and stop."""
    source = spark.readStream.format("rli").options(view="changes", **options).load(table.location)
    sink = source.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    query = sink.trigger(availableNow=True).start(str(folder / "copy"))
    query.awaitTermination()


def seen(spark: SparkSession, folder: Path) -> Counter[tuple[str, str, str]]:
    copy = spark.read.parquet(str(folder / "copy"))
    return Counter(map(tuple, copy.select("id", "_change_type", "_commit_instant").collect()))


def changed(table: rli.Table) -> Counter[tuple[str, str, str]]:
    rows = table.changes().read_all().to_pylist()
    return Counter((row["id"], row["_change_type"], row["_commit_instant"]) for row in rows)


def test_a_stopped_stream_goes_on(spark: SparkSession, table: rli.Table, tmp_path: Path) -> None:
    rli_spark.register(spark)
    table.upsert(records(*((f"k{n}", f"c{n % 3}", 1, float(n)) for n in range(20))))
    follow(spark, table, tmp_path)
    assert seen(spark, tmp_path) == changed(table)
    table.upsert(records(("k1", "c0", 2, 0.0), ("new", "c1", 2, 0.0)))
    table.delete(["k2"])
    follow(spark, table, tmp_path)
    follow(spark, table, tmp_path)
    assert seen(spark, tmp_path) == changed(table)
    # Spark wrote the results of the last batch, but not that it is done: the same batch comes again.
    last = max((tmp_path / "checkpoint" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink()
    table.delete(["k3"])
    follow(spark, table, tmp_path)
    assert seen(spark, tmp_path) == changed(table)


def test_batches_have_a_limit(spark: SparkSession, table: rli.Table, tmp_path: Path) -> None:
    rli_spark.register(spark)
    for number in range(5):
        table.upsert(records((f"k{number}", "x", 1, 0.0)))
    follow(spark, table, tmp_path, max_commits_per_batch="2")
    assert batches(tmp_path) == 3
    assert seen(spark, tmp_path) == changed(table)
    table.delete(["k1"])
    follow(spark, table, tmp_path, max_commits_per_batch="2")
    assert batches(tmp_path) == 4
    assert seen(spark, tmp_path) == changed(table)


def batches(folder: Path) -> int:
    return len(list((folder / "checkpoint" / "commits").glob("[0-9]*")))


def test_limit_is_for_streams(spark: SparkSession, table: rli.Table, tmp_path: Path) -> None:
    rli_spark.register(spark)
    table.upsert(records(("a", "x", 1, 0.0)))
    with pytest.raises(Exception, match="not a number of commits"):
        follow(spark, table, tmp_path, max_commits_per_batch="many")
    with pytest.raises(Exception, match="only a stream has batches"):
        spark.read.format("rli").options(view="changes", max_commits_per_batch="2").load(table.location).count()


def test_streams_have_no_end(spark: SparkSession, table: rli.Table, tmp_path: Path) -> None:
    rli_spark.register(spark)
    table.upsert(records(("a", "x", 1, 0.0)))
    with pytest.raises(Exception, match="a stream reads all changes"):
        follow(spark, table, tmp_path, until="20991231000000000")
