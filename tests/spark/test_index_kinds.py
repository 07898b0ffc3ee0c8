"""Spark on tables whose index is the table's own files: the same as in plain Python."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import rli
import rli_spark
from rli import Step
from rli_spark import file_probes
from tests.support.tables import assert_nothing_left_over, records, rows_of

pytestmark = pytest.mark.spark

FILE_KINDS = ["simple:", "global-simple:"]
COLUMNS = "id string, city string, ts long, v double"
Row = tuple[str, str, int, float]

STORED: list[Row] = [(f"k{n}", "xyz"[n % 3], 5, 1.0) for n in range(60)]
BATCH: list[Row] = [
    *((f"k{n}", "xyz"[n % 3], 6, 2.0) for n in range(0, 60, 4)),  # known where they are
    *((f"k{n}", "xyz"[(n + 1) % 3], 6, 3.0) for n in range(1, 60, 4)),  # in another partition
    *((f"k{n}", "xyz"[n % 3], 4, 4.0) for n in range(2, 60, 8)),  # too late
    *((f"k{n}", "xyz"[(n + 1) % 3], 4, 4.0) for n in range(3, 60, 8)),  # too late in another partition
    *((f"k{n}", "new", 1, 5.0) for n in range(60, 70)),
    ("k60", "new", 2, 6.0),
    ("k61", "x", 3, 7.0),
]


def create(folder: Path, name: str, index: str) -> rli.Table:
    return rli.create_table(
        folder / name, record_key="id", partition_by="city", ordering="ts", index=index, target_file_size=64 * 1024
    )


def frame(spark: SparkSession, rows: list[Row]) -> DataFrame:
    return spark.createDataFrame(rows, COLUMNS).repartition(3)


def counts(result: rli.CommitResult) -> tuple[int, ...]:
    return result.inserted, result.updated, result.moved, result.deleted, result.unchanged


@pytest.mark.parametrize("index", FILE_KINDS)
def test_spark_writes_what_plain_python_writes(
    spark: SparkSession, tmp_path: Path, index: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # More keys than a task of this test looks for at once.
    monkeypatch.setattr(file_probes, "_KEYS_AT_ONCE", 20)
    ours, expected = create(tmp_path, "spark", index), create(tmp_path, "python", index)
    for batch in (STORED, BATCH):
        written = rli_spark.upsert(frame(spark, batch), ours)
        assert counts(written) == counts(expected.upsert(records(*batch)))
    assert rows_of(ours) == rows_of(expected)
    gone = [(f"k{n}",) for n in (*range(0, 70, 5), 999)]
    deleted = rli_spark.delete(spark.createDataFrame([*gone, ("k0",)], "id string"), ours)
    assert counts(deleted) == counts(expected.delete([key for (key,) in gone]))
    assert rows_of(ours) == rows_of(expected)
    before = rows_of(ours)
    rli_spark.cluster(spark, ours)
    assert rows_of(ours) == before
    assert ours.verify_index().agrees
    assert_nothing_left_over(ours)


@pytest.mark.parametrize("index", FILE_KINDS)
def test_a_frame_is_tagged_with_the_locations_of_the_files(spark: SparkSession, tmp_path: Path, index: str) -> None:
    table = create(tmp_path, "t", index)
    asked = frame(spark, [("k1", "y", 0, 0.0), ("k1", "y", 0, 0.0), ("k2", "x", 0, 0.0), ("nobody", "x", 0, 0.0)])
    assert rli_spark.tag(asked, table).where("_rli_file_id is null").count() == 4
    instant = table.upsert(records(*STORED)).instant
    tagged = rli_spark.tag(asked, table)
    assert tagged.columns == [*asked.columns, "_rli_partition_path", "_rli_file_id", "_rli_instant_time"]
    where = {(row.id, row.city, row["_rli_partition_path"], row["_rli_instant_time"]) for row in tagged.collect()}
    elsewhere = ("z", instant) if index == "global-simple:" else (None, None)
    assert where == {("k1", "y", "y", instant), ("k2", "x", *elsewhere), ("nobody", "x", None, None)}
    assert tagged.count() == 4


@pytest.mark.parametrize(
    ("index", "step"),
    [("simple:", Step.WRITTEN), ("global-simple:", Step.TAGGED), ("global-simple:", Step.WRITTEN)],
)
def test_two_writers_never_both_insert_one_key(spark: SparkSession, tmp_path: Path, index: str, step: Step) -> None:
    table = create(tmp_path, "t", index)
    table.upsert(records(*STORED))
    other = rli.open_table(table.location)
    rival = once(step, lambda: other.upsert(records(("new", "x", 1, 1.0), ("k0", "x", 9, 9.0))))
    result = rli_spark.upsert(frame(spark, [("new", "x", 2, 2.0), ("k0", "x", 8, 8.0)]), table, on_step=rival)
    assert counts(result) == (0, 1, 0, 0, 1)
    rows = {row["id"]: row["v"] for row in rows_of(table)}
    assert (len(rows_of(table)), rows["new"], rows["k0"]) == (61, 2.0, 9.0)
    assert table.verify_index().agrees


def once(step: Step, action: Callable[[], object]) -> Callable[[Step], None]:
    """Does something when a write reaches a step for the first time."""
    left = [action]

    def on_step(reported: Step) -> None:
        if reported is step and left:
            left.pop()()

    return on_step
