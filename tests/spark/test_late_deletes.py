"""Deletes with ordering values from Spark: late events lose, as in plain Python."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import rli
import rli_spark
from rli import Step, Table
from tests.support.soak import in_ci
from tests.support.spark import small_writes
from tests.support.steps import Once
from tests.support.tables import assert_nothing_left_over, records, rows_of

pytestmark = [pytest.mark.spark, pytest.mark.one_spark, pytest.mark.invariant("P42")]

INDEXES = ["lmdb://{folder}", "lmdb://{folder}?scope=partition", "simple:", "global-bloom:", "bucket:?buckets=3"]
COLUMNS = "id string, city string, ts long, v double"
MARKED = f"{COLUMNS}, _hoodie_is_deleted boolean"


def create(folder: Path, index: str) -> Table:
    return rli.create_table(
        folder / "t",
        record_key="id",
        partition_by="city",
        ordering="ts",
        index=index.format(folder=folder / "index"),
        target_file_size=64 * 1024,
    )


def frame(spark: SparkSession, rows: Sequence[tuple[Any, ...]], columns: str = COLUMNS) -> DataFrame:
    return spark.createDataFrame(rows, columns).repartition(3)


def counts(result: rli.CommitResult) -> tuple[int, ...]:
    return result.inserted, result.updated, result.moved, result.deleted, result.unchanged


@pytest.mark.parametrize(
    ("index", "in_driver"),
    in_ci([(INDEXES[0], 0), ("global-bloom:", 1 << 24), (INDEXES[-1], 0)], of=[*product(INDEXES, (0, 1 << 24))]),
)
def test_the_greatest_ordering_value_wins(spark: SparkSession, tmp_path: Path, index: str, in_driver: int) -> None:
    table = create(tmp_path, index)
    with small_writes(spark, in_driver):
        first = [(f"k{n}", "xyz"[n % 3], 5, 1.0, n % 10 == 0 or None) for n in range(60)]
        assert counts(rli_spark.upsert(frame(spark, first, MARKED), table)) == (54, 0, 0, 0, 6)
        deletes = [(f"k{n}", 4 + n % 3) for n in range(0, 70, 2)]
        deleted = rli_spark.delete(frame(spark, deletes, "id string, ts long"), table)
        assert counts(deleted) == (0, 0, 0, 16, 19)
        late = [(f"k{n}", "xyz"[n % 3], 4, 2.0) for n in range(70)]
        assert counts(rli_spark.upsert(frame(spark, late), table))[0] == 5 + 2
        assert rli_spark.insert(frame(spark, late), table).inserted == 0
    assert {row["id"] for row in rows_of(table)} == {f"k{n}" for n in range(70) if n >= 60 or n % 10} - {
        f"k{n}" for n in range(0, 70, 2) if n % 3
    } - {f"k{n}" for n in (64, 68, 62)} | {"k60", "k66"}
    assert table.verify_index().agrees
    assert_nothing_left_over(table)


def test_deletes_of_other_writers_are_conflicts(spark: SparkSession, tmp_path: Path) -> None:
    table = create(tmp_path, INDEXES[0])
    other = rli.open_table(table.location)
    delete = Once(Step.WRITTEN, lambda: other.delete(["a"], ordering=[5]))
    batch = frame(spark, [("a", "x", 4, 1.0), ("b", "x", 4, 1.0)])
    done = rli_spark.upsert(batch, table, on_step=delete)
    assert (counts(done), done.attempts) == ((1, 0, 0, 0, 1), 2)


@pytest.mark.parametrize("index", in_ci(INDEXES[:1], of=INDEXES))
def test_event_order_does_not_matter(spark: SparkSession, tmp_path: Path, index: str) -> None:
    chance, table = random.Random(index), create(tmp_path, index)
    newest: dict[str, tuple[int, bool]] = {}
    events = [(f"k{chance.randrange(40)}", "x", n, float(n), chance.random() < 0.3) for n in range(300)]
    sent = sorted((event[2] + chance.randrange(120), event) for event in events + chance.sample(events, 100))
    for start in range(0, len(sent), 100):
        batch = [event for _, event in sent[start : start + 100]]
        for key, _, order, _, is_deleted in batch:
            newest[key] = max(newest.get(key, (-1, False)), (order, is_deleted))
        rli_spark.upsert(frame(spark, list(batch), MARKED), table)
        live = {key: order for key, (order, is_deleted) in newest.items() if not is_deleted}
        assert {row["id"]: row["ts"] for row in rows_of(table)} == live


def test_wrong_frames_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    table = create(tmp_path, INDEXES[0])
    table.upsert(records(("a", "x", 5, 1.0)))
    with pytest.raises(rli.SchemaError, match="drop them before you write"):
        rli_spark.upsert(frame(spark, [("a", "x", 6, 1.0, "a")], f"{COLUMNS}, _hoodie_record_key string"), table)
    with pytest.raises(rli.SchemaError, match="the ordering column is missing: column=at"):
        rli_spark.delete(frame(spark, [("a", 6)], "id string, ts long"), table, ordering="at")
    with pytest.raises(rli.InvalidInputError, match="marked as deleted"):
        rli_spark.insert(frame(spark, [("b", "x", 6, 1.0, True)], MARKED), table)
    assert rli_spark.delete(frame(spark, [("a", 4)], "id string, at long"), table, ordering="at").unchanged == 1
    assert rli_spark.delete(frame(spark, [("a", 4)], "id string, at long"), table).deleted == 1
