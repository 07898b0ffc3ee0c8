"""Merge-on-read tables in Spark: the records of ``Table.read``, merged in tasks; tasks append log files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import rli
import rli_spark
from tests.support.hudi_tables import unzip_hudi_table
from tests.support.index_kinds import LOG_INSERTS, MERGE_ON_READ
from tests.support.lanes import first_on_every_spark
from tests.support.rows import sorted_rows
from tests.support.tables import check_stored

pytestmark = pytest.mark.spark

TABLES = ["quickstart_trips_table/mor/avro/v8_trips_8i3u1d", "quickstart_trips_table/mor/avro/v6_trips_8i3d"]


def collected(frame: DataFrame) -> list[dict[str, object]]:
    return sorted_rows(row.asDict(recursive=True) for row in frame.collect())


@pytest.mark.parametrize("name", first_on_every_spark(TABLES))
def test_spark_merges_log_files(spark: SparkSession, tmp_path: Path, name: str) -> None:
    table = rli.open_table(unzip_hudi_table(name, tmp_path))
    assert any(one.endswith(".parquet") for one in table.scan(query="read_optimized").files())
    for query in rli.Query:
        assert collected(rli_spark.read(spark, table, query=query)) == sorted_rows(table.read(query=query))
    with pytest.raises(rli.UnsupportedTableError, match="log files"):
        table.scan().files()


@pytest.mark.one_spark
def test_filters_reach_merged_records(spark: SparkSession, tmp_path: Path) -> None:
    table = rli.open_table(unzip_hudi_table(TABLES[0], tmp_path))
    fares = table.read(columns=["fare"])["fare"]
    limit = pa.compute.max(fares).as_py()
    for filters in (f"fare < {limit}", f"fare = {limit}", "rider is null"):
        found = rli_spark.read(spark, table, columns=["uuid"], filters=filters)
        assert collected(found) == sorted_rows(table.read(columns=["uuid"], filters=filters))


@pytest.mark.parametrize("kind", first_on_every_spark(["record-logs", "bucket-logs", "record-inserts"]))
def test_spark_appends_log_files(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    table = (MERGE_ON_READ | LOG_INSERTS)[kind].create(tmp_path, maintenance=False)
    rows = [(f"k{number}", "xy"[number % 2], 10, float(number)) for number in range(20)]
    rli_spark.upsert(frame_of(spark, rows), table)
    late, newer = ("k1", "y", 9, -1.0), [("k0", "x", 11, 100.0), ("k2", "y", 12, 200.0)]
    written = rli_spark.upsert(frame_of(spark, [late, *newer]), table)
    is_global = table.index.scope is rli.Scope.GLOBAL
    assert (written.updated, written.moved, written.unchanged) == (1, int(is_global), 1)
    # A small base file takes the record that moves, unless new records go to log files.
    assert (written.files_appended, written.files_rewritten) == ((1, 1) if kind == "record-logs" else (2, 0))
    deleted = rli_spark.delete(spark.createDataFrame([("k3",), ("k4",)], "id string"), table)
    assert (deleted.deleted, deleted.files_rewritten) == (2, 0)
    with pytest.raises(rli.InvalidInputError, match="those of a snapshot"):
        rli_spark.read(spark, table, keys=frame_of(spark, newer).select("id"), query="read_optimized")
    expected = {(row[0], row[1]): row for row in rows if row[0] not in {"k3", "k4"}} | {
        (row[0], row[1]): row for row in newer
    }
    if is_global:
        del expected["k2", "x"]
    assert sorted(expected.values()) == sorted(tuple(row.values()) for row in table.read().to_pylist())
    check_stored(table)


def frame_of(spark: SparkSession, rows: list[tuple[str, str, int, float]]) -> DataFrame:
    return spark.createDataFrame(rows, "id string, city string, ts long, v double")
