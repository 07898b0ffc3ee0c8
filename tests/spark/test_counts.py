"""The counts of a write by Spark are those of plain Python, and add up to the rows of the frame."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import rli
import rli_spark
from rli import CommitResult, InvalidKeyError
from tests.support.index_kinds import ALL_KINDS
from tests.support.soak import in_ci
from tests.support.spark import small_writes
from tests.support.tables import records, rows_of

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

COLUMNS = "id string, city string, ts long, v double"
Row = tuple[str, str, int, float]

FIRST: list[Row] = [
    *((f"k{n}", "xyz"[n % 3], 5, 1.0) for n in range(40)),
    *((f"k{n}", "xyz"[n % 3], 4, 0.0) for n in range(0, 40, 5)),
    *((f"k{n}", "xyz"[(n + 1) % 3], 3, 0.5) for n in range(0, 40, 8)),
]
SECOND: list[Row] = [
    *((f"k{n}", "xyz"[n % 3], 6, 2.0) for n in range(0, 40, 4)),
    *((f"k{n}", "xyz"[(n + 1) % 3], 6, 3.0) for n in range(1, 40, 4)),
    *((f"k{n}", "xyz"[n % 3], 2, 4.0) for n in range(2, 40, 4)),
    *((f"k{n}", "xyz"[(n + 1) % 3], 2, 4.0) for n in range(3, 40, 4)),
    *((f"new{n % 4}", "x", n, 5.0) for n in range(12)),
]
GONE = ["k0", "k1", "k1", "nobody", "nobody", "new0", "k0", "k7"]

COUNTED = ("inserted", "updated", "moved", "deleted", "unchanged", "duplicates")


def counts(result: CommitResult) -> list[int]:
    return [getattr(result, name) for name in COUNTED]


@contextmanager
def written_by(spark: SparkSession, worker: str) -> Iterator[None]:
    with small_writes(spark, 1 << 22 if worker == "driver" else 0):
        yield


def frame(spark: SparkSession, rows: list[Row], parts: int = 5) -> DataFrame:
    return spark.createDataFrame(rows, COLUMNS).repartition(parts)


FEW = [("record", "tasks"), ("metadata", "tasks"), ("bucket", "driver")]
WORKERS = in_ci(FEW, of=[*product(ALL_KINDS, ("tasks", "driver"))])
REPEATS = in_ci([("tasks", 7), ("driver", 1)], of=[*product(("tasks", "driver"), (1, 7))])


@pytest.mark.parametrize("parts", [1, 4])
def test_counts_of_a_load_add_up(spark: SparkSession, table: rli.Table, parts: int) -> None:
    """In a single task, rows of one key are reduced before the load, which has none left."""
    with written_by(spark, "tasks"):
        told = counts(rli_spark.upsert(frame(spark, FIRST[:48], parts), table))
    assert told == [40, 0, 0, 0, 0, 8]


@pytest.mark.parametrize(("kind", "worker"), WORKERS)
def test_counts_by_spark_add_up(spark: SparkSession, tmp_path: Path, kind: str, worker: str) -> None:
    ours, theirs = (ALL_KINDS[kind].create(tmp_path / name) for name in ("spark", "python"))
    with written_by(spark, worker):
        for batch in (FIRST, SECOND):
            told = counts(rli_spark.upsert(frame(spark, batch), ours))
            assert sum(told) == len(batch)
            assert told == counts(theirs.upsert(records(*batch)))
        inserted = counts(rli_spark.insert(frame(spark, SECOND), ours))
        assert sum(inserted) == len(SECOND)
        gone = spark.createDataFrame([(key,) for key in GONE], "id string").repartition(3)
        assert counts(rli_spark.delete(gone, ours)) == counts(theirs.delete(GONE))
        with pytest.raises(InvalidKeyError, match="occur in several"):
            rli_spark.upsert(frame(spark, SECOND), ours, on_duplicates="fail")
    assert ours.history()[-1].duplicates == 3
    ours.close()
    theirs.close()


@pytest.mark.parametrize(("worker", "parts"), REPEATS)
def test_repeats_of_a_frame_are_known(spark: SparkSession, table: rli.Table, worker: str, parts: int) -> None:
    first = table.upsert(records(*FIRST), transaction=("job", 1))
    with written_by(spark, worker):
        again = rli_spark.upsert(frame(spark, FIRST, parts), table, transaction=("job", 1))
        assert (again, again.repeated) == (first, True)
        turned = frame(spark, FIRST, parts).select("v", "ts", "city", "id")
        assert rli_spark.upsert(turned, table, transaction=("job", 1)).repeated
        with pytest.raises(rli.TransactionMismatchError, match="other records"):
            rli_spark.upsert(frame(spark, FIRST[1:], parts), table, transaction=("job", 1))
        with pytest.raises(rli.TransactionMismatchError, match="repeat=insert"):
            rli_spark.insert(frame(spark, FIRST, parts), table, transaction=("job", 1))
        keys = spark.createDataFrame([(key,) for key in GONE], "id string").repartition(parts)
        assert rli_spark.delete(keys, table, transaction=("job", 2)) == table.delete(GONE, transaction=("job", 2))
    assert len(rows_of(table)) == 40 - 3
