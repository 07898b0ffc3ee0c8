"""Spark reads and writes a table whose types have grown: its files have the types of their time."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, Row, SparkSession

import rli
import rli_spark
from rli_spark.session.batches import spark_schema
from tests.support.growing_rows import NARROW, WIDE, as_wide, narrow, wide
from tests.support.spark import small_writes

pytestmark = pytest.mark.spark


def collected(frame: DataFrame) -> list[dict[str, Any]]:
    """Rows by key, maps as Arrow gives them."""
    rows = sorted((row.asDict() for row in frame.collect()), key=lambda row: row["id"])
    return [{name: _plain(value) for name, value in row.items()} for row in rows]


def _plain(value: Any) -> Any:
    if isinstance(value, Row):
        return {name: _plain(part) for name, part in value.asDict().items()}
    if isinstance(value, dict):
        return [(key, _plain(value[key])) for key in sorted(value)]
    return [_plain(part) for part in value] if isinstance(value, list) else value


@pytest.fixture
def grown(table: rli.Table) -> rli.Table:
    """Partition x has wide files, y narrow ones."""
    table.upsert(narrow(["a", "b"]))
    table.upsert(narrow(["e"], "y"))
    table.upsert(narrow(["f"], "z"))
    table.upsert(wide(["b", "c"]))
    return table


def test_files_of_either_type_are_read(spark: SparkSession, grown: rli.Table) -> None:
    expected = [
        *as_wide(narrow(["a"])),
        *wide(["b", "c"]).to_pylist(),
        *as_wide(narrow(["e"], "y")),
        *as_wide(narrow(["f"], "z")),
    ]
    assert collected(rli_spark.read(spark, grown)) == expected == grown.read().sort_by("id").to_pylist()
    keys = spark.createDataFrame([("a",), ("c",), ("e",)], "id string")
    found = collected(rli_spark.read(spark, grown, keys=keys))
    assert found == [row for row in expected if row["id"] in {"a", "c", "e"}]


@pytest.mark.one_spark
def test_filters_hold_for_either_type(spark: SparkSession, grown: rli.Table) -> None:
    for condition, keys in [
        (("whole", "=", 7), ["a", "e", "f"]),
        (("whole", ">", 2**35), ["b", "c"]),
        (("real", "<", 1.0), ["b", "c"]),
        (("real", "=", 1.5), ["a", "e", "f"]),
    ]:
        found = rli_spark.read(spark, grown, columns=["id"], filters=[condition])
        assert sorted(row.id for row in found.collect()) == keys
    frame = rli_spark.read(spark, grown)
    assert sorted(row.id for row in frame.where("point.label is null and whole = 7").collect()) == ["a", "e", "f"]
    assert [row.n for row in frame.where("id = 'e'").selectExpr("point.n").collect()] == [7]


def test_past_reads_use_earlier_types(spark: SparkSession, grown: rli.Table) -> None:
    then = rli_spark.read(spark, grown, as_of=grown.timeline()[2].time)
    assert dict(then.dtypes)["whole"] == "int"
    assert [row["id"] for row in collected(then)] == ["a", "b", "e", "f"]


@pytest.mark.one_spark
@pytest.mark.parametrize("small", [0, 1 << 20], ids=["tasks", "driver"])
def test_frames_make_types_grow(spark: SparkSession, table: rli.Table, small: int) -> None:
    with small_writes(spark, small):
        rli_spark.upsert(_frame(spark, narrow(["a", "b"])), table)
        assert table.schema == NARROW
        rli_spark.upsert(_frame(spark, wide(["b", "c"])), table)
        assert table.schema == WIDE
        rli_spark.upsert(_frame(spark, narrow(["d"])), table, missing="null")
    expected = [*as_wide(narrow(["a"])), *wide(["b", "c"]).to_pylist(), *as_wide(narrow(["d"]))]
    # Spark gives the entries of a map in any order.
    read = [
        {**row, "named": sorted(row["named"], key=lambda entry: entry[0])}
        for row in table.read().sort_by("id").to_pylist()
    ]
    assert read == collected(rli_spark.read(spark, table)) == expected


def _frame(spark: SparkSession, records: pa.Table) -> DataFrame:
    rows = [{**row, "named": dict(row["named"])} for row in records.to_pylist()]
    return spark.createDataFrame(rows, spark_schema(records.schema))
