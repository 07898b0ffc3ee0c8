"""Overwrites and drops of partitions in Spark: the same records as in plain Python."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import rli
import rli_spark
from rli import ConflictError, InvalidInputError, PartitionChangeError, Step, TransactionMismatchError
from tests.support.index_kinds import stored_rows
from tests.support.lanes import first_on_every_spark
from tests.support.soak import in_ci
from tests.support.steps import Once
from tests.support.table_model import Version
from tests.support.tables import check_stored, records

pytestmark = [pytest.mark.spark, pytest.mark.invariant("P51")]

ROWS: list[Version] = [(f"k{n}", "xyz"[n % 3], n % 5, float(n)) for n in range(60)]
INDEXES = ["lmdb://{folder}", "simple:", "bucket:?buckets=3"]
AGAIN: list[Version] = [(f"k{n}", "x", 0, -1.0) for n in range(10)] + [("n", "x", 1, 1.0)]


def frame(spark: SparkSession, *rows: Version) -> DataFrame:
    return spark.createDataFrame(list(rows), "id string, city string, ts long, v double")


def filled(folder: Path, name: str, index: str) -> rli.Table:
    url = index.format(folder=folder / f"index-of-{name}")
    table = rli.create_table(
        folder / name, record_key="id", partition_by="city", ordering="ts", index=url, small_file_size=0
    )
    table.upsert(records(*ROWS[:40]))
    table.upsert(records(*ROWS[40:]))
    return table


def told(done: rli.CommitResult) -> tuple[int, ...]:
    return done.inserted, done.updated, done.moved, done.deleted, done.unchanged, done.files_rewritten


@pytest.mark.parametrize("index", first_on_every_spark(in_ci(INDEXES[:2], of=INDEXES)))
def test_same_as_in_plain_python(spark: SparkSession, tmp_path: Path, index: str) -> None:
    with filled(tmp_path, "local", index) as local, filled(tmp_path, "spark", index) as table:
        expected, done = (
            local.overwrite_partitions(records(*AGAIN)),
            rli_spark.overwrite_partitions(frame(spark, *AGAIN), table),
        )
        assert told(done) == told(expected)
        assert stored_rows(table) == stored_rows(local)
        check_stored(table)
        assert told(rli_spark.drop_partitions(spark, table, ["y"])) == told(local.drop_partitions(["y"]))
        assert stored_rows(table) == stored_rows(local)
        rli_spark.overwrite_partitions(frame(spark, *ROWS[:6]), table, partitions="all")
        assert stored_rows(table) == set(ROWS[:6])
        check_stored(table)


@pytest.mark.one_spark
def test_tasks_of_a_large_overwrite(spark: SparkSession, tmp_path: Path) -> None:
    with filled(tmp_path, "t", "lmdb://{folder}") as table:
        table.upsert(records(*((f"o{n}", "other", 1, 1.0) for n in range(20_000))))
        rows = spark.range(60_000).selectExpr(
            "concat('o', id) id", "if(id < 50000, 'x', 'other') city", "id ts", "cast(id as double) v"
        )
        # Too many bytes for Spark's statistics to send them to the driver at once.
        done = rli_spark.overwrite_partitions(rows.repartition(4), table)
        assert (done.inserted, done.moved, done.updated, done.deleted) == (40_000, 20_000, 0, 20)
        assert table.read().num_rows == 60_000 + 40
        check_stored(table)


@pytest.mark.one_spark
def test_conflicts_and_repeats_in_spark(spark: SparkSession, tmp_path: Path) -> None:
    with filled(tmp_path, "t", "lmdb://{folder}") as table:
        rows = frame(spark, ("m", "empty", 1, 1.0))
        meanwhile = Once(Step.WRITTEN, lambda: table.overwrite_partitions(records(("n", "empty", 1, 1.0))))
        done = rli_spark.overwrite_partitions(rows, table, transaction=("load", 1), on_step=meanwhile)
        assert (done.attempts, done.inserted, done.deleted) == (2, 1, 1)
        assert rli_spark.overwrite_partitions(rows, table, transaction=("load", 1)).repeated
        with pytest.raises(TransactionMismatchError):
            rli_spark.overwrite_partitions(rows, table, partitions=["x"], transaction=("load", 1))
        into = Once(Step.WRITTEN, lambda: table.upsert(records(("o", "empty", 1, 1.0))))
        with pytest.raises(ConflictError):
            rli_spark.drop_partitions(spark, table, ["empty"], attempts=1, on_step=into)
        check_stored(table)


@pytest.mark.one_spark
def test_refused_frames_change_nothing(spark: SparkSession, tmp_path: Path) -> None:
    with filled(tmp_path, "t", "lmdb://{folder}") as table:
        before = table.timeline()
        with pytest.raises(InvalidInputError, match="nothing says what to replace"):
            rli_spark.overwrite_partitions(frame(spark, *AGAIN).limit(0), table)
        with pytest.raises(PartitionChangeError):
            rli_spark.overwrite_partitions(frame(spark, ("k0", "y", 1, 1.0)), table, on_partition_change="fail")
        with pytest.raises(InvalidInputError, match="takes no deletes"):
            rli_spark.overwrite_partitions(frame(spark, *AGAIN).selectExpr("*", "id = 'n' _hoodie_is_deleted"), table)
        assert table.timeline() == before
