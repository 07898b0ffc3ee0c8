"""Merge-on-read tables in Spark: the records of ``Table.read``, merged in tasks."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import rli
import rli_spark
from tests.support.hudi_tables import unzip_hudi_table
from tests.support.rows import sorted_rows

pytestmark = pytest.mark.spark

TABLES = ["quickstart_trips_table/mor/avro/v8_trips_8i3u1d", "quickstart_trips_table/mor/avro/v6_trips_8i3d"]


def collected(frame: DataFrame) -> list[dict[str, object]]:
    return sorted_rows(row.asDict(recursive=True) for row in frame.collect())


@pytest.mark.parametrize("name", TABLES)
def test_spark_merges_log_files(spark: SparkSession, tmp_path: Path, name: str) -> None:
    table = rli.open_table(unzip_hudi_table(name, tmp_path))
    assert any(one.endswith(".parquet") for one in table.scan(query="read_optimized").files())
    for query in rli.Query:
        assert collected(rli_spark.read(spark, table, query=query)) == sorted_rows(table.read(query=query))
    with pytest.raises(rli.UnsupportedTableError, match="log files"):
        table.scan().files()


def test_filters_reach_merged_records(spark: SparkSession, tmp_path: Path) -> None:
    table = rli.open_table(unzip_hudi_table(TABLES[0], tmp_path))
    fares = table.read(columns=["fare"])["fare"]
    limit = pa.compute.max(fares).as_py()
    for filters in (f"fare < {limit}", f"fare = {limit}", "rider is null"):
        found = rli_spark.read(spark, table, columns=["uuid"], filters=filters)
        assert collected(found) == sorted_rows(table.read(columns=["uuid"], filters=filters))
