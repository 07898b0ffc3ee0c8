"""Spark writes what the plain-Python engine would write, on the same table and the same index."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import rli
import rli_spark
from rli.codec import entries
from rli.table.table import opened_table
from tests.support.indexes import record_index
from tests.support.lanes import first_on_every_spark
from tests.support.rows import sorted_rows
from tests.support.soak import in_ci
from tests.support.spark import small_writes

pytestmark = pytest.mark.spark


PLACES = ["tasks", "driver"]
in_tasks = pytest.mark.parametrize("writes_in", in_ci(["tasks"], of=PLACES), indirect=True)
in_driver = pytest.mark.parametrize("writes_in", in_ci(["driver"], of=PLACES), indirect=True)
"""For what CI tests in one of the places."""


@pytest.fixture(autouse=True, params=first_on_every_spark(PLACES))
def writes_in(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    """Who writes the few records of a test."""
    with small_writes(spark, 1 << 22 if request.param == "driver" else 0):
        yield request.param


def frame(spark: SparkSession, *rows: tuple[str | None, str, int, float]) -> DataFrame:
    return spark.createDataFrame(list(rows), "id string, city string, ts long, fare double")


def arrow(*rows: tuple[str, str, int, float]) -> pa.Table:
    names = ("id", "city", "ts", "fare")
    return pa.table({name: [row[position] for row in rows] for position, name in enumerate(names)})


def stored(table: rli.Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.read(columns=["id", "city", "ts", "fare"]).to_pylist())


def test_inserts_updates_moves_and_late_events(spark: SparkSession, table: rli.Table) -> None:
    rli_spark.upsert(frame(spark, ("a", "Rome", 5, 1.0), ("b", "Rome", 5, 1.0), ("c", "Oslo", 5, 1.0)), table)
    batch = frame(
        spark,
        ("a", "Rome", 6, 2.0),  # update
        ("b", "Bern", 6, 2.0),  # move
        ("c", "Rome", 4, 2.0),  # would move, but is late
        ("d", "Rome", 1, 2.0),  # insert
    )
    result = rli_spark.upsert(batch, table)
    assert (result.inserted, result.updated, result.moved, result.unchanged) == (1, 1, 1, 1)
    assert stored(table) == [
        ("a", "Rome", 6, 2.0), ("b", "Bern", 6, 2.0), ("c", "Oslo", 5, 1.0), ("d", "Rome", 1, 2.0)
    ]  # fmt: skip
    assert table.verify_index().agrees


def test_greatest_ordering_value_wins(spark: SparkSession, table: rli.Table) -> None:
    rows = [("a", f"city {n % 3}", n, float(n)) for n in range(50)]
    result = rli_spark.upsert(frame(spark, *rows).repartition(4), table)
    assert result.inserted == 1
    assert stored(table) == [("a", "city 1", 49, 49.0)]


@pytest.mark.one_spark
@in_tasks
def test_equal_rows_are_deduplicated_across_partitions(spark: SparkSession, table: rli.Table) -> None:
    rows = [("a", city, 1, 1.0) for city in ("Rome", "Oslo", "Bern")]
    rli_spark.upsert(frame(spark, *rows).repartition(3), table)
    assert len(stored(table)) == 1
    assert table.verify_index().agrees


def test_both_engines_make_the_same_table(spark: SparkSession, table: rli.Table, tmp_path: Path) -> None:
    other = rli.create_table(
        tmp_path / "other", record_key="id", partition_by="city", ordering="ts", index=f"lmdb://{tmp_path / 'other-i'}"
    )
    batches = [
        [(f"k{n}", f"c{n % 4}", 1, float(n)) for n in range(200)],
        [(f"k{n}", f"c{n % 5}", n % 3, float(-n)) for n in range(100, 300)],
        [(f"k{n}", f"c{n % 4}", 2, 0.5) for n in range(0, 400, 7)],
    ]
    for batch in batches:
        ours = rli_spark.upsert(frame(spark, *batch), table)
        theirs = other.upsert(arrow(*batch))
        counted = ("inserted", "updated", "moved", "deleted", "unchanged")
        assert [getattr(ours, name) for name in counted] == [getattr(theirs, name) for name in counted]
    assert stored(table) == stored(other)


@pytest.mark.one_spark
@in_driver
def test_python_and_spark_alternate_on_table(spark: SparkSession, table: rli.Table) -> None:
    table.upsert(arrow(("a", "Rome", 1, 1.0), ("b", "Rome", 1, 1.0)))
    rli_spark.upsert(frame(spark, ("a", "Oslo", 2, 2.0)), table)
    result = table.upsert(arrow(("a", "Oslo", 3, 3.0), ("c", "Bern", 1, 1.0)))
    assert (result.inserted, result.updated) == (1, 1)
    assert stored(table) == [("a", "Oslo", 3, 3.0), ("b", "Rome", 1, 1.0), ("c", "Bern", 1, 1.0)]


def test_deletes_by_key_alone(spark: SparkSession, table: rli.Table) -> None:
    rli_spark.upsert(frame(spark, ("a", "Rome", 1, 1.0), ("b", "Oslo", 1, 1.0)), table)
    result = rli_spark.delete(spark.createDataFrame([("a",), ("a",), ("nobody",)], "id string"), table)
    assert (result.deleted, result.unchanged) == (1, 1)
    assert stored(table) == [("b", "Oslo", 1, 1.0)]
    assert table.verify_index().agrees


@pytest.mark.one_spark
@in_driver
def test_keep_leaves_record_in_its_partition(spark: SparkSession, table: rli.Table) -> None:
    rli_spark.upsert(frame(spark, ("a", "Rome", 1, 1.0)), table)
    result = rli_spark.upsert(frame(spark, ("a", "Oslo", 2, 2.0)), table, on_partition_change="keep")
    assert (result.updated, result.moved) == (1, 0)
    assert stored(table) == [("a", "Rome", 2, 2.0)]


BAD_RECORDS: list[tuple[tuple[Any, ...], type[rli.RliError]]] = [
    ((None, "Rome", 1, 1.0), rli.InvalidKeyError),
    (("", "Rome", 1, 1.0), rli.InvalidKeyError),
    (("a", "Rome", None, 1.0), rli.SchemaError),
    (("a", "..", 1, 1.0), rli.InvalidKeyError),
    (("a", "Oslo", 9, 1.0), rli.PartitionChangeError),
]


@pytest.mark.parametrize(("bad", "error"), first_on_every_spark(BAD_RECORDS))
@in_tasks
def test_bad_record_fails_whole_batch(
    spark: SparkSession, table: rli.Table, bad: tuple[Any, ...], error: type[rli.RliError]
) -> None:
    rli_spark.upsert(frame(spark, ("a", "Rome", 1, 1.0)), table)
    before = (stored(table), [instant.time for instant in table.timeline()])
    with pytest.raises(error):
        rli_spark.upsert(frame(spark, ("ok", "Rome", 1, 1.0), bad), table, on_partition_change="fail")
    assert (stored(table), [instant.time for instant in table.timeline()]) == before
    assert table.verify_index().agrees


@pytest.mark.one_spark
@in_driver
def test_missing_column_fails_early(spark: SparkSession, table: rli.Table) -> None:
    rows = frame(spark, ("a", "Rome", 1, 1.0))
    for column in ("id", "city", "ts"):
        with pytest.raises(rli.SchemaError, match=column):
            rli_spark.upsert(rows.drop(column), table)
    assert table.timeline() == ()


@in_tasks
def test_nested_types_and_maps_round_trip(spark: SparkSession, table: rli.Table) -> None:
    rows = spark.range(20).select(
        F.concat(F.lit("k"), F.col("id")).alias("id"),
        F.lit("Rome").alias("city"),
        F.lit(1).alias("ts"),
        F.array(F.col("id"), F.col("id") + 1).alias("stops"),
        F.create_map(F.lit("n"), F.col("id")).alias("notes"),
        F.struct(F.col("id").alias("no"), F.lit("x").alias("kind")).alias("car"),
        F.col("id").cast("decimal(10,2)").alias("price"),
        F.timestamp_seconds(F.col("id")).alias("at"),
        F.date_from_unix_date(F.col("id").cast("int")).alias("day"),
    )
    rli_spark.upsert(rows, table)
    ours = rli_spark.read(spark, table).orderBy("id").collect()
    assert ours == rows.orderBy("id").collect()


@pytest.mark.one_spark
@in_tasks
def test_added_columns_read_as_null(spark: SparkSession, table: rli.Table) -> None:
    rli_spark.upsert(frame(spark, ("a", "Rome", 1, 1.0)), table)
    rli_spark.upsert(frame(spark, ("b", "Oslo", 1, 1.0)).withColumn("tip", F.lit(2)), table)
    read = rli_spark.read(spark, table, columns=["id", "tip"])
    assert sorted(map(tuple, read.collect())) == [("a", None), ("b", 2)]
    with pytest.raises(rli.SchemaError, match="tip"):
        rli_spark.upsert(frame(spark, ("c", "Oslo", 1, 1.0)), table)


@pytest.mark.one_spark
def test_insert_skips_known_keys(spark: SparkSession, table: rli.Table) -> None:
    table.upsert(arrow(("a", "Rome", 5, 1.0)))
    rows = [("a", "Oslo", 6, 2.0), *((f"b{key}", f"city {n}", n, 2.0) for key in range(3) for n in (3, 1, 2))]
    result = rli_spark.insert(frame(spark, *rows).repartition(4), table)
    assert (result.inserted, result.unchanged) == (3, 1)
    assert stored(table) == [("a", "Rome", 5, 1.0), *((f"b{key}", "city 1", 1, 2.0) for key in range(3))]
    with pytest.raises(rli.RecordExistsError, match="keys="):
        rli_spark.insert(frame(spark, ("a", "Oslo", 6, 2.0)), table, on_existing="fail")
    assert table.verify_index().agrees


@pytest.mark.one_spark
@in_driver
def test_missing_columns_keep_stored_values(spark: SparkSession, table: rli.Table) -> None:
    table.upsert(arrow(("a", "Rome", 5, 1.0), ("b", "Rome", 5, 2.0)))
    rows = [("a", "Rome", 6, 0.0), ("b", "Bern", 6, 0.0), ("c", "Bern", 6, 0.0)]
    result = rli_spark.upsert(frame(spark, *rows).drop("fare"), table, missing="keep")
    assert (result.inserted, result.updated, result.moved) == (1, 1, 1)
    assert stored(table) == [("a", "Rome", 6, 1.0), ("b", "Bern", 6, 2.0), ("c", "Bern", 6, None)]


@pytest.mark.one_spark
def test_small_files_fill_and_large_split(spark: SparkSession, table: rli.Table) -> None:
    rows = spark.range(20_000).select(
        F.concat(F.lit("k"), F.col("id")).alias("id"),
        F.lit("Rome").alias("city"),
        F.lit(1).cast("long").alias("ts"),
        F.rand(seed=1).alias("fare"),
    )
    first = rli_spark.upsert(rows, table)
    assert first.files_created > 1
    files = len(opened_table(table).snapshot().slices)
    rli_spark.upsert(frame(spark, ("new", "Rome", 1, 1.0)), table)
    assert len(opened_table(table).snapshot().slices) == files
    assert table.verify_index().agrees


@in_tasks
def test_small_files_are_clustered_by_tasks(spark: SparkSession, tmp_path: Path) -> None:
    table = rli.create_table(
        tmp_path / "t", record_key="id", partition_by="city", index=f"lmdb://{tmp_path / 'i'}", small_file_size=0
    )
    for number in range(3):
        table.upsert(arrow(*((f"{city}{number}", city, 1, 1.0) for city in ("Rome", "Oslo"))))
    rows, keys = stored(table), ["Rome0", "Rome2", "Oslo1"]
    instants = table.lookup(keys)["instant_time"]
    result = rli_spark.cluster(spark, table)
    assert (result.files_replaced, result.files_created) == (6, 2)
    assert stored(table) == rows
    assert table.lookup(keys)["instant_time"] == instants
    assert table.verify_index().agrees
    assert rli_spark.cluster(spark, table).instant is None
    table.upsert(arrow(("Rome11", "Rome", 1, 1.0)))
    rows = stored(table)
    assert rli_spark.cluster(spark, table, sort_by=["lower(id)", "ts"]).files_replaced == 2
    assert stored(table) == rows


@pytest.mark.one_spark
@in_driver
def test_an_empty_batch_commits_nothing(spark: SparkSession, table: rli.Table) -> None:
    assert rli_spark.upsert(frame(spark), table).instant is None
    assert table.timeline() == ()


@in_tasks
def test_bootstrap_builds_the_same_index(spark: SparkSession, table: rli.Table) -> None:
    keys = [f"k{n}" for n in range(300)]
    rli_spark.upsert(frame(spark, *((key, f"c{len(key)}", 1, 1.0) for key in keys)), table)
    before = table.lookup(keys)
    table.drop_index()
    with pytest.raises(rli.IndexNotReadyError, match="bootstrap"):
        rli_spark.tag(frame(spark), table)
    assert rli_spark.bootstrap_index(spark, table) == len(keys)
    assert sorted_rows(table.lookup(keys)) == sorted_rows(before)


@pytest.mark.one_spark
@in_driver
def test_verify_finds_missing_entries(spark: SparkSession, table: rli.Table) -> None:
    rli_spark.upsert(frame(spark, ("b", "Oslo", 1, 1.0)), table)
    rli_spark.upsert(frame(spark, ("a", "Rome", 1, 1.0)), table)
    assert rli_spark.verify_index(spark, table).agrees
    index = record_index(table)
    index.put(pa.array(["b"]), entries.pack(index.log.refresh().head, np.array([entries.TOMBSTONE])))
    found = rli_spark.verify_index(spark, table)
    assert (found.records, found.missing, found.sample) == (2, 1, ("b",))
