"""Several writers on one table: a second one commits in the middle of a write, at a step that the test chooses."""

from __future__ import annotations

import json
import logging
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rli import ConflictError, IndexNotFoundError, InvalidInputError, SchemaError, Step, Table, create_table, open_table
from rli.commit.begun_write import BegunWrite
from rli.commit.recovery import recover
from rli.index.record.table.index import RecordTableIndex
from rli.storage import Storage
from rli.table.table import opened_table
from rli.tasks import InProcess
from rli.view import paths
from rli.view.table_change import NATIVE_ENTRY
from rli.write.options import pass_over
from tests.crash.writes import pointed
from tests.support.rollbacks import roll_back_in_part
from tests.support.tables import assert_nothing_left_over, by_key, check_stored, records, rows_of


class AtStep:
    """Does something once, or each time, that a write has reached a step."""

    def __init__(self, step: Step, action: Callable[[], object], *, times: int = 1) -> None:
        self.reached = 0
        self._step = step
        self._action = action
        self._times = times

    def __call__(self, step: Step) -> None:
        if step is self._step:
            self.reached += 1
            if self.reached <= self._times:
                self._action()


@pytest.fixture
def other(trips: Table) -> Table:
    """A second writer of the table."""
    return open_table(trips.location)


@pytest.mark.invariant("P5")
def test_late_request_keeps_its_base(trips: Table, other: Table) -> None:
    """Others commit before its request is there to be seen, and clean behind it."""
    trips.upsert(records(("a", "x", 1, 1.0), ("b", "x", 1, 1.0)))
    left = [records(("a", "x", number, 1.0)) for number in (5, 6, 7)]

    def commit_first(point: str) -> None:
        while left and point.startswith("before create") and point.endswith(".requested"):
            other.upsert(left.pop(0))

    clean = AtStep(Step.INFLIGHT, lambda: other.clean(keep_commits=1))
    assert pointed(trips, commit_first).upsert(records(("b", "x", 9, 9.0)), attempts=1, on_step=clean).updated == 1
    assert clean.reached == 1
    assert by_key(rows_of(trips)) == by_key(records(("a", "x", 7, 1.0), ("b", "x", 9, 9.0)).to_pylist())
    check_stored(trips)


def test_write_retries_after_foreign_clean(trips: Table, other: Table) -> None:
    trips.upsert(records(("a", "x", 1, 1.0), ("b", "x", 1, 1.0)))
    [old] = Path(trips.location).glob("x/*.parquet")

    def commit_and_clean() -> None:
        other.upsert(records(("a", "x", 5, 5.0)))
        old.unlink()

    at_step = AtStep(Step.TAGGED, commit_and_clean)
    assert trips.upsert(records(("b", "x", 9, 9.0)), on_step=at_step).updated == 1
    assert at_step.reached == 2
    assert by_key(rows_of(trips)) == by_key(records(("a", "x", 5, 5.0), ("b", "x", 9, 9.0)).to_pylist())


@pytest.mark.parametrize("step", [Step.INFLIGHT, Step.TAGGED, Step.WRITTEN])
def test_conflicting_write_is_retried(trips: Table, other: Table, step: Step) -> None:
    trips.upsert(records(("a", "x", 1, 1.0), ("b", "x", 1, 1.0)))
    at_step = AtStep(step, lambda: other.upsert(records(("a", "x", 3, 3.0), ("c", "x", 3, 3.0))))
    result = trips.upsert(records(("a", "x", 2, 2.0), ("b", "x", 2, 2.0), ("c", "y", 4, 4.0)), on_step=at_step)
    assert at_step.reached == 2
    # The counts are those of the attempt that was committed: a came too late, c was there and moved.
    assert (result.inserted, result.updated, result.moved, result.unchanged) == (0, 1, 1, 1)
    assert by_key(rows_of(trips)) == by_key(
        records(("a", "x", 3, 3.0), ("b", "x", 2, 2.0), ("c", "y", 4, 4.0)).to_pylist()
    )
    check_stored(trips)


def test_conflict_removes_only_promoted_files(trips: Table, other: Table) -> None:
    """In an object store each file that it looked for in the table would take a request."""
    trips.upsert(records(("a", "x", 1, 1.0), ("b", "y", 1, 1.0)))
    points: list[str] = []
    at_step = AtStep(Step.MANIFESTED, lambda: other.upsert(records(("a", "x", 3, 3.0))))
    with pytest.raises(ConflictError):
        pointed(trips, points.append).upsert(
            records(("a", "x", 2, 2.0), ("b", "y", 2, 2.0)), attempts=1, on_step=at_step
        )
    assert [point for point in points if "delete" in point and ".hoodie" not in point] == []
    assert_nothing_left_over(trips)
    check_stored(trips)


def test_a_conflicting_delete_is_retried(trips: Table, other: Table) -> None:
    trips.upsert(records(("a", "x", 1, 1.0), ("b", "x", 1, 1.0)))
    at_step = AtStep(Step.WRITTEN, lambda: other.upsert(records(("a", "y", 2, 2.0))))
    assert trips.delete(["a", "nobody"], on_step=at_step).deleted == 1
    assert at_step.reached == 2
    assert [row["id"] for row in rows_of(trips)] == ["b"]
    check_stored(trips)


def test_exhausted_retry_names_conflict(trips: Table, other: Table) -> None:
    trips.upsert(records(*((f"k{number:02}", "x", 1, 1.0) for number in range(30))))
    theirs: list[str | None] = []

    def rival() -> None:
        theirs.append(other.upsert(records(("k00", "x", 2, 2.0 + len(theirs)))).instant)

    at_step = AtStep(Step.WRITTEN, rival, times=9)
    batch = records(*((f"k{number:02}", "x", 3, 9.0) for number in range(25)))
    with pytest.raises(ConflictError, match=r"attempts=2 keys=25 sample=\['k00'.*nothing was written: ") as raised:
        trips.upsert(batch, attempts=2, on_step=at_step)
    assert at_step.reached == 2
    assert raised.value.key_count == 25
    assert set(raised.value.keys) <= set(batch.column("id").to_pylist())
    assert len(raised.value.keys) == 10
    assert raised.value.instants == (theirs[-1],)
    assert {row["v"] for row in rows_of(trips)} == {1.0, 3.0}
    assert_nothing_left_over(trips)


def test_an_exhausted_delete_names_its_keys(trips: Table, other: Table) -> None:
    trips.upsert(records(("a", "x", 1, 1.0), ("b", "x", 1, 1.0)))
    at_step = AtStep(Step.WRITTEN, lambda: other.upsert(records(("b", "x", 2, 2.0))))
    with pytest.raises(ConflictError) as raised:
        trips.delete(["a"], attempts=1, on_step=at_step)
    assert raised.value.keys == ("a",)
    assert_nothing_left_over(trips)


@pytest.mark.parametrize("cities", [("x", "y"), ("x", "x")])
def test_an_insert_names_contested_keys_once(trips: Table, other: Table, cities: tuple[str, str]) -> None:
    trips.upsert(records(("z", "z", 1, 1.0)))
    at_step = AtStep(Step.WRITTEN, lambda: other.insert(records(("n", cities[1], 5, 5.0), ("theirs", "y", 1, 1.0))))
    with pytest.raises(ConflictError, match=r"keys=1 sample=\['n'\].*count=1 keys=\['n'\]") as raised:
        trips.insert(records(("n", cities[0], 4, 4.0), ("ours", "w", 1, 1.0)), attempts=1, on_step=at_step)
    assert (raised.value.keys, raised.value.key_count) == (("n",), 1)


def test_key_across_partitions_is_named_once(tmp_path: Path, memory_url: str) -> None:
    table = create_table(
        tmp_path / "t", record_key="id", partition_by="city", ordering="ts", index=f"{memory_url}?scope=partition"
    )
    batch = records(("n", "x", 5, 5.0), ("n", "y", 5, 5.0))
    for write in (table.insert, table.upsert):
        at_step = AtStep(Step.WRITTEN, lambda: open_table(table.location).upsert(batch))
        with pytest.raises(ConflictError) as raised:
            write(batch, attempts=1, on_step=at_step)
        assert (raised.value.keys, raised.value.key_count) == (("n",), 1)
        table.delete(["n"])


def test_conflict_names_moved_keys(trips: Table, other: Table) -> None:
    trips.upsert(records(("m", "x", 1, 1.0), ("stays", "x", 1, 1.0), ("old", "y", 1, 1.0)))
    rival = AtStep(Step.WRITTEN, lambda: other.upsert(records(("stays", "x", 2, 2.0))))
    with pytest.raises(ConflictError, match=r"file groups=\['x/.*count=1 keys=\['m'\]") as raised:
        trips.upsert(records(("m", "y", 3, 3.0), ("old", "y", 3, 3.0)), attempts=1, on_step=rival)
    assert (raised.value.keys, raised.value.key_count) == (("m",), 1)
    both = AtStep(Step.WRITTEN, lambda: other.upsert(records(("stays", "x", 4, 4.0), ("old", "y", 4, 4.0))))
    with pytest.raises(ConflictError) as raised:
        trips.upsert(records(("m", "y", 3, 3.0)), attempts=1, on_step=both)
    assert (raised.value.keys, raised.value.key_count) == (("m",), 1)


def test_conflict_without_keys_names_file_groups(trips: Table, other: Table) -> None:
    trips.upsert(records(("a", "x", 5, 1.0)))
    group = trips.lookup(["a"])["file_id"][0].as_py()
    rival = AtStep(Step.WRITTEN, lambda: other.upsert(records(("a", "x", 6, 6.0))))
    with pytest.raises(ConflictError, match=rf"attempts=1 instants=.*file groups=\['x/{group}'\] instants=") as raised:
        trips.upsert(records(("a", "x", 1, 1.0), ("b", "y", 1, 1.0)), attempts=1, on_step=rival)
    assert (raised.value.keys, raised.value.key_count) == ((), 0)


def test_write_attempts_are_table_setting(tmp_path: Path, memory_url: str) -> None:
    table = create_table(tmp_path / "t", record_key="id", index=memory_url, write_attempts=2)
    other = open_table(tmp_path / "t")
    table.upsert(pa.table({"id": ["a"], "v": [0]}))
    versions = count(3)
    at_step = AtStep(Step.WRITTEN, lambda: other.upsert(pa.table({"id": ["a"], "v": [next(versions)]})), times=9)
    with pytest.raises(ConflictError, match="attempts=2"):
        table.upsert(pa.table({"id": ["a"], "v": [2]}), on_step=at_step)
    with pytest.raises(InvalidInputError, match="attempts=0"):
        table.upsert(pa.table({"id": ["a"], "v": [2]}), attempts=0)


@pytest.mark.invariant("P5")
@pytest.mark.parametrize("cities", [("x", "y"), ("x", "x")])
def test_concurrent_inserts_leave_single_record(trips: Table, other: Table, cities: tuple[str, str]) -> None:
    at_step = AtStep(Step.WRITTEN, lambda: other.upsert(records(("new", cities[1], 5, 5.0))))
    result = trips.upsert(records(("new", cities[0], 4, 4.0)), on_step=at_step)
    assert (result.inserted, result.unchanged) == (0, 1)
    assert [row["v"] for row in rows_of(trips)] == [5.0]
    check_stored(trips)


def test_disjoint_file_groups_do_not_conflict(trips: Table, other: Table) -> None:
    trips.upsert(records(("a", "x", 1, 1.0), ("b", "y", 1, 1.0)))
    at_step = AtStep(
        Step.WRITTEN, lambda: (other.upsert(records(("b", "y", 2, 2.0), ("n", "z", 2, 2.0))), other.delete(["n"]))
    )
    trips.upsert(records(("a", "x", 2, 2.0)), attempts=1, on_step=at_step)
    assert [row["v"] for row in rows_of(trips)] == [2.0, 2.0]
    check_stored(trips)


def with_column(name: str, value: Any, *rows: tuple[str, str, int, float]) -> pa.Table:
    return records(*rows).append_column(name, pa.array([value] * len(rows)))


@pytest.mark.invariant("P6")
def test_concurrently_added_columns_both_stay(trips: Table, other: Table) -> None:
    trips.upsert(records(("a", "x", 1, 1.0), ("b", "y", 1, 1.0)))
    both = with_column("theirs", "t", ("a", "x", 2, 2.0)).append_column("ours", pa.array([7]))
    at_step = AtStep(Step.WRITTEN, lambda: other.upsert(with_column("theirs", "t", ("b", "y", 2, 2.0))))
    trips.upsert(both, on_step=at_step)
    found = by_key(rows_of(trips))
    assert [(found[key]["theirs"], found[key]["ours"]) for key in "ab"] == [("t", 7), ("t", None)]
    check_stored(trips)


@pytest.mark.invariant("P6")
def test_disjoint_first_writes_do_not_conflict(trips: Table, other: Table) -> None:
    at_step = AtStep(Step.WRITTEN, lambda: other.upsert(records(("b", "y", 1, 1.0))))
    trips.upsert(records(("a", "x", 1, 1.0)), attempts=1, on_step=at_step)
    assert [row["id"] for row in rows_of(trips)] == ["a", "b"]
    check_stored(trips)


@pytest.mark.invariant("P5")
def test_first_writes_of_same_key_conflict(trips: Table, other: Table) -> None:
    at_step = AtStep(Step.WRITTEN, lambda: other.upsert(records(("a", "y", 1, 1.0))))
    with pytest.raises(ConflictError, match="inserted or changed"):
        trips.upsert(records(("a", "x", 1, 1.0)), attempts=1, on_step=at_step)
    check_stored(trips)


@pytest.mark.invariant("P6")
def test_writers_may_add_same_column(trips: Table, other: Table) -> None:
    trips.upsert(records(("a", "x", 1, 1.0), ("b", "y", 1, 1.0)))
    at_step = AtStep(Step.WRITTEN, lambda: other.upsert(with_column("note", "theirs", ("b", "y", 2, 2.0))))
    trips.upsert(with_column("note", "ours", ("a", "x", 2, 2.0)), attempts=1, on_step=at_step)
    assert {key: row["note"] for key, row in by_key(rows_of(trips)).items()} == {"a": "ours", "b": "theirs"}
    check_stored(trips)


def test_first_type_of_added_column_wins(trips: Table, other: Table) -> None:
    at_step = AtStep(Step.WRITTEN, lambda: other.upsert(with_column("note", "text", ("b", "y", 2, 2.0))))
    with pytest.raises(SchemaError, match="note"):
        trips.upsert(with_column("note", 7, ("a", "x", 2, 2.0)), on_step=at_step)
    assert [row["note"] for row in rows_of(trips)] == ["text"]
    assert_nothing_left_over(trips)


@pytest.mark.invariant("P6")
def test_concurrently_added_column_is_kept(trips: Table, other: Table) -> None:
    trips.upsert(records(("a", "x", 1, 1.0), ("b", "y", 1, 1.0)))
    at_step = AtStep(Step.WRITTEN, lambda: other.upsert(with_column("note", "n", ("b", "y", 2, 2.0))))
    with pytest.raises(SchemaError, match="note"):
        trips.upsert(records(("a", "x", 2, 2.0)), on_step=at_step)
    assert by_key(rows_of(trips))["b"]["note"] == "n"
    trips.delete(["a"])
    assert by_key(rows_of(trips))["b"]["note"] == "n"


def test_added_column_survives_later_instant(trips: Table, other: Table) -> None:
    """The writer that adds the column begins first and commits last."""
    trips.upsert(records(("a", "x", 1, 1.0), ("b", "y", 1, 1.0)))
    at_step = AtStep(Step.WRITTEN, lambda: other.upsert(records(("b", "y", 2, 2.0))))
    trips.upsert(with_column("note", "n", ("a", "x", 2, 2.0)), on_step=at_step)
    other.delete(["b"])
    assert by_key(rows_of(trips)) == {"a": {"id": "a", "city": "x", "ts": 2, "v": 2.0, "note": "n"}}
    check_stored(trips)


def test_late_record_replaces_concurrently_deleted_key(trips: Table, other: Table) -> None:
    """A record is passed over as late, and what was newer is gone before the write commits: it has to be inserted."""
    trips.upsert(records(("k", "x", 9, 9.0), ("a", "y", 1, 1.0)))
    at_step = AtStep(Step.WRITTEN, lambda: other.delete(["k"]))
    result = trips.upsert(records(("k", "x", 5, 5.0), ("a", "y", 2, 2.0)), on_step=at_step)
    assert (result.inserted, result.updated, result.unchanged) == (1, 1, 0)
    assert by_key(rows_of(trips)) == by_key(records(("k", "x", 5, 5.0), ("a", "y", 2, 2.0)).to_pylist())


def test_late_move_replaces_concurrently_deleted_key(trips: Table, other: Table) -> None:
    trips.upsert(records(("k", "x", 9, 9.0), ("a", "y", 1, 1.0)))
    at_step = AtStep(Step.WRITTEN, lambda: other.delete(["k"]))
    trips.upsert(records(("k", "z", 5, 5.0), ("a", "y", 2, 2.0)), on_step=at_step)
    assert by_key(rows_of(trips)) == by_key(records(("k", "z", 5, 5.0), ("a", "y", 2, 2.0)).to_pylist())


@pytest.mark.invariant("P5")
def test_delete_finds_concurrent_keys(trips: Table, other: Table) -> None:
    trips.upsert(records(("a", "x", 1, 1.0)))
    at_step = AtStep(Step.WRITTEN, lambda: other.upsert(records(("new", "y", 1, 1.0))))
    result = trips.delete(["a", "new"], on_step=at_step)
    assert (result.deleted, result.unchanged) == (2, 0)
    assert rows_of(trips) == []
    check_stored(trips)


def test_repair_spares_concurrent_commits(trips: Table, other: Table) -> None:
    trips.upsert(records(("a", "x", 1, 1.0), ("b", "x", 1, 1.0)))
    moves: Iterator[Callable[[], object]] = iter([lambda: other.upsert(records(("a", "y", 2, 2.0)))])

    def at_point(point: str) -> None:
        if point == "before compare_and_set lease":
            for move in moves:
                move()

    report = pointed(trips, at_point).repair_index()
    assert report.agrees
    check_stored(trips)


@pytest.mark.parametrize("lease", ["index", "table"])
def test_write_fails_after_index_bootstrap(tmp_path: Path, memory_url: str, lease: str) -> None:
    """The numbers that it has read mean something else in the new index: it would not see a conflict."""
    trips = create_table(tmp_path / "t", record_key="id", partition_by="city", index=memory_url, lease=lease)
    for version in range(6):
        trips.upsert(records(("a", "x", version, 1.0)))
    other = open_table(tmp_path / "t")

    def bootstrap_and_write() -> None:
        other.bootstrap_index()
        other.upsert(records(("new", "y", 9, 2.0)))

    with pytest.raises(IndexNotFoundError):
        trips.upsert(records(("new", "x", 5, 1.0)), on_step=AtStep(Step.WRITTEN, bootstrap_and_write))
    assert [row["city"] for row in rows_of(other) if row["id"] == "new"] == ["y"]
    check_stored(other)


def test_write_during_rollback_is_retried(trips: Table, other: Table) -> None:
    """The index still holds what the timeline shows no more; that is no damage."""
    trips.upsert(records(("a", "x", 1, 1.0)))
    undone = trips.upsert(records(("b", "x", 1, 1.0))).instant or ""
    rollbacks: Iterator[Callable[[str], None]] = iter([partial(roll_back_in_part, other)])

    def at_point(point: str) -> None:
        if point.startswith("after compare_and_set writer/"):
            for roll_back in rollbacks:
                roll_back(undone)

    result = pointed(trips, at_point).upsert(records(("a", "x", 2, 2.0), ("b", "x", 2, 2.0)))
    assert (result.inserted, result.updated) == (1, 1)
    check_stored(trips)


def test_new_writer_survives_dead_writer_search(trips: Table, other: Table) -> None:
    """Its work folder is found, and so is the record that says that it lives."""
    begun: list[BegunWrite] = []
    definition, index = opened_table(other).definition, opened_table(other).index

    class Listing(Storage):
        def list_folders(self, path: str = "") -> list[str]:
            if not begun:
                begun.append(BegunWrite.begin(definition, index, InProcess(), pass_over))
            return super().list_folders(path)

    recover(
        replace(opened_table(trips).definition, storage=Listing(trips.location)), opened_table(trips).index, "recovery"
    )
    storage = opened_table(trips).definition.storage
    assert storage.list_folders(paths.WORK) == [paths.work_folder(begun[0].instant)]
    assert [instant.time for instant in trips.timeline()] == [begun[0].instant]
    begun[0].announced.withdraw()
    assert_nothing_left_over(trips)


@pytest.mark.invariant("P7")
def test_stale_timeline_is_not_reused(tmp_path: Path) -> None:
    """While a writer registers another engine's commit, one more of those is registered, and one of ours on top."""
    table = create_table(
        tmp_path / "t", record_key="id", partition_by="city", ordering="ts", index=f"lmdb://{tmp_path}/i"
    )
    table.upsert(records(("a", "x", 1, 1.0), ("b", "y", 1, 1.0), ("c", "z", 1, 1.0)))
    table.close()
    commits = [
        commit_of_another_engine(tmp_path, number, ("new", city, 2, 2.0)) for number, city in enumerate(("x2", "y2"))
    ]
    other = open_table(tmp_path / "t")
    commits[1]()
    meanwhile: Iterator[Callable[[], object]] = iter([commits[0], lambda: other.upsert(records(("c", "z", 2, 2.0)))])

    def at_point(point: str) -> None:
        if point.startswith("before compare_and_set commit/"):
            for action in meanwhile:
                action()

    write = BegunWrite.begin(
        opened_table(pointed(table, at_point)).definition,
        opened_table(pointed(table, at_point)).index,
        InProcess(),
        pass_over,
    )
    known = {instant.time for instant in write.snapshot.timeline.completed}
    index, sequences = write.index, np.arange(1, (write.state.sequence or 0) + 1)
    assert isinstance(index, RecordTableIndex)
    assert set(index.log.last_read.dictionary.instants_of(sequences).to_pylist()) <= known
    write.announced.withdraw()


def commit_of_another_engine(folder: Path, number: int, *rows: tuple[str, str, int, float]) -> Callable[[], object]:
    """Makes a commit in a copy of the table; the result brings it into the table as if another engine had made it."""
    copy = folder / f"copy{number}"
    shutil.copytree(folder / "t", copy)
    shutil.copytree(folder / "i", folder / f"i{number}")
    with open_table(copy, index=f"lmdb://{folder}/i{number}") as table:
        instant = table.upsert(records((f"{rows[0][0]}{number}", *rows[0][1:]))).instant
    content = json.loads((copy / f".hoodie/{instant}.commit").read_bytes())
    del content["extraMetadata"][NATIVE_ENTRY]

    def arrive() -> None:
        for file in copy.rglob(f"*_{instant}.parquet"):
            (folder / "t" / file.relative_to(copy)).parent.mkdir(exist_ok=True)
            shutil.copy(file, folder / "t" / file.relative_to(copy))
        (folder / f"t/.hoodie/{instant}.commit").write_text(json.dumps(content))

    return arrive


def test_commit_survives_failed_folder_removal(trips: Table, caplog: pytest.LogCaptureFixture) -> None:
    def refuse(point: str) -> None:
        if point.startswith(f"after delete folder {paths.WORK}"):
            raise OSError("still open elsewhere")

    with caplog.at_level(logging.WARNING, logger="rli"):
        assert pointed(trips, refuse).upsert(records(("a", "x", 1, 1.0))).inserted == 1
    assert "still open elsewhere" in caplog.text
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("rli writer/")] == []
    assert trips.upsert(records(("b", "x", 1, 1.0))).inserted == 1
    check_stored(trips)
