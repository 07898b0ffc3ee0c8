"""Buckets that are split and merged, in Spark: each split and each merge is a task, and writers follow the ring."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import rli
import rli_spark
from rli import Step
from tests.support.tables import assert_nothing_left_over, records

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

URL = "consistent-bucket:?buckets=2&min.num.buckets=1&split.threshold=1"
KEYS = [f"k{number}" for number in range(1_000)]


@pytest.mark.invariant("P39")
def test_spark_writes_beside_bucket_split(spark: SparkSession, tmp_path: Path) -> None:
    table = rli.create_table(
        tmp_path / "t",
        record_key="id",
        partition_by="city",
        ordering="ts",
        index=URL,
        target_file_size=8_000,
        compression="none",
        maintenance=False,
    )
    frame = spark.createDataFrame(
        [(key, "xy"[at % 2], 1, 1.0) for at, key in enumerate(KEYS)], "id string, city string, ts long, v double"
    )
    assert rli_spark.upsert(frame, table).inserted == len(KEYS)
    steps: list[Step] = []

    def split(step: Step) -> None:
        if step is Step.WRITTEN and step not in steps:
            steps.append(step)
            with rli.open_table(table.location) as other:
                result = rli_spark.cluster(spark, other)
                assert (result.files_replaced, result.files_created) == (4, 8)

    again = spark.createDataFrame([("k0", "x", 2, 2.0), ("new", "x", 2, 2.0)], frame.schema)
    result = rli_spark.upsert(again, table, on_step=split)
    assert (result.updated, result.inserted, result.attempts) == (1, 1, 2)
    assert table.upsert(records(*((key, "xy"[at % 2], 3, 3.0) for at, key in enumerate(KEYS)))).updated == len(KEYS)
    stored = [row.id for row in rli_spark.read(spark, table).select("id").collect()]
    assert sorted(stored) == sorted([*KEYS, "new"])
    assert table.verify_index().agrees
    assert_nothing_left_over(table)
