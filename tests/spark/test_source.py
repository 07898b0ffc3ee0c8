"""The format ``rli`` reads what ``Table`` and ``rli_spark.read`` read."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import DataFrame, SparkSession

import rli
import rli_spark
from rli_spark.session.batches import spark_schema
from tests.support.tables import records
from tests.support.types_page import held_types

IS_SPARK_3 = pyspark.__version__.startswith("3.")

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skip_allowed("PySpark 3 has no Python data sources"),
    pytest.mark.skipif(IS_SPARK_3, reason="PySpark 3 has no Python data sources"),
]


@pytest.fixture(autouse=True)
def _registered(spark: SparkSession) -> None:
    rli_spark.register(spark)


@pytest.fixture
def instants(table: rli.Table) -> list[str]:
    rows = [(f"k{number}", f"c{number % 3}", 1, float(number)) for number in range(60)]
    moved = [(f"k{number}", f"c{number % 2}", 2, -float(number)) for number in range(20)]
    written = [table.upsert(records(*some)).instant for some in (rows, moved)]
    written.append(table.delete([f"k{number}" for number in range(5)]).instant)
    return [instant or "" for instant in written]


def loaded(spark: SparkSession, table: rli.Table, **options: str) -> DataFrame:
    return spark.read.format("rli").options(**options).load(table.location)


def rows_of(frame: DataFrame) -> list[dict[str, Any]]:
    return sorted((row.asDict(recursive=True) for row in frame.collect()), key=repr)


def told(table: pa.Table | pa.RecordBatchReader) -> list[dict[str, Any]]:
    found = table.read_all() if isinstance(table, pa.RecordBatchReader) else table
    return sorted(found.to_pylist(), key=repr)


def test_records_are_those_of_python(spark: SparkSession, table: rli.Table, instants: list[str]) -> None:
    assert rows_of(loaded(spark, table)) == told(table.read())
    assert rows_of(loaded(spark, table, as_of=instants[0])) == told(table.read(as_of=instants[0]))
    chosen = loaded(spark, table, columns="v, id", filters="ts > 1 and city = 'c1'")
    assert chosen.columns == ["v", "id"]
    assert rows_of(chosen) == told(table.read(["v", "id"], "ts > 1 and city = 'c1'"))


def test_every_type_is_that_of_read(spark: SparkSession, table: rli.Table) -> None:
    lines = held_types()
    columns = {f"c{number}": line.column()[:1] for number, line in enumerate(lines)}
    table.upsert(pa.table({"id": ["a"], "city": ["x"], "ts": [1], **columns}))
    frame, expected = loaded(spark, table), rli_spark.read(spark, table)
    assert frame.schema == expected.schema
    assert frame.collect() == expected.collect()


def test_old_dates_and_decimals_are_equal(spark: SparkSession, table: rli.Table) -> None:
    days = [date(1, 1, 1), date(1582, 10, 4), date(1582, 10, 15), date(9999, 12, 31)]
    amounts = pa.array([Decimal("-1.50"), None, Decimal("0.00"), Decimal("99999999.99")], pa.decimal128(10, 2))
    names = ["a", "b", "c", "d"]
    keys = {"id": names, "city": ["x"] * 4, "ts": [1] * 4}
    table.upsert(pa.table({**keys, "day": days, "amount": amounts}))
    frame = loaded(spark, table)
    expected = {key: (day - date(1970, 1, 1)) // timedelta(1) for key, day in zip(names, days, strict=True)}
    assert dict(frame.selectExpr("id", "unix_date(day)").collect()) == expected
    assert [row.id for row in frame.where("day < date'1582-10-15'").orderBy("id").collect()] == ["a", "b"]
    assert [row.id for row in frame.where("amount = 99999999.99").collect()] == ["d"]


CONDITIONS = [
    "v > 1",
    "not v > 1",
    "v = 0",
    "n not in (1, 3)",
    "n in (1, 3)",
    "city <> 'x'",
    "n > 1 and n < 99999999999999999999",
    "m > timestamp'2020-01-01 00:00:00'",
    "m is null",
]


def test_pushed_filters_mean_the_same(spark: SparkSession, table: rli.Table) -> None:
    values = {
        "v": pa.array([float("nan"), -0.0, 0.0, 2.0, None]),
        "n": [1, 2, None, 3, 4],
        "m": pa.array([0, 1, 2_000_000_000_000_000, None, 5], pa.timestamp("us", "UTC")),
    }
    rows = pa.table({"id": [*"abcde"], "city": ["x", "y", "x", "xy", "z"], "ts": [1] * 5, **values})
    table.upsert(rows)
    # Rows in memory: neither Parquet's bounds nor those of a cache lose NaN there.
    unpushed = spark.createDataFrame(rli_spark.read(spark, table).collect(), spark_schema(rows.schema))
    for condition in CONDITIONS:
        found = [row.id for row in loaded(spark, table).where(condition).collect()]
        assert sorted(found) == sorted(row.id for row in unpushed.where(condition).collect()), condition


def test_files_are_passed_over_by_filters(spark: SparkSession, table: rli.Table, instants: list[str]) -> None:
    assert instants
    chosen = loaded(spark, table).where("city = 'c1'").drop("v")
    others = [file for file in table.scan().files() if "/c1/" not in file]
    for file in others:
        Path(file).write_bytes(b"broken")
    assert others
    assert chosen.count() == table.read(filters="city = 'c1'").num_rows


def test_tasks_share_the_bytes(spark: SparkSession, table: rli.Table) -> None:
    table.upsert(records(*((f"k{n}", f"c{n % 7}", 1, float(n)) for n in range(700))))
    assert loaded(spark, table).rdd.getNumPartitions() == spark.sparkContext.defaultParallelism


def test_views_show_the_table(spark: SparkSession, table: rli.Table, instants: list[str]) -> None:
    timeline = rows_of(loaded(spark, table, view="timeline"))
    history = table.history()
    assert [(row["time"], row["operation"], row["deleted"]) for row in timeline] == [
        (one.time, one.operation, one.deleted) for one in history
    ]
    files = loaded(spark, table, view="files", as_of=instants[0]).collect()
    assert {row.path for row in files} == {f.split("/trips/")[1] for f in table.scan(as_of=instants[0]).files()}
    (index,) = loaded(spark, table, view="indexes").collect()
    assert (index.entries, index.unseen_commits, index.url) == (55, 0, table.index.url)


def test_changes_are_those_of_python(spark: SparkSession, table: rli.Table, instants: list[str]) -> None:
    frame = loaded(spark, table, view="changes", since=instants[0], images="both")
    assert rows_of(frame) == told(table.changes(instants[0], images="both"))
    ended = loaded(spark, table, view="changes", until=instants[0], columns="id", filters="v > 3")
    assert rows_of(ended) == told(table.changes(until=instants[0], columns=["id"], filters="v > 3"))


def test_an_empty_table_is_read(spark: SparkSession, table: rli.Table, instants: list[str]) -> None:
    assert instants
    table.delete(table.read(["id"]))
    assert loaded(spark, table).collect() == []
    assert loaded(spark, table, view="changes", since=table.history()[-1].time).collect() == []


def test_sql_reads_a_view(spark: SparkSession, table: rli.Table, instants: list[str]) -> None:
    assert instants
    spark.sql(f"create or replace temporary view trips using rli options (path '{table.location}')")
    assert spark.sql("select count(*) from trips where ts = 2").collect()[0][0] == 15


BAD = [
    ({"view": "commits"}, "no such view"),
    ({"since": "20260101000000000"}, "does not take these options"),
    ({"columns": "[1]"}, "not a list of strings"),
    ({"columns": "nobody"}, "has no such columns"),
    ({"as_of": "19990101000000000"}, "InstantNotFoundError"),
]


def test_bad_options_are_named(spark: SparkSession, table: rli.Table, instants: list[str]) -> None:
    assert instants
    for options, message in BAD:
        with pytest.raises(Exception, match=message):
            loaded(spark, table, **options)


def test_missing_tables_are_named(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="TableNotFoundError"):
        spark.read.format("rli").load(str(tmp_path / "nothing"))
    with pytest.raises(Exception, match="no path of a table"):
        spark.read.format("rli").load()


def test_cleaned_files_are_named(spark: SparkSession, table: rli.Table, instants: list[str]) -> None:
    assert instants
    frame = loaded(spark, table)
    # The plan is made by the first look at it.
    assert frame.rdd.getNumPartitions()
    for version in range(3, 6):
        table.upsert(records(*((f"k{number}", "c1", version, 0.0) for number in range(60))))
    table.clean(keep_commits=1)
    with pytest.raises(Exception, match=r"InstantNotFoundError.*read again"):
        frame.rdd.collect()
