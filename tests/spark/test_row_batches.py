"""Row batches reach the task that they are meant for, and tasks get about the same work."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from rli_spark.rows.row_batches import SHUFFLE_KEY, packed, sent, shared_out, shuffle_keys, unpack

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]


@pytest.mark.parametrize("tasks", [1, 2, 7, 100])
def test_shuffle_keys_lead_to_separate_tasks(spark: SparkSession, tasks: int) -> None:
    keys = spark.createDataFrame([(key,) for key in shuffle_keys(tasks)], f"{SHUFFLE_KEY} int")
    reached = sent(keys, tasks).select(SHUFFLE_KEY, F.spark_partition_id()).collect()
    assert sorted((task, key) for key, task in reached) == list(enumerate(shuffle_keys(tasks)))


def test_row_batch_returns_rows_unchanged() -> None:
    rows = pa.table({"a": ["x", None, "z"], "b": [[1], [], None]}).slice(1)
    assert unpack(packed(rows)).equals(rows)


@given(st.dictionaries(st.integers(), st.floats(0, 1e9), max_size=40), st.integers(1, 9))
def test_task_loads_are_nearly_equal(weights: dict[int, float], tasks: int) -> None:
    shared = shared_out(weights, tasks)
    assert shared.keys() == weights.keys()
    laden = [sum(weight for item, weight in weights.items() if shared[item] == task) for task in range(tasks)]
    assert max(laden) <= sum(weights.values()) / tasks + max(weights.values(), default=0) + 1e-3
