"""Executors read for a new metadata table, which comes out as the one that this process reads for."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import rli
import rli_spark
from rli import CorruptTableError
from rli.hudi.hfile.cells import CELLS
from tests.support.lanes import first_on_every_spark
from tests.support.metadata_tables import metadata_reader
from tests.support.tables import assert_nothing_left_over, records, turn_into_version_9

pytestmark = [pytest.mark.spark, pytest.mark.invariant("P53")]

PARTITIONS = ("files", "column_stats", "partition_stats", "bloom_filters", "record_index")


def written(folder: Path, table_type: str, index: str) -> rli.Table:
    """A table of three partitions, in which records were updated and deleted."""
    table = rli.create_table(
        folder / "t",
        record_key="id",
        partition_by="city",
        ordering="ts",
        table_type=table_type,
        index=index.format(folder=folder / "index"),
    )
    turn_into_version_9(table)
    table.upsert(records(*((f"k{n}", "xyz"[n % 3], 1, float(n)) for n in range(60))))
    table.upsert(records(*((f"k{n}", "xyz"[n % 3], 2, float(-n)) for n in range(0, 90, 4))))
    table.delete([f"k{n}" for n in range(0, 60, 7)])
    return table


def cells(table: rli.Table) -> dict[str, list[dict[str, bytes]]]:
    """All that the metadata table holds, by its partitions, each file group in the order of its keys."""
    reader = metadata_reader(Path(table.location))
    return {name: pa.Table.from_batches(reader.scan(name), CELLS).to_pylist() for name in reader.partitions}


@pytest.mark.parametrize(
    ("table_type", "index"),
    first_on_every_spark(
        [
            ("merge_on_read", "lmdb://{folder}"),
            ("copy_on_write", "lmdb://{folder}?scope=partition"),
        ]
    ),
)
def test_executors_read_for_metadata_table(spark: SparkSession, tmp_path: Path, table_type: str, index: str) -> None:
    table = written(tmp_path, table_type, index)
    assert {*table.metadata.enable(PARTITIONS).added} == {*PARTITIONS}
    expected = cells(table)
    table.metadata.disable()
    change = rli_spark.enable_metadata(spark, table, PARTITIONS)
    assert {*change.listed} == {*PARTITIONS} == expected.keys()
    assert cells(table) == expected
    assert table.metadata.verify() == ()
    assert_nothing_left_over(table)
    assert rli_spark.enable_metadata(spark, table).added == ()


@pytest.mark.one_spark
def test_damaged_file_stops_executors(spark: SparkSession, tmp_path: Path) -> None:
    table = written(tmp_path, "copy_on_write", "lmdb://{folder}")
    damaged = max(Path(table.location, "x").glob("*.parquet"), key=lambda path: path.name.rpartition("_")[2])
    damaged.write_bytes(damaged.read_bytes()[:-9])
    for partition in ("column_stats", "record_index"):
        with pytest.raises(CorruptTableError, match=damaged.name):
            rli_spark.enable_metadata(spark, table, [partition])
    assert table.metadata.status().partitions == ()
    assert_nothing_left_over(table)
