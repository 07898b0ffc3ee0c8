"""What goes between tasks and to the driver is bounded by rows and by file groups, not by their product with tasks."""

from __future__ import annotations

import pickle
from pathlib import Path
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import rli
from rli.file_group import work_rows
from rli.file_group.work_rows import Change
from rli.file_group.write_context import WriteContext
from rli.model import FileGroupId
from rli.storage import Storage
from rli.view.file_slices import FileSlice
from rli.write.engine.write_plan import FileGroupWriting
from rli.write.rows.by_file_group import groups_of
from rli_spark.planning.execution_plan import ExecutionPlan, Limits, Resources
from rli_spark.planning.parallelism import Parallelism
from rli_spark.rows.file_groups import LotWriting
from rli_spark.rows.headings import COUNTS, HEADINGS, Headings, Kind, added_up, count_headings, counts_of
from rli_spark.rows.lots import BYTES_PER_LOT, LOT, Lots, whole_lots
from rli_spark.rows.row_batches import DATA, SHUFFLE_KEY, table_of
from rli_spark.rows.row_files import write_rows
from rli_spark.session.connect import rows_of as rows_of_arrow
from tests.support.spark import small_writes
from tests.support.spark_writes import upsert_within
from tests.support.tables import records, rows_of

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

COLUMNS = "id string, city string, ts long, v double"
WIDTH = 200


def scattered(rows: int, groups: int) -> pa.Table:
    """Updates, spread evenly over file groups."""
    numbers = range(rows)
    paths = [f"p{n % groups}" for n in numbers]
    ids = [f"{UUID(int=n % groups)}-0" for n in numbers]
    working = [[f"key{n}" for n in numbers], [int(Change.UPDATE)] * rows, paths, ids, paths, paths, ids, ["1"] * rows]
    values = pa.schema([(f"c{number}", pa.float64()) for number in range(WIDTH)])
    return pa.table([*working, *[np.arange(rows) * 0.5] * WIDTH], schema=work_rows.work_schema(values))


def test_wide_rows_travel_without_overhead(tmp_path: Path) -> None:
    rows = scattered(500, 500)
    size = dict.fromkeys((group for group, _ in groups_of(rows)), rows.nbytes / 500)
    storage = Storage(str(tmp_path))
    storage.make_folder("attempt")
    file = write_rows(storage, "attempt", rows)
    sent = Lots.of(size, size, tasks=4).in_lots(rows)
    assert (tmp_path / file.path).stat().st_size < 1.2 * rows.nbytes
    assert pc.sum(pc.binary_length(sent.column(DATA))).as_py() < 1.2 * rows.nbytes
    assert sent.num_rows == 4


@given(
    st.dictionaries(
        st.builds(FileGroupId, st.text(max_size=1), st.text(max_size=3)), st.floats(0, 3 * BYTES_PER_LOT), max_size=12
    ),
    st.integers(1, 5),
)
def test_lots_are_bounded_in_bytes(row_bytes: dict[FileGroupId, float], tasks: int) -> None:
    lots = pickle.loads(pickle.dumps(Lots.of(row_bytes, row_bytes, tasks)))  # noqa: S301
    groups = list(row_bytes)
    lot_of = dict(zip(groups, lots.lots_of(groups).tolist(), strict=True))
    assert len(set(lots.shuffle_keys)) == min(lots.tasks, len(row_bytes)) <= tasks
    for number in range(len(lots.shuffle_keys)):
        held = [row_bytes[group] for group, lot in lot_of.items() if lot == number]
        assert held
        assert sum(held) <= BYTES_PER_LOT or len(held) == 1


def test_rows_leave_lots_as_they_came() -> None:
    rows = scattered(90, 9)
    size = dict.fromkeys((group for group, _ in groups_of(rows)), 1.0)
    sent = pa.concat_tables([Lots.of(size, size, 2).in_lots(part) for part in (rows.slice(0, 50), rows.slice(50))])
    arranged = sent.sort_by(LOT)
    lots = whole_lots(zip(arranged.column(LOT).to_pylist(), arranged.column(DATA).to_pylist(), strict=True))
    found = {group: part.sort_by(work_rows.RECORD_KEY) for _, lot in lots for group, part in groups_of(lot)}
    assert found == {group: part.sort_by(work_rows.RECORD_KEY) for group, part in groups_of(rows)}
    assert len(set(sent.column(SHUFFLE_KEY).to_pylist())) == 2


def test_task_learns_its_file_slices(tmp_path: Path) -> None:
    groups = [FileGroupId(f"p{n}", f"{UUID(int=n)}-0") for n in range(9)]
    lots = Lots.of(dict.fromkeys(groups, 1.0), dict.fromkeys(groups, BYTES_PER_LOT), tasks=2)
    slices = {group: FileSlice(group, "1", None) for group in groups[1:]}
    context = WriteContext(Storage(str(tmp_path)), "2", pa.schema([]), None, (), "zstd")
    writing = LotWriting.of(FileGroupWriting(context, slices), lots)
    told = [writing.of_lot(number) for number in range(len(lots.shuffle_keys))]
    assert [part.slices.keys() for part in told] == [
        {group for group in groups[1:] if lots.lots_of([group]) == [number]} for number in range(9)
    ]
    assert {group: found for part in told for group, found in part.slices.items()} == slices


def test_headings_are_small_and_additive() -> None:
    groups, tasks = 1_000, 20
    counts = counts_of(Kind.STAYING, scattered(3 * groups, groups).select(work_rows.WORKING_COLUMNS))
    told = [row for _ in range(tasks) for row in count_headings(counts, 4)]
    assert sum(len(row[-1] or b"") for row in told) < 100 * groups * tasks
    by_task = [Headings.summed(row for row in told if row[1] == key) for key in {row[1] for row in told}]
    assert sum(part.counts.num_rows for part in by_task) == groups
    changed = Headings.summed(told).profile.changed
    assert len(changed) == groups
    assert set(changed.values()) == {3 * tasks}
    assert [len(row) for row in told] == [len(HEADINGS)] * len(told)


def test_more_tasks_send_no_more() -> None:
    """Tasks that add up the headings of others keep what the driver gets to the file groups of a write."""
    counts = counts_of(Kind.STAYING, scattered(500, 500).select(work_rows.WORKING_COLUMNS))

    def sent_by(tasks: int) -> int:
        sums = ExecutionPlan(Resources(1 << 30), Parallelism(lambda: tasks)).sums(tasks)
        shares = (table_of([heading], HEADINGS) for heading in count_headings(counts, sums))
        told = [table for share in shares for table in added_up(iter([share] * tasks))]
        assert set(Headings.summed(rows_of_arrow(iter(told))).profile.changed.values()) == {tasks}
        return sum(len(content) for table in told for content in table.column(COUNTS).to_pylist() if content)

    assert sent_by(320) < 1.5 * sent_by(32) < 150 * 500


def test_write_with_headings_summed_by_tasks(spark: SparkSession, table: rli.Table) -> None:
    table.upsert(records(*[(f"k{n}", f"city{n % 7}", 5, 1.0) for n in range(40)]))
    # Of every four rows one is late, one moves, one moves too late, and one is updated.
    batch = [(f"k{n}", f"city{(n + n % 2) % 7}", 4 + 2 * (n // 2 % 2), 2.0) for n in range(40)]
    with small_writes(spark, 0):
        frame = spark.createDataFrame([*batch, ("new", "city0", 9, 2.0)], COLUMNS)
        result = upsert_within(Limits(tasks_of_one_sum=1), frame, table)
    expected = [(n, "late" if n // 2 % 2 == 0 else "moved" if n % 2 else "updated") for n in range(40)]
    fates = [fate for _, fate in expected]
    assert (result.inserted, result.updated, result.moved) == (1, fates.count("updated"), fates.count("moved"))
    stored = {row["id"]: (row["city"], row["v"]) for row in rows_of(table)}
    assert stored.pop("new") == ("city0", 2.0)
    for n, fate in expected:
        city = (n + 1) % 7 if fate == "moved" else n % 7
        assert stored.pop(f"k{n}") == (f"city{city}", 1.0 if fate == "late" else 2.0)
    assert not stored
