"""Columns of Spark as filters of a read: the files that Spark reads hold all records for which the column is true."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from itertools import cycle, islice
from typing import Any, Final

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (the name that everybody knows)

import rli
import rli_spark
from rli.table.table import opened_table
from rli_spark.reads.columns import implied_filter

pytestmark = pytest.mark.spark

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
VALUES: Final[dict[str, list[Any]]] = {
    "name": ["x", "X", None, "straße", "STRASSE", "İx", "K", "", 'it\'s "q"', "a%b", "a\\b"],
    "n": [1, None, 2, -3, 0, 7, 3],
    "f": [1.5, math.nan, None, -0.0, 0.0, math.inf, 2.5],
    "at": [NOON + timedelta(hours=hours) for hours in range(0, 9 * 240, 9)],
    "day": [date(2024, 5, 1) + timedelta(days=days) for days in range(0, 400, 7)],
    "local": [NOON.replace(hour=hour, tzinfo=None) for hour in range(24)],
}
TYPES = {"n": pa.int16(), "at": pa.timestamp("us", "UTC"), "local": pa.timestamp("us")}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> rli.Table:
    """A file for each of eight partitions; of the hour of ``at``, each partition has one."""
    made = rli.create_table(tmp_path_factory.mktemp("t"), record_key="id", partition_by="part", index="simple:")
    count = 240
    columns = {name: pa.array(islice(cycle(values), count), TYPES.get(name)) for name, values in VALUES.items()}
    parts = [f"p{number % 8}" for number in range(count)]
    made.upsert(pa.table({"id": [str(number) for number in range(count)], "part": parts, **columns}))
    made.create_index("by_hour", on="at", expression="hour(at)")
    return made


def understood() -> list[Column]:
    """Columns of which files can be passed over, in a session whose clock is UTC."""
    return [
        F.hour("at") == 3,
        F.lower("name").isin("x", "k"),
        F.upper("name") == "K",
        F.col("N").between(1, 2),
        (F.col("n") > 1) & ~(F.col("name") == "x") | F.col("f").isNull(),
        F.col("name").like("a%") & (F.rand() >= 0),
        F.col("name").startswith("a%"),
        F.col("name") == 'it\'s "q"',
        F.col("name") == "a\\b",
        F.col("f") < 1.6,
        ~(F.col("f") < 1.6),
        F.col("f") == -0.0,
        F.col("at") >= "2024-05-03",
        F.col("day") == date(2024, 5, 8),
        F.year("day") == 2024,
        F.substring("name", 1, 1) == "x",
        F.col("n") % 2 == 1,
        F.col("n").eqNullSafe(2),
        F.lit(3) < F.col("n"),
        F.date_trunc("month", "at") == datetime(2024, 6, 1, tzinfo=UTC),
    ]


def not_understood() -> list[Column]:
    """Columns that Spark alone understands, or for which NaN, null or a letter counts otherwise."""
    return [
        F.upper("name") == "STRASSE",
        F.col("f") > 1.5,
        F.col("f") == F.lit(math.nan),
        ~F.col("n").eqNullSafe(2),
        ~(F.lower("name") == "x"),
        (F.col("part") == "p1") | (F.col("f") > 2),
        F.col("n") + 1 == 2,
        F.col("at") < F.current_timestamp(),
        F.col("n") == 1.5,
        F.expr("case when n = 1 then true else false end"),
    ]


@contextmanager
def time_zone(spark: SparkSession, zone: str) -> Iterator[None]:
    before = str(spark.conf.get("spark.sql.session.timeZone"))
    spark.conf.set("spark.sql.session.timeZone", zone)
    yield
    spark.conf.set("spark.sql.session.timeZone", before)


def implied(spark: SparkSession, table: rli.Table, column: Column) -> str | None:
    schema = opened_table(table).snapshot().schema
    assert schema is not None
    return implied_filter(spark, column, schema)


def require_all_found(spark: SparkSession, table: rli.Table, columns: list[Column]) -> list[str | None]:
    """What is told of each column: rli finds at least the records for which Spark finds the column true."""
    frame = rli_spark.read(spark, table)
    rows = frame.select("id", *(column.alias(str(number)) for number, column in enumerate(columns))).collect()
    told = [implied(spark, table, column) for column in columns]
    for number, text in enumerate(told):
        found = {row["id"] for row in table.read(["id"], filters=text).to_pylist()}
        assert found >= {row.id for row in rows if row[str(number)]}, (columns[number], text)
    return told


def test_no_record_is_passed_over(spark: SparkSession, table: rli.Table) -> None:
    with time_zone(spark, "UTC"):
        told = require_all_found(spark, table, [*understood(), *not_understood()])
    count = len(understood())
    assert None not in told[:count]
    assert {*told[count:]} == {None}


def test_clocks_of_other_zones(spark: SparkSession, table: rli.Table) -> None:
    local = [F.hour("local") == 3, F.col("local") < NOON, F.col("at") < F.col("local")]
    with time_zone(spark, "America/New_York"):
        told = require_all_found(spark, table, [*understood(), *local])
        assert [told[0], told[-len(local)]] == [None, None]
        found = rli_spark.read(spark, table, ["id"], F.hour("at") == 5)
        assert found.count() == rli_spark.read(spark, table).where("hour(at) = 5").count() > 0


def test_files_are_passed_over(spark: SparkSession, table: rli.Table) -> None:
    with time_zone(spark, "UTC"):
        by_index = rli_spark.read(spark, table, ["id"], (F.hour("at") == 3) & (F.rand() >= 0))
        assert len(by_index.inputFiles()) == 1
        assert sorted(by_index.collect()) == sorted(
            rli_spark.read(spark, table).where("hour(at) = 3").select("id").collect()
        )
    by_partition = rli_spark.read(spark, table, filters=F.col("part").isin("p1", "p2"))
    assert (len(by_partition.inputFiles()), by_partition.count()) == (2, 60)
    assert by_partition.columns == table.read().column_names


def test_columns_filter_records_of_keys(spark: SparkSession, table: rli.Table) -> None:
    keys = spark.createDataFrame([("1",), ("3",), ("9",)], "id string")
    found = rli_spark.read(spark, table, ["id"], F.col("part") == "p1", keys=keys)
    assert sorted(row.id for row in found.collect()) == ["1", "9"]
    values = spark.createDataFrame([(7,), (3,)], "n short")
    found = rli_spark.read(spark, table, ["id"], F.col("part") == "p5", keys=values, on="n")
    expected = table.read(["id"], filters="n in (3, 7) and part = 'p5'")["id"].to_pylist()
    assert sorted(row.id for row in found.collect()) == sorted(expected)


def test_an_unknown_column_is_refused(spark: SparkSession, table: rli.Table) -> None:
    with pytest.raises(AnalysisException, match="nowhere"):
        rli_spark.read(spark, table, filters=F.col("nowhere") == 1)
