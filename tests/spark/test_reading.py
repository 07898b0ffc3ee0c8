"""Tags and reads."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

import rli
import rli_spark
from rli.storage import Storage
from rli_spark.reads.hadoop_paths import hadoop_paths
from tests.support.filter_cases import KINDS, NAN, FilterCases

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


def test_every_row_gets_its_tag(spark: SparkSession, filled: rli.Table) -> None:
    keys = ["k1", "nobody", "k2", "k1"] * 50
    tagged = rli_spark.tag(spark.createDataFrame([(key, n) for n, key in enumerate(keys)], "id string, n long"), filled)
    rows = {
        row.n: tuple(row[f"_rli_{name}"] for name in ("partition_path", "file_id", "instant_time"))
        for row in tagged.collect()
    }
    expected = [tuple(list(row.values())[1:]) for row in filled.lookup(keys).to_pylist()]
    assert [rows[n] for n in range(len(keys))] == expected
    assert expected[1] == (None, None, None)


@pytest.mark.one_spark
def test_tagging_catches_up_lagging_index(spark: SparkSession, filled: rli.Table) -> None:
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
    assert rli_spark.tag(batch, filled).collect()[0]["_rli_partition_path"] == "c0"


def test_read_gives_requested_rows_and_columns(spark: SparkSession, filled: rli.Table) -> None:
    assert rli_spark.read(spark, filled).columns == ["id", "city", "ts", "fare"]
    chosen = rli_spark.read(spark, filled, columns=["fare", "_hoodie_record_key"], filters=[("fare", "<", 2.0)])
    assert sorted(map(tuple, chosen.collect())) == [(0.0, "k0"), (1.0, "k1")]
    either = rli_spark.read(spark, filled, filters=[[("id", "=", "k7")], [("city", "=", "c1"), ("fare", "<", 3)]])
    assert sorted(row.id for row in either.collect()) == ["k1", "k7"]


@pytest.mark.one_spark
def test_irrelevant_files_are_not_read(spark: SparkSession, filled: rli.Table) -> None:
    files = rli_spark.read(spark, filled, filters=[("city", "=", "c1")]).inputFiles()
    assert files
    assert all("/c1/" in file for file in files)
    assert filled.scan(filters=pc.field("fare") > 1e9).files() == []
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


@pytest.mark.parametrize("folders", ["plain", "encoded"])
def test_glob_characters_in_folders_are_literal(spark: SparkSession, tmp_path: Path, folders: str) -> None:
    folder = tmp_path / "trips [of] {20%25,*} a#b?c"
    table = rli.create_table(
        folder,
        record_key="id",
        partition_by="city",
        index=f"lmdb://{tmp_path / 'index'}",
        hive_style=folders == "encoded",
        url_encode_partitions=folders == "encoded",
    )
    # As a pattern, each of the last ones matches some of the first.
    cities = ["a", "b", "ab", "a[b", "a{b", "a\\b", "50 %", "a#b", "[ab]", "{a,b}", "a*", "?", "a\\*"]
    table.upsert(pa.table({"id": [f"k{n}" for n in range(len(cities))], "city": cities}))
    read = rli_spark.read(spark, table)
    assert {row.id: row.city for row in read.collect()} == {f"k{n}": city for n, city in enumerate(cities)}
    for city in ("[ab]", "{a,b}", "a\\*"):
        assert [row.city for row in rli_spark.read(spark, table, filters=[("city", "=", city)]).collect()] == [city]


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("s3://lake/db/my%20trips", "s3a://lake/db/my trips"),
        ("s3://lake/lake", "s3a://lake/lake"),
        ("s3://lake", "s3a://lake"),
        ("abfss://lake@account.dfs.core.windows.net/db/t", "abfss://lake@account.dfs.core.windows.net/db/t"),
        ("file:///data/my%20trips", "file:///data/my trips"),
        ("/data/100%25", "file:///data/100%25"),
    ],
)
def test_hadoop_reads_table_under_known_scheme(spark: SparkSession, location: str, expected: str) -> None:
    assert hadoop_paths(spark, Storage(location), ["p/f"]) == [f"{expected}/p/f"]


def test_records_of_keys(spark: SparkSession, filled: rli.Table) -> None:
    filled.delete(["k7"])
    keys = spark.createDataFrame([("k1", 1), ("nobody", 2), ("k250", 3), ("k1", 4), ("k7", 5)], "id string, n long")
    found = rli_spark.read(spark, filled, keys=keys)
    # What comes later does not matter: a record that moves and the file that held it, while that is kept.
    filled.upsert(pa.table({"id": ["k1"], "city": ["c9"], "ts": [2], "fare": [0.5]}))
    rows = [("k1", "c1", 1, 1.0), ("k250", "c1", 1, 250.0)]
    assert sorted(map(tuple, found.collect())) == rows
    now = rli_spark.read(spark, filled, keys=keys, columns=["fare"], filters=[("city", "=", "c9"), ("ts", ">", 1)])
    assert list(map(tuple, now.collect())) == [(0.5,)]
    assert rli_spark.read(spark, filled, keys=keys.where("id = 'nobody'")).count() == 0


def test_misuse_of_keys(spark: SparkSession, filled: rli.Table) -> None:
    with pytest.raises(rli.InvalidInputError, match="no Spark frame: type=list"):
        rli_spark.read(spark, filled, keys=["k1"])  # type: ignore[arg-type]
    keys = spark.createDataFrame([("k1",)], "key string")
    with pytest.raises(rli.InvalidInputError, match="present alone"):
        rli_spark.read(spark, filled, keys=keys, as_of="20240101000000000")
    with pytest.raises(rli.SchemaError, match="column is missing: column=id"):
        rli_spark.read(spark, filled, keys=keys)


@pytest.mark.one_spark
def test_filter_passes_same_rows_as_table(spark: SparkSession, tmp_path: Path) -> None:
    cases = FilterCases(random.Random(7), "s")
    table = rli.create_table(tmp_path / "t", record_key="id", partition_by="p", index="simple:")
    for _ in range(3):
        table.upsert(cases.records(15, list(KINDS)))
    filters = [form for _ in range(14) for form in cases.case(2).forms if not isinstance(form, pc.Expression)]
    filters += ["f64 != 5", "not f64 > 3", "f32 in (0, 1)", "f64 > f32", [("f64", "in", [NAN, None])], "f64 == 0"]
    full = table.read()
    for one in filters:
        try:
            expected = sorted(table.read(filters=one)["id"].to_pylist())
        except rli.SchemaError:
            # A value is not exact in the type that pyarrow compares in.
            continue
        found = rli_spark.read(spark, table, columns=["id"], filters=one).collect()
        assert sorted(row.id for row in found) == expected, one
    keys = spark.createDataFrame([(key,) for key in sorted(set(full["id"].to_pylist()))], "id string")
    of_keys = rli_spark.read(spark, table, keys=keys, columns=["id"], filters="f64 != 5").collect()
    assert sorted(row.id for row in of_keys) == sorted(table.read(filters="f64 != 5")["id"].to_pylist())


def test_pyarrow_expressions_are_refused(spark: SparkSession, filled: rli.Table) -> None:
    with pytest.raises(rli.InvalidInputError, match="pyarrow expression"):
        rli_spark.read(spark, filled, filters=pc.field("fare") > 1)
