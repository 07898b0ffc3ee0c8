"""Tags and reads."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

import rli
import rli_spark

pytestmark = pytest.mark.spark


@pytest.fixture
def filled(table: rli.Table) -> rli.Table:
    count = 300
    table.upsert(
        pa.table(
            {
                "id": [f"k{n}" for n in range(count)],
                "city": [f"c{n % 3}" for n in range(count)],
                "ts": [1] * count,
                "fare": [float(n) for n in range(count)],
            }
        )
    )
    return table


def test_every_row_gets_its_tag_repeated_keys_too(spark: SparkSession, filled: rli.Table) -> None:
    keys = ["k1", "nobody", "k2", "k1"] * 50
    tagged = rli_spark.tag(spark.createDataFrame([(key, n) for n, key in enumerate(keys)], "id string, n long"), filled)
    rows = {
        row.n: tuple(row[f"_rli_{name}"] for name in ("partition_path", "file_id", "instant_time"))
        for row in tagged.collect()
    }
    expected = [tuple(list(row.values())[1:]) for row in filled.lookup(keys).to_pylist()]
    assert [rows[n] for n in range(len(keys))] == expected
    assert expected[1] == (None, None, None)


def test_an_index_that_is_behind_is_no_source_of_tags(spark: SparkSession, filled: rli.Table) -> None:
    killed = False

    def stop(step: rli.Step) -> None:
        if step is rli.Step.PUBLISHED:
            raise KeyboardInterrupt

    try:
        filled.upsert(pa.table({"id": ["x"], "city": ["c0"], "ts": [1], "fare": [0.0]}), on_step=stop)
    except KeyboardInterrupt:
        killed = True
    assert killed
    batch = spark.createDataFrame([("x",)], "id string")
    with pytest.raises(rli.IndexNotReadyError, match="sync"):
        rli_spark.tag(batch, filled)
    filled.sync_index()
    assert rli_spark.tag(batch, filled).collect()[0]["_rli_partition_path"] == "c0"


def test_reading_gives_the_rows_and_columns_asked_for(spark: SparkSession, filled: rli.Table) -> None:
    assert rli_spark.read(spark, filled).columns == ["id", "city", "ts", "fare"]
    chosen = rli_spark.read(spark, filled, columns=["fare", "_hoodie_record_key"], filters=[("fare", "<", 2.0)])
    assert sorted(map(tuple, chosen.collect())) == [(0.0, "k0"), (1.0, "k1")]
    either = rli_spark.read(spark, filled, filters=[[("id", "=", "k7")], [("city", "=", "c1"), ("fare", "<", 3)]])
    assert sorted(row.id for row in either.collect()) == ["k1", "k7"]


def test_files_that_hold_no_such_record_are_not_read(spark: SparkSession, filled: rli.Table) -> None:
    files = rli_spark.read(spark, filled, filters=[("city", "=", "c1")]).inputFiles()
    assert files
    assert all("/c1/" in file for file in files)
    assert filled.snapshot().matching_slices(pc.field("fare") > 1e9) == []
    assert rli_spark.read(spark, filled, filters=[("fare", ">", 1e9)]).count() == 0


def test_time_travel(spark: SparkSession, filled: rli.Table) -> None:
    first = filled.timeline()[-1].time
    filled.delete([f"k{n}" for n in range(100)])
    assert rli_spark.read(spark, filled).count() == 200
    assert rli_spark.read(spark, filled, as_of=first).count() == 300


def test_unknown_columns_are_named(spark: SparkSession, filled: rli.Table) -> None:
    with pytest.raises(rli.SchemaError, match="nosuch"):
        rli_spark.read(spark, filled, columns=["nosuch"])
    with pytest.raises(rli.SchemaError, match="nosuch"):
        rli_spark.tag(spark.createDataFrame([("x",)], "nosuch string"), filled)
