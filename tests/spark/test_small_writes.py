"""Small writes are done in the driver, and go back to Spark's tasks where they are not so small after all."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import SparkSession

import rli
import rli_spark
from rli.tasks import InThreads
from rli_spark.planning.execution_plan import ExecutionPlan, Limits, Resources
from rli_spark.planning.parallelism import Parallelism
from rli_spark.planning.resources import SMALL_WRITE_BYTES, resources_of, size_of_results
from rli_spark.requests.request_parts import Parts
from rli_spark.requests.small_frames import rows_of_small
from tests.support.soak import in_ci
from tests.support.spark import REPOSITORY, small_writes
from tests.support.spark_writes import delete_within, upsert_within
from tests.support.tables import assert_nothing_left_over, records, rows_of

pytestmark = pytest.mark.spark

COLUMNS = "id string, city string, ts long, v double"
BEFORE = [("a", "x", 1, 1.0), ("b", "x", 1, 1.0), ("c", "x", 9, 1.0), ("d", "x", 1, 1.0)]
BATCH = [("a", "x", 2, 2.0), ("b", "y", 2, 2.0), ("c", "y", 2, 2.0), ("new", "x", 2, 2.0)]
"""One is updated, one moves, one would move but is late, one is new."""

CLUSTER = Limits(local_cores=0)
"""As if the tasks ran on other machines."""


@pytest.fixture(autouse=True)
def in_driver(spark: SparkSession) -> Iterator[None]:
    with small_writes(spark, 1 << 22):
        yield


def jobs_of(spark: SparkSession, work: Callable[[], object]) -> int:
    """How many jobs of Spark something takes."""
    context, group = spark.sparkContext, uuid4().hex
    context.setJobGroup(group, "counted")
    try:
        work()
    finally:
        context._jsc.clearJobGroup()  # noqa: SLF001  (Python has no name for it)
    return len(context.statusTracker().getJobIdsForGroup(group))


def test_a_small_write_is_one_job(spark: SparkSession, table: rli.Table) -> None:
    table.upsert(records(*BEFORE))
    frame = spark.createDataFrame(BATCH, COLUMNS)
    assert jobs_of(spark, lambda: rli_spark.upsert(frame, table)) == 1
    assert jobs_of(spark, lambda: rli_spark.insert(frame, table)) == 1
    assert jobs_of(spark, lambda: rli_spark.delete(frame.drop("ts"), table)) == 1
    assert [row["id"] for row in rows_of(table)] == ["d"]
    assert_nothing_left_over(table)


def test_large_write_takes_three_jobs(spark: SparkSession, table: rli.Table) -> None:
    table.upsert(records(*BEFORE))
    with small_writes(spark, 0):
        moving, staying = spark.createDataFrame(BATCH, COLUMNS), spark.createDataFrame([("a", "x", 3, 3.0)], COLUMNS)
        assert jobs_of(spark, lambda: rli_spark.upsert(moving, table)) == 4
        assert jobs_of(spark, lambda: rli_spark.upsert(staying, table)) == 3


def stages_of(caplog: pytest.LogCaptureFixture, work: Callable[[], object]) -> dict[str, logging.LogRecord]:
    """The last plan of each stage of a write."""
    caplog.clear()
    with caplog.at_level(logging.INFO, "rli.execution"):
        work()
    return {vars(told)["rli_stage"]: told for told in caplog.records if vars(told)["rli_event"] == "execution.plan"}


def test_a_log_tells_where_writes_run(spark: SparkSession, table: rli.Table, caplog: pytest.LogCaptureFixture) -> None:
    table.upsert(records(*BEFORE))
    frame = spark.createDataFrame(BATCH, COLUMNS)
    small = stages_of(caplog, lambda: upsert_within(CLUSTER, frame, table))
    assert {stage: vars(told)["rli_place"] for stage, told in small.items()} == dict.fromkeys(
        ("request", "tag", "resolve", "write"), "driver"
    )
    assert vars(small["request"])["rli_rows"] == len(BATCH)
    with small_writes(spark, 0):
        large = stages_of(caplog, lambda: rli_spark.upsert(frame, table))
    assert {vars(told)["rli_place"] for told in large.values()} == {"tasks"}
    assert all(vars(told)["rli_table"] == str(table.location) for told in large.values())
    assert (vars(large["write"])["rli_tasks"], vars(large["write"])["rli_cores"]) == (2, 2)
    assert "rows" in large["request"].getMessage()


@pytest.mark.one_spark
@pytest.mark.parametrize(
    ("limits", "is_by_tasks"),
    [
        (Limits(local_cores=0, tasks_like_driver=1, rewritten_bytes=0), True),
        (Limits(local_cores=0, tasks_like_driver=1, rewritten_bytes=1 << 20), False),
        (Limits(local_cores=0, tasks_like_driver=1, file_groups=0), True),
        (Limits(local_cores=0, tasks_like_driver=1, file_groups=1), False),
    ],
)
def test_many_or_large_files_use_tasks(
    spark: SparkSession, table: rli.Table, limits: Limits, *, is_by_tasks: bool
) -> None:
    # As if the tasks ran on other machines, and each of the two that run at a time were as fast as the driver.
    table.upsert(records(*BEFORE))
    frame = spark.createDataFrame(BATCH, COLUMNS)
    done = list[rli.CommitResult]()
    jobs = jobs_of(spark, lambda: done.append(upsert_within(limits, frame, table)))
    assert (jobs > 1) == is_by_tasks
    assert (done[0].inserted, done[0].updated, done[0].moved, done[0].unchanged) == (1, 1, 1, 1)
    # The caller's own, with its views and settings.
    active = SparkSession.getActiveSession()
    assert active is not None
    assert active.conf.get("spark.sql.adaptive.enabled") == spark.conf.get("spark.sql.adaptive.enabled")
    assert [(row["id"], row["city"], row["v"]) for row in rows_of(table)] == [
        ("a", "x", 2.0), ("b", "y", 2.0), ("c", "x", 1.0), ("d", "x", 1.0), ("new", "x", 2.0)
    ]  # fmt: skip
    assert delete_within(limits, frame.drop("ts"), table).deleted == 4
    assert table.verify_index().agrees


@pytest.mark.one_spark
def test_a_local_driver_rewrites_any_files(spark: SparkSession, table: rli.Table) -> None:
    table.upsert(records(*BEFORE))
    frame, none = spark.createDataFrame(BATCH, COLUMNS), Limits(rewritten_bytes=0, file_groups=0)
    assert jobs_of(spark, lambda: upsert_within(none, frame, table)) == 1


@pytest.mark.one_spark
def test_local_driver_collects_overflow_through_files(spark: SparkSession, table: rli.Table) -> None:
    none = Limits(brought_bytes=0, collected_bytes=0)
    table.upsert(records(*BEFORE))
    frame = spark.createDataFrame([*BATCH, ("new", "x", 1, 1.0)], COLUMNS)
    done = list[rli.CommitResult]()
    assert jobs_of(spark, lambda: done.append(upsert_within(none, frame, table))) == 1
    assert (done[0].inserted, done[0].updated, done[0].moved, done[0].unchanged) == (1, 1, 1, 1)
    assert [(row["id"], row["city"], row["v"]) for row in rows_of(table)] == [
        ("a", "x", 2.0), ("b", "y", 2.0), ("c", "x", 1.0), ("d", "x", 1.0), ("new", "x", 2.0)
    ]  # fmt: skip
    assert jobs_of(spark, lambda: delete_within(none, frame.drop("ts"), table)) == 1
    assert [row["id"] for row in rows_of(table)] == ["d"]
    assert table.verify_index().agrees
    assert_nothing_left_over(table)


def test_a_session_tells_its_resources(spark: SparkSession) -> None:
    heap = spark.sparkContext._jvm.java.lang.Runtime.getRuntime().maxMemory()  # type: ignore[union-attr]  # noqa: SLF001
    before = spark.conf.get(SMALL_WRITE_BYTES) or "0"
    assert resources_of(spark) == Resources(1 << 30, 2, heap, int(before), InThreads().threads)
    spark.conf.unset(SMALL_WRITE_BYTES)
    try:
        assert resources_of(spark).set_bytes is None
    finally:
        spark.conf.set(SMALL_WRITE_BYTES, before)


def bringing(most: int, each: int) -> ExecutionPlan:
    """A plan that lets so many bytes come to the driver, and each task bring so many in any case."""
    resources = Resources(1 << 60, local_cores=2, heap_bytes=1 << 60)
    return ExecutionPlan(resources, Parallelism(lambda: 2), limits=Limits(brought_bytes=each, collected_bytes=most))


@pytest.mark.parametrize(("most", "each", "rows"), [(4_000, 10, 4_000), (3_000, 10, None), (3_000, 1_000, 4_000)])
def test_each_task_brings_its_share(spark: SparkSession, most: int, each: int, rows: int | None) -> None:
    # Each of four tasks has 1,000 rows; the last one may bring a quarter, or what each may bring.
    found = rows_of_small(spark.range(0, 4_000, 1, 4), bringing(most * 64, each * 64))
    assert (None if found is None else sorted(found.column("id").to_pylist())) == (
        None if rows is None else [*range(rows)]
    )


WIDE = [
    ("if(id % 2 = 0, null, array(repeat('x', 100)))", True),
    ("repeat('x', 1500)", False),
    ("map('k', array(named_struct('a', 1, 'b', repeat('x', 1500))))", False),
    ("if(id < 999, '', repeat('x', 1500))", False),
]


@pytest.mark.parametrize(
    ("column", "comes"),
    in_ci(
        WIDE,
        of=[
            *WIDE,
            ("repeat('x', 100)", True),
            ("cast(repeat('x', 1500) AS binary)", False),
            ("array(repeat('x', 1500))", False),
            ("named_struct('a', repeat('x', 1500))", False),
            ("sequence(0, 200)", False),
        ],
    ),
)
def test_unexpectedly_wide_rows_are_not_brought(spark: SparkSession, column: str, *, comes: bool) -> None:
    # Each of two tasks has 500 rows; a quarter of a megabyte may come of each.
    frame = spark.range(0, 1_000, 1, 2).selectExpr("id AS `a.b`", f"{column} AS `v``w`")
    found = rows_of_small(frame, bringing(250_000, 250_000))
    assert (None if found is None else found.sort_by("a.b").to_pylist()) == (
        [row.asDict(recursive=True) for row in frame.collect()] if comes else None
    )


@pytest.mark.one_spark
@pytest.mark.parametrize("name", ["_rli_row_number", "_RLI_Row_Number"])
def test_column_may_be_named_row_number(spark: SparkSession, table: rli.Table, name: str) -> None:
    frame = spark.createDataFrame([(*BATCH[0], "kept")], f"{COLUMNS}, `{name}` string")
    if name.startswith("_rli_"):
        with pytest.raises(rli.SchemaError, match="reserved name"):
            rli_spark.upsert(frame, table)
        assert rli_spark.delete(frame.drop("ts"), table).deleted == 0
    else:
        rli_spark.upsert(frame, table)
        assert rows_of(table)[0][name] == "kept"


@pytest.mark.parametrize("value", ["1", "1k", "64M", "2g", "2gb", "3T", "0", "7b", None])
def test_sizes_are_read_as_by_spark(spark: SparkSession, value: str | None) -> None:
    settings = spark.sparkContext._jvm.org.apache.spark.SparkConf(False)  # type: ignore[union-attr]  # noqa: FBT003, SLF001
    settings.set("size", value or "1g")
    # With 0, Spark sets no limit.
    assert size_of_results(value) == (settings.getSizeAsBytes("size") or sys.maxsize)


@pytest.mark.one_spark
def test_cluster_with_small_results_can_write(tmp_path: Path) -> None:
    paths = [REPOSITORY, REPOSITORY / "backends", REPOSITORY / "spark"]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
    }
    program = Path(__file__).with_name("cluster_with_small_results.py")
    done = subprocess.run(
        [sys.executable, str(program), str(tmp_path)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.one_spark
def test_cluster_driver_reads_no_row_files(spark: SparkSession, table: rli.Table) -> None:
    table.upsert(records(*BEFORE))
    # The first task gives its rows to the driver, the second one writes a file.
    frame = spark.createDataFrame(BATCH, COLUMNS).repartition(2)
    with small_writes(spark, 200):
        assert jobs_of(spark, lambda: upsert_within(CLUSTER, frame, table)) > 1
    assert [row["v"] for row in rows_of(table)] == [2.0, 2.0, 1.0, 1.0, 2.0]


@pytest.mark.one_spark
@pytest.mark.parametrize(
    ("limit", "index"),
    in_ci([(0, "global-bloom:"), (1 << 24, "simple:")], of=[*product((0, 1 << 24), ("simple:", "global-bloom:"))]),
)
def test_large_tables_are_searched_by_tasks(spark: SparkSession, tmp_path: Path, index: str, limit: int) -> None:
    limits = Limits(searched_bytes=limit)
    ours, expected = (
        rli.create_table(tmp_path / name, record_key="id", partition_by="city", ordering="ts", index=index)
        for name in ("ours", "expected")
    )
    for table in (ours, expected):
        table.upsert(records(*BEFORE))
    frame = spark.createDataFrame(BATCH, COLUMNS)
    assert (jobs_of(spark, lambda: upsert_within(limits, frame, ours)) > 1) == (limit == 0)
    expected.upsert(records(*BATCH))
    assert rows_of(ours) == rows_of(expected)
    assert (jobs_of(spark, lambda: delete_within(limits, frame.drop("ts"), ours)) > 1) == (limit == 0)
    expected.delete([row[0] for row in BATCH])
    assert rows_of(ours) == rows_of(expected)
    assert_nothing_left_over(ours)


@pytest.mark.one_spark
@pytest.mark.parametrize("large", in_ci([1], of=[0, 1, 2]))
def test_tasks_may_have_uneven_rows(spark: SparkSession, table: rli.Table, large: int) -> None:
    def rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in (number for batch in batches for number in batch.column(0).to_pylist()):
            count = 5_000 if number < large else 3
            names = [f"{number}-{row}" for row in range(count)]
            yield pa.record_batch(
                [names, pa.array(["x"] * count), pa.array([1] * count), pa.array([0.5] * count)],
                ["id", "city", "ts", "v"],
            )

    with small_writes(spark, 100_000):
        frame = spark.range(0, 3, 1, 3).mapInArrow(rows, COLUMNS)
        result = rli_spark.upsert(frame, table)
    assert result.inserted == large * 5_000 + (3 - large) * 3 == table.read().num_rows
    assert_nothing_left_over(table)


@pytest.mark.one_spark
def test_nondeterministic_frame_is_computed_once(spark: SparkSession, table: rli.Table) -> None:
    table.upsert(records(*BEFORE))
    frame = spark.range(0, 20, 1, 2).selectExpr("uuid() id", "'x' city", "1L ts", "rand() v")
    other = spark.createDataFrame([("a", "x", 5, 5.0)], COLUMNS)
    attempts = list[rli.Step]()

    def disturb(step: rli.Step) -> None:
        if step is rli.Step.TAGGED:
            attempts.append(step)
            if len(attempts) == 1:
                # Rewrites the same small file.
                rli_spark.upsert(other, table)

    assert rli_spark.upsert(frame, table, on_step=disturb).inserted == 20
    assert len(attempts) == 2
    assert table.read().num_rows == 24
    assert table.verify_index().agrees


@pytest.mark.parametrize(
    ("rows", "column", "jobs"),
    [
        (3, "0.5 v", range(1, 2)),
        (0, "0.5 v", range(10)),
        (1_000, "explode(array_repeat(0.5, 10)) v", range(2, 10)),
        (20, "repeat(char(65 + id), 10000) v", range(2, 10)),
    ],
    ids=["few rows", "none", "more rows than expected", "wider rows than expected"],
)
def test_wrong_size_estimates_are_tolerated(
    spark: SparkSession, table: rli.Table, rows: int, column: str, jobs: range
) -> None:
    columns = "cast(id AS string) id", "cast(id % 3 AS string) city", "id ts", "current_timestamp() at", column
    frame = spark.range(0, rows, 1, 2).selectExpr(*columns)
    with small_writes(spark, 1 << 17):
        assert jobs_of(spark, lambda: rli_spark.upsert(frame, table)) in jobs
    assert sorted(int(row["id"]) for row in rows_of(table)) == list(range(rows))
    assert table.verify_index().agrees
    assert_nothing_left_over(table)


def test_duplicate_task_report_voids_request() -> None:
    with pytest.raises(rli.VoidAttemptError):
        Parts.accepted([_Row(0), _Row(0)], "folder")  # type: ignore[list-item]


class _Row:
    def __init__(self, task: int) -> None:
        self.task = task


def test_non_numeric_setting_is_refused(spark: SparkSession, table: rli.Table) -> None:
    spark.conf.set(SMALL_WRITE_BYTES, "4m")
    with pytest.raises(rli.SettingsError, match=r"spark\.rli\.smallWriteBytes=4m"):
        rli_spark.upsert(spark.createDataFrame(BATCH, COLUMNS), table)
