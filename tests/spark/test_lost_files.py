"""Spark, too, names a lost base file, and builds nothing on the version before it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import rli_spark
from rli import CorruptTableError
from tests.support.index_kinds import KINDS
from tests.support.tables import records

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]


@pytest.mark.invariant("P41")
@pytest.mark.parametrize("kind", ["record", "global-simple"])
def test_lost_version_is_named_in_spark(kind: str, spark: SparkSession, tmp_path: Path) -> None:
    table = KINDS[kind].create(tmp_path, maintenance=False)
    for version in (1, 2):
        table.upsert(records(("k", "x", version, 1.0)))
    table.upsert(records(("l", "y", 1, 1.0)))
    lost = max(Path(table.location, "x").glob("*.parquet"), key=lambda path: path.name.rpartition("_")[2])
    lost.unlink()
    frame = spark.createDataFrame([("k", "x", 3, 3.0)], "id string, city string, ts long, v double")
    with pytest.raises(CorruptTableError, match=lost.name):
        rli_spark.read(spark, table)
    with pytest.raises(CorruptTableError, match=lost.name):
        rli_spark.upsert(frame, table)
