"""Changes read in Spark are those that plain Python reads."""

from __future__ import annotations

from typing import Any

import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

import rli
import rli_spark
from tests.support.lanes import first_on_every_spark
from tests.support.tables import records

pytestmark = pytest.mark.spark


def told(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["_completion_time"], row["id"], row["_change_type"]))


@pytest.fixture
def instants(table: rli.Table) -> list[str]:
    rows = [(f"k{number}", f"c{number % 3}", 1, float(number)) for number in range(60)]
    moved = [(f"k{number}", f"c{number % 2}", 2, -float(number)) for number in range(20)]
    written = [table.upsert(records(*some)).instant for some in (rows, moved)]
    written.append(table.delete([f"k{number}" for number in range(5)]).instant)
    return [instant or "" for instant in written]


@pytest.mark.parametrize(
    ("images", "filters"), first_on_every_spark([("after", "v < 0 and city = 'c1'"), ("both", None)])
)
def test_spark_tells_what_python_tells(
    spark: SparkSession, table: rli.Table, instants: list[str], images: str, filters: str | None
) -> None:
    for since in (None, *instants):
        frame = rli_spark.changes(spark, table, since, images=images, filters=filters)
        expected = table.changes(since, images=images, filters=filters).read_all().to_pylist()
        assert told([row.asDict() for row in frame.collect()]) == told(expected)


@pytest.mark.one_spark
def test_columns_and_ends_choose(spark: SparkSession, table: rli.Table, instants: list[str]) -> None:
    frame = rli_spark.changes(spark, table, instants[0], instants[1], columns=["id"])
    assert frame.columns == ["id", "_change_type", "_commit_instant", "_completion_time"]
    assert frame.count() == 20


def test_bad_arguments_are_named(spark: SparkSession, table: rli.Table, instants: list[str]) -> None:
    assert instants
    with pytest.raises(rli.InvalidInputError, match="pyarrow expression"):
        rli_spark.changes(spark, table, filters=pc.field("v") > 1)
    with pytest.raises(rli.InvalidInputError, match="Spark session"):
        rli_spark.changes(table, spark)  # type: ignore[arg-type]  # what is tested


@pytest.mark.one_spark
def test_removed_files_are_named(spark: SparkSession, table: rli.Table, instants: list[str]) -> None:
    frame = rli_spark.changes(spark, table, instants[0])
    table.clean(keep_commits=1)
    with pytest.raises(Exception, match="InstantNotFoundError"):
        frame.collect()
