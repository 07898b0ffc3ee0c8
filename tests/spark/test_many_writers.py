"""Spark writes beside another writer: a conflicting write is retried on the new snapshot, with the same records."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.accumulators import Accumulator
from pyspark.sql import DataFrame, SparkSession

import rli
import rli_spark
from rli import Step
from tests.support.tables import assert_nothing_left_over, check_stored, records, rows_of

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

Row = tuple[str, str, int, float]


def once(step: Step, action: Callable[[], object]) -> Callable[[Step], None]:
    """Does something when a write reaches a step for the first time."""
    left = [action]

    def on_step(reported: Step) -> None:
        if reported is step and left:
            left.pop()()

    return on_step


def counted(spark: SparkSession, *rows: Row) -> tuple[DataFrame, Accumulator[int]]:
    """A frame, and how many of its rows have been computed."""
    computed = spark.sparkContext.accumulator(0)

    def count(row: Row) -> Row:
        computed.add(1)
        return row

    rdd = spark.sparkContext.parallelize(rows, 2).map(count)
    return spark.createDataFrame(rdd, "id string, city string, ts long, v double"), computed


@pytest.fixture
def other(table: rli.Table) -> rli.Table:
    """A plain-Python writer of the same table."""
    table.upsert(records(("a", "x", 1, 1.0), ("b", "x", 1, 1.0), ("c", "y", 1, 1.0)))
    return rli.open_table(table.location)


@pytest.mark.parametrize("step", [Step.INFLIGHT, Step.WRITTEN])
def test_conflict_retry_reuses_computed_frame(
    spark: SparkSession, table: rli.Table, other: rli.Table, step: Step
) -> None:
    frame, computed = counted(spark, ("a", "x", 2, 2.0), ("b", "x", 2, 2.0), ("new", "y", 2, 2.0))
    rival = once(step, lambda: other.upsert(records(("b", "x", 3, 3.0), ("new", "z", 1, 3.0))))
    result = rli_spark.upsert(frame, table, on_step=rival)
    assert (result.inserted, result.updated, result.moved, result.unchanged) == (0, 1, 1, 1)
    assert computed.value == 3
    assert [(row["id"], row["v"]) for row in rows_of(table)] == [("a", 2.0), ("b", 3.0), ("c", 1.0), ("new", 2.0)]
    check_stored(table)


def test_delete_finds_concurrent_keys(spark: SparkSession, table: rli.Table, other: rli.Table) -> None:
    frame, computed = counted(spark, ("a", "", 0, 0.0), ("new", "", 0, 0.0))
    rival = once(Step.WRITTEN, lambda: other.upsert(records(("new", "z", 1, 3.0))))
    result = rli_spark.delete(frame.drop("ts"), table, on_step=rival)
    assert (result.deleted, result.unchanged) == (2, 0)
    assert computed.value == 2
    assert [row["id"] for row in rows_of(table)] == ["b", "c"]
    check_stored(table)


@pytest.mark.parametrize("step", [Step.WRITTEN, Step.INFLIGHT])
def test_executor_conflict_names_its_keys(spark: SparkSession, table: rli.Table, other: rli.Table, step: Step) -> None:
    frame, _ = counted(spark, ("a", "x", 2, 2.0), ("new", "y", 2, 2.0))
    rival = once(step, lambda: other.upsert(records(("new", "z", 1, 3.0))))
    with pytest.raises(rli.ConflictError, match="attempts=1") as raised:
        rli_spark.upsert(frame, table, attempts=1, on_step=rival)
    assert (raised.value.keys, raised.value.key_count) == (("new",), 1)
    assert_nothing_left_over(table)


def test_a_repeated_transaction_changes_nothing(spark: SparkSession, table: rli.Table, other: rli.Table) -> None:
    frame, _ = counted(spark, ("a", "x", 2, 2.0), ("new", "y", 2, 2.0))
    first = rli_spark.upsert(frame, table, transaction=("job", 1), metadata={"epoch": "1"})
    gone = rli_spark.delete(spark.createDataFrame([("new",)], "id string"), table, transaction=("job", 2))
    assert (first.inserted, gone.deleted) == (1, 1)
    assert rli_spark.upsert(frame, table, transaction=("job", 1)) == first
    assert other.delete(["new"], transaction=("job", 2)) == gone
    same = records(("new", "y", 2, 2.0), ("a", "x", 2, 2.0))
    rival = once(Step.WRITTEN, lambda: other.upsert(same, transaction=("job", 3)))
    assert rli_spark.upsert(frame, table, transaction=("job", 3), on_step=rival).repeated
    assert [(row["id"], row["v"]) for row in rows_of(table)] == [("a", 2.0), ("b", 1.0), ("c", 1.0), ("new", 2.0)]
    check_stored(table)
