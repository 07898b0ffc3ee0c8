"""Executors read for a new metadata table, which comes out as the one that this process reads for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import rli
import rli_spark
from rli import CorruptTableError
from rli.hudi.hfile.cells import CELLS
from rli.table.metadata_of_table import reader_of
from rli.table.table import opened_table
from tests.support.object_store import ObjectStore
from tests.support.tables import assert_nothing_left_over, records, turn_into_version_9

pytestmark = [pytest.mark.spark, pytest.mark.one_spark, pytest.mark.invariant("P53")]

PARTITIONS = ("files", "column_stats", "partition_stats", "bloom_filters", "record_index")


def created(folder: Path, table_type: str, index: str) -> rli.Table:
    """A table of version 9 in a folder."""
    table = made(folder / "t", table_type=table_type, index=index.format(folder=folder / "index"))
    turn_into_version_9(table)
    return written(table)


def made(location: Path | str, **given: Any) -> rli.Table:
    return rli.create_table(location, record_key="id", partition_by="city", ordering="ts", **given)


def written(table: rli.Table) -> rli.Table:
    """The table, in three partitions of which records were updated and deleted."""
    table.upsert(records(*((f"k{n}", "xyz"[n % 3], 1, float(n)) for n in range(60))))
    table.upsert(records(*((f"k{n}", "xyz"[n % 3], 2, float(-n)) for n in range(0, 90, 4))))
    table.delete([f"k{n}" for n in range(0, 60, 7)])
    return table


def cells(table: rli.Table) -> dict[str, list[dict[str, bytes]]]:
    """All that the metadata table holds, by its partitions, each file group in the order of its keys."""
    reader = reader_of(opened_table(table).snapshot())
    return {name: pa.Table.from_batches(reader.scan(name), CELLS).to_pylist() for name in reader.partitions}


@pytest.mark.parametrize(
    ("table_type", "index"),
    [
        ("merge_on_read", "lmdb://{folder}"),
        ("copy_on_write", "lmdb://{folder}?scope=partition"),
    ],
)
def test_executors_read_for_metadata_table(spark: SparkSession, tmp_path: Path, table_type: str, index: str) -> None:
    require_same_births(spark, created(tmp_path, table_type, index))


def test_executors_read_from_object_store(spark: SparkSession, object_store: ObjectStore) -> None:
    location = f"s3://{object_store.new_bucket()}/t"
    require_same_births(spark, written(made(location, index="global-simple:", storage_options=object_store.options)))


def require_same_births(spark: SparkSession, table: rli.Table) -> None:
    """What this process has built, executors build again."""
    assert {*table.metadata.enable(PARTITIONS).added} == {*PARTITIONS}
    expected = cells(table)
    table.metadata.disable()
    change = rli_spark.enable_metadata(spark, table, PARTITIONS)
    assert {*change.listed} == {*PARTITIONS} == expected.keys()
    assert cells(table) == expected
    assert table.metadata.verify() == ()
    assert_nothing_left_over(table)
    assert rli_spark.enable_metadata(spark, table).added == ()


def test_damaged_file_stops_executors(spark: SparkSession, tmp_path: Path) -> None:
    table = created(tmp_path, "copy_on_write", "lmdb://{folder}")
    damaged = max(Path(table.location, "x").glob("*.parquet"), key=lambda path: path.name.rpartition("_")[2])
    damaged.write_bytes(damaged.read_bytes()[:-9])
    for partition in ("column_stats", "record_index"):
        with pytest.raises(CorruptTableError, match=damaged.name):
            rli_spark.enable_metadata(spark, table, [partition])
    assert table.metadata.status().partitions == ()
    assert_nothing_left_over(table)
