"""Dates before the Gregorian calendar and times before 1900, which Spark 3 takes for those of either calendar."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import rli
import rli_spark
from tests.support.spark import small_writes

pytestmark = pytest.mark.spark

DAYS = [date(1, 1, 1), date(1500, 2, 28), date(1582, 10, 4), date(1582, 10, 14), date(1582, 10, 15), date(9999, 12, 31)]
MOMENTS = [datetime(day.year, day.month, day.day, 23, 59, 59, 7, tzinfo=UTC) for day in DAYS]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ROWS = {
    f"k{n}": ((day - EPOCH.date()).days, (moment - EPOCH) // (MOMENTS[0].resolution))
    for n, (day, moment) in enumerate(zip(DAYS, MOMENTS, strict=True))
}


def batch(*, ts: int = 1) -> pa.Table:
    """A record for each day."""
    columns = {"day": pa.array(DAYS), "moment": pa.array(MOMENTS, pa.timestamp("us", "UTC"))}
    return pa.table({"id": [*ROWS], "city": ["x"] * len(DAYS), "ts": [ts] * len(DAYS), **columns})


def numbers(frame: DataFrame) -> dict[str, tuple[int, int]]:
    """Days and microseconds since 1970 by key, as Spark itself counts them."""
    rows = frame.selectExpr("id", "unix_date(day) as day", "unix_micros(moment) as moment").collect()
    return {row.id: (row.day, row.moment) for row in rows}


@pytest.mark.parametrize("small", [0, 1 << 20], ids=["tasks", "driver"])
def test_old_dates_are_equal_everywhere(spark: SparkSession, table: rli.Table, small: int) -> None:
    texts = [(key, "x", 1, str(day), str(moment)) for key, day, moment in zip(ROWS, DAYS, MOMENTS, strict=True)]
    frame = spark.createDataFrame(texts, "id string, city string, ts long, day string, moment string")
    frame = frame.selectExpr("id", "city", "ts", "cast(day as date) day", "cast(moment as timestamp) moment")
    assert numbers(frame) == ROWS
    with small_writes(spark, small):
        rli_spark.upsert(frame, table)
    assert table.read().sort_by("id").equals(batch())
    assert numbers(rli_spark.read(spark, table)) == ROWS
    assert numbers(rli_spark.read(spark, table, keys=frame)) == ROWS
    # Other readers in Spark are told by the files themselves.
    assert numbers(spark.read.parquet(*table.scan().files())) == ROWS


def test_old_dates_of_python_in_spark(spark: SparkSession, table: rli.Table) -> None:
    table.upsert(batch())
    assert numbers(rli_spark.read(spark, table)) == ROWS
    found = rli_spark.read(spark, table, filters=[("day", "<", date(1582, 10, 15))])
    assert sorted(row.id for row in found.select("id").collect()) == ["k0", "k1", "k2", "k3"]


def test_files_that_name_no_calendar(spark: SparkSession, table: rli.Table) -> None:
    """Other writers, and earlier releases, say nothing of the calendar in their files."""
    table.upsert(batch())
    for file in map(Path, table.scan().files()):
        pq.write_table(pq.read_table(file).replace_schema_metadata(None), file, store_schema=False)
    assert numbers(rli_spark.read(spark, table)) == ROWS
