"""Spark on tables with other indexes than the global one in a store: the same as in plain Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import rli
import rli_spark
from rli import Step
from rli.index.placing import PlacesRecords
from rli.table.table import opened_table
from rli_spark.planning.execution_plan import Limits
from tests.support.clocks import later
from tests.support.soak import in_ci
from tests.support.spark import small_writes
from tests.support.spark_writes import delete_within, upsert_within
from tests.support.tables import assert_nothing_left_over, records, rows_of

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

BUCKETS = "bucket:?buckets=3"
IN_STORE = "lmdb://{folder}?scope=partition"
INDEXES = ["global-simple:", BUCKETS, "simple:", "bloom:", "global-bloom:", IN_STORE]
FEW = [BUCKETS, "global-bloom:", IN_STORE]
GLOBAL_KINDS = {"global-simple:", "global-bloom:"}
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
        folder / name,
        record_key="id",
        partition_by="city",
        ordering="ts",
        index=index.format(folder=folder / f"index-of-{name}"),
        target_file_size=64 * 1024,
    )


def frame(spark: SparkSession, rows: list[Row]) -> DataFrame:
    return spark.createDataFrame(rows, COLUMNS).repartition(3)


def counts(result: rli.CommitResult) -> tuple[int, ...]:
    return result.inserted, result.updated, result.moved, result.deleted, result.unchanged


@pytest.mark.parametrize("index", in_ci(FEW, of=INDEXES))
def test_spark_writes_what_plain_python_writes(spark: SparkSession, tmp_path: Path, index: str) -> None:
    # Less than the keys of a write.
    limits = Limits(keys_at_once=20)
    ours, expected = create(tmp_path, "spark", index), create(tmp_path, "python", index)
    for batch in (STORED, BATCH):
        written = upsert_within(limits, frame(spark, batch), ours)
        assert counts(written) == counts(expected.upsert(records(*batch)))
    assert rows_of(ours) == rows_of(expected)
    gone = [(f"k{n}",) for n in (*range(0, 70, 5), 999)]
    deleted = delete_within(limits, spark.createDataFrame([*gone, ("k0",)], "id string"), ours)
    assert counts(deleted) == counts(expected.delete([key for (key,) in gone]))
    assert rows_of(ours) == rows_of(expected)
    first = rli_spark.insert(frame(spark, [("k1", "y", 9, 9.0), ("k1", "z", 9, 9.0)]), ours, on_existing="skip")
    assert counts(first) == counts(
        expected.insert(records(("k1", "y", 9, 9.0), ("k1", "z", 9, 9.0)), on_existing="skip")
    )
    assert rows_of(ours) == rows_of(expected)
    before = rows_of(ours)
    if not isinstance(opened_table(ours).index, PlacesRecords):
        rli_spark.cluster(spark, ours)
    assert rows_of(ours) == before
    asked = spark.createDataFrame([("k1",), ("k2",), ("nobody",)], "id string")
    found = rli_spark.read(spark, ours, keys=asked).select("id", "city", "ts", "v").collect()
    assert sorted(map(tuple, found)) == sorted(tuple(row.values())[:4] for row in before if row["id"] in {"k1", "k2"})
    assert ours.verify_index().agrees
    assert_nothing_left_over(ours)


@pytest.mark.invariant("P40")
def test_expired_keys_are_inserted_again(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = create(tmp_path, "t", "lmdb://{folder}?ttl=9d")
    table.upsert(records(*STORED))
    with small_writes(spark, 0):
        later(monkeypatch, timedelta(days=6))
        assert rli_spark.upsert(frame(spark, [("k0", "x", 6, 2.0), ("k1", "y", 6, 2.0)]), table).updated == 2
        later(monkeypatch, timedelta(days=6))
        batch = [("k0", "y", 7, 3.0), ("k3", "y", 1, 3.0), ("k4", "y", 1, 3.0)]
        assert counts(rli_spark.upsert(frame(spark, batch), table)) == (2, 0, 1, 0, 0)
    # The file of k4, and of no other one of them, was in y.
    assert sorted(row["id"] for row in table.read().to_pylist()) == sorted([*(f"k{n}" for n in range(60)), "k3"])
    rli_spark.cluster(spark, table)
    assert rli_spark.bootstrap_index(spark, table) == 4
    assert table.verify_index().agrees


@pytest.mark.parametrize("index", in_ci(FEW, of=INDEXES))
def test_frame_is_tagged_with_file_locations(spark: SparkSession, tmp_path: Path, index: str) -> None:
    table = create(tmp_path, "t", index)
    asked = frame(spark, [("k1", "y", 0, 0.0), ("k1", "y", 0, 0.0), ("k2", "x", 0, 0.0), ("nobody", "x", 0, 0.0)])
    assert rli_spark.tag(asked, table).where("_rli_file_id is null").count() == 4
    instant = table.upsert(records(*STORED)).instant
    tagged = rli_spark.tag(asked, table)
    assert tagged.columns == [*asked.columns, "_rli_partition_path", "_rli_file_id", "_rli_instant_time"]
    where = {(row.id, row.city, row["_rli_partition_path"], row["_rli_instant_time"]) for row in tagged.collect()}
    elsewhere = ("z", instant) if index in GLOBAL_KINDS else (None, None)
    assert where == {("k1", "y", "y", instant), ("k2", "x", *elsewhere), ("nobody", "x", None, None)}
    assert tagged.count() == 4


@pytest.mark.parametrize(
    ("index", "step"),
    in_ci(
        [("global-simple:", Step.TAGGED), (BUCKETS, Step.WRITTEN), ("bloom:", Step.WRITTEN)],
        of=[
            ("global-simple:", Step.TAGGED),
            ("global-simple:", Step.WRITTEN),
            (BUCKETS, Step.TAGGED),
            (BUCKETS, Step.WRITTEN),
            ("simple:", Step.WRITTEN),
            (IN_STORE, Step.WRITTEN),
            ("bloom:", Step.WRITTEN),
            ("global-bloom:", Step.WRITTEN),
        ],
    ),
)
def test_writers_insert_key_once(spark: SparkSession, tmp_path: Path, index: str, step: Step) -> None:
    table = create(tmp_path, "t", index)
    table.upsert(records(*STORED))
    other = rli.open_table(table.location)
    rival = once(step, lambda: other.upsert(records(("new", "x", 1, 1.0), ("k0", "x", 9, 9.0))))
    result = rli_spark.upsert(frame(spark, [("new", "x", 2, 2.0), ("k0", "x", 8, 8.0)]), table, on_step=rival)
    assert counts(result) == (0, 1, 0, 0, 1)
    rows = {row["id"]: row["v"] for row in rows_of(table)}
    assert (len(rows_of(table)), rows["new"], rows["k0"]) == (61, 2.0, 9.0)
    assert table.verify_index().agrees


def test_driver_memory_index_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    table = create(tmp_path, "t", "memory:")
    for write in (rli_spark.upsert, rli_spark.insert, rli_spark.tag):
        with pytest.raises(rli.SettingsError, match="memory of the driver"):
            write(frame(spark, STORED), table)
    assert table.read().num_rows == 0


def once(step: Step, action: Callable[[], object]) -> Callable[[Step], None]:
    """Does something when a write reaches a step for the first time."""
    left = [action]

    def on_step(reported: Step) -> None:
        if reported is step and left:
            left.pop()()

    return on_step


@pytest.mark.parametrize("small", [0, 1 << 20], ids=["in tasks", "in the driver"])
def test_bucket_insert_fails_before_commit(spark: SparkSession, tmp_path: Path, small: int) -> None:
    table = create(tmp_path, "t", BUCKETS)
    table.upsert(records(*STORED))
    before = table.timeline()
    with small_writes(spark, small), pytest.raises(rli.RecordExistsError, match="k7"):
        rli_spark.insert(frame(spark, [("k7", "y", 9, 9.0), ("fresh", "z", 9, 9.0)]), table, on_existing="fail")
    assert table.timeline() == before
    assert_nothing_left_over(table)


@pytest.mark.parametrize("step", [Step.TAGGED, Step.WRITTEN])
def test_bucket_never_gets_two_file_groups(spark: SparkSession, tmp_path: Path, step: Step) -> None:
    table = create(tmp_path, "t", "bucket:?buckets=1")
    table.upsert(records(("k0", "x", 1, 1.0)))
    other = rli.open_table(table.location)
    rival = once(step, lambda: other.upsert(records(("theirs", "new", 1, 1.0))))
    result = rli_spark.upsert(frame(spark, [("ours", "new", 1, 1.0)]), table, on_step=rival)
    assert (result.inserted, result.attempts) == (1, 2)
    assert len(opened_table(table).snapshot().slices.of_partitions(["new"])) == 1
    assert len(rows_of(table)) == 3


@pytest.mark.invariant("P37")
def test_table_changes_index_beside_spark_writes(spark: SparkSession, tmp_path: Path) -> None:
    table = create(tmp_path, "t", "lmdb://{folder}")
    driver = rli.open_table(table.location)
    rli_spark.upsert(frame(spark, STORED), driver)
    other = f"lmdb://{tmp_path}/other"
    migrated: list[rli.MigrationResult] = []

    def migrate(step: Step) -> None:
        if step is Step.WRITTEN and not migrated:
            migrated.append(rli_spark.migrate_index(spark, table, other, drop_old=True))
            table.upsert(records(("k60", "y", 1, 1.0)))

    # The frame is written again with the new index, which knows what was committed meanwhile.
    result = rli_spark.upsert(frame(spark, BATCH), driver, on_step=migrate)
    assert (len(migrated), migrated[0].records, driver.index.url) == (1, 60, other)
    assert (result.inserted, result.moved) == (9, 16)
    tagged = rli_spark.tag(frame(spark, [("k60", "x", 1, 1.0)]), driver).collect()
    assert [row["_rli_partition_path"] for row in tagged] == ["new"]
    for index in ("record-index:", "global-simple:"):
        assert rli_spark.migrate_index(spark, table, index).index == index
        read = rli_spark.read(spark, driver, keys=spark.createDataFrame([("k61",)], "id string")).collect()
        assert [row["city"] for row in read] == ["x"]
        assert table.verify_index().agrees
    assert_nothing_left_over(table)


def test_reads_by_key_restart_after_clean(spark: SparkSession, tmp_path: Path) -> None:
    table = create(tmp_path, "beside", BUCKETS)
    keys = [f"k{number}" for number in range(20)]
    write = [records(*((key, "x", ts, 0.0) for key in keys)) for ts in range(1, 7)]
    for batch in write[:3]:
        table.upsert(batch)
    location, begun = table.location, tmp_path / "begun"

    def beside_others(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The keys, for which the reader has its snapshot already when they are computed first."""
        if not begun.exists():
            begun.touch()
            with rli.open_table(location) as other:
                for batch in write[3:]:
                    other.upsert(batch)
                    other.clean(keep_commits=1)
        yield from batches

    asked = spark.createDataFrame([(key,) for key in keys], "id string").coalesce(1)
    found = rli_spark.read(spark, table, keys=asked.mapInArrow(beside_others, asked.schema))
    assert {(row["id"], row["ts"]) for row in found.collect()} == {(key, 6) for key in keys}
    assert begun.exists()
