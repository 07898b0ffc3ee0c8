"""What the commits of a range changed: rows, order, ranges that can be told and ranges that cannot."""

from __future__ import annotations

import os
import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rli import (
    CorruptTableError,
    InstantNotFoundError,
    InvalidInputError,
    SchemaError,
    Step,
    Table,
    TableType,
    create_table,
    open_table,
)
from rli.table.table import opened_table
from tests.support.change_readers import ChangeReader
from tests.support.interleaving import Intruder, watched_storage
from tests.support.steps import Once
from tests.support.tables import forget_the_journal, records, rows_of, turn_into_foreign_commit, turn_into_version_9

pytestmark = pytest.mark.invariant("P48")

Told = tuple[str, str, str, float]


@pytest.fixture(
    params=[(version, kind) for version in (6, 9) for kind in TableType], ids=lambda case: f"{case[1]}-{case[0]}"
)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    """An empty table of either layout of the timeline, and of either type."""
    version, kind = request.param
    return new_table(tmp_path / "table", version=version, table_type=kind)


def new_table(location: Path, index: str = "global-simple:", version: int = 9, **settings: Any) -> Table:
    created = create_table(
        location, record_key="id", partition_by="city", ordering="ts", index=index, maintenance=False, **settings
    )
    if version == 9:
        turn_into_version_9(created)
    return created


def write(table: Table, *rows: tuple[str, str, int, float]) -> str:
    return table.upsert(records(*rows)).instant or ""


def told(table: Table, since: str | None = None, until: str | None = None, **choices: Any) -> list[Told]:
    """The changes of a range in the order of commits, those of one commit ordered by key; former values come first."""
    rows = table.changes(since, until, **choices).read_all().to_pylist()
    order = {instant: number for number, instant in enumerate(dict.fromkeys(row["_commit_instant"] for row in rows))}
    rows.sort(key=lambda row: (order[row["_commit_instant"]], row["id"]))
    return [(row["_change_type"], row["id"], row["city"], row["v"]) for row in rows]


def position(reader: pa.RecordBatchReader) -> str | None:
    found = (reader.schema.metadata or {}).get(b"rli.position")
    return None if found is None else found.decode()


def three_commits(table: Table) -> list[str]:
    """Inserts, then an update, a move and an insert, then a delete."""
    return [
        write(table, ("a", "x", 1, 1.0), ("b", "x", 1, 1.0), ("m", "y", 1, 1.0)),
        write(table, ("a", "x", 2, 2.0), ("c", "x", 2, 2.0), ("m", "x", 2, 2.0)),
        table.delete(["b"]).instant or "",
    ]


def test_each_change_is_told(table: Table) -> None:
    three_commits(table)
    assert told(table) == [
        ("insert", "a", "x", 1.0),
        ("insert", "b", "x", 1.0),
        ("insert", "m", "y", 1.0),
        ("update_after", "a", "x", 2.0),
        ("insert", "c", "x", 2.0),
        ("update_after", "m", "x", 2.0),
        ("delete", "b", "x", 1.0),
    ]


def test_former_values_come_first(table: Table) -> None:
    first, second, _ = three_commits(table)
    assert told(table, since=first, until=second, images="both") == [
        ("update_before", "a", "x", 1.0),
        ("update_after", "a", "x", 2.0),
        ("insert", "c", "x", 2.0),
        ("update_before", "m", "y", 1.0),
        ("update_after", "m", "x", 2.0),
    ]


def test_changes_name_their_commit(table: Table) -> None:
    _, second, third = three_commits(table)
    reader = table.changes(since=second, columns=["id", "_hoodie_commit_time"])
    assert reader.schema.names == ["id", "_hoodie_commit_time", "_change_type", "_commit_instant", "_completion_time"]
    [row] = reader.read_all().to_pylist()
    assert row["_commit_instant"] == third
    assert row["_completion_time"] > third


def test_positions_neither_skip_nor_repeat(table: Table) -> None:
    instants = three_commits(table)
    completed = table.changes().read_all().column("_completion_time").to_pylist()
    assert position(table.changes()) == instants[-1]
    assert position(table.changes(until=instants[0])) == instants[0]
    for since in (instants[1], completed[3]):
        assert told(table, since=since) == [("delete", "b", "x", 1.0)]
    last = table.changes(since=instants[-1])
    assert position(last) is None
    assert last.read_all().num_rows == 0


def test_slow_commits_are_not_skipped(table: Table) -> None:
    write(table, ("a", "x", 1, 1.0), ("b", "y", 1, 1.0))
    seen: list[str] = []

    def commit_and_read() -> None:
        with open_table(table.location) as other:
            seen.append(write(other, ("b", "y", 2, 2.0)))
            assert told(other)[-1] == ("update_after", "b", "y", 2.0)

    step = Once(Step.WRITTEN, commit_and_read)
    slow = table.upsert(records(("a", "x", 2, 2.0)), on_step=step).instant or ""
    assert slow < seen[0]
    assert told(table, since=seen[0]) == [("update_after", "a", "x", 2.0)]
    assert [row[1] for row in told(table)] == ["a", "b", "b", "a"]


def test_rewrites_and_services_show_nothing(tmp_path: Path) -> None:
    table = new_table(tmp_path / "table", small_file_size=0)
    for number in range(3):
        write(table, (f"k{number}", "x", 1, 1.0))
    last = write(table, ("z", "z", 1, 1.0))
    before = told(table)
    table.savepoint(last)
    table.delete_savepoint(last)
    assert table.cluster(smaller_than=1 << 30).files_replaced > 1
    assert told(table) == before
    assert told(table, since=last) == []


def test_replaced_values_are_one_update(table: Table) -> None:
    first = write(table, ("a", "x", 1, 1.0))
    for number in range(2, 4):
        write(table, ("a", "x", number, float(number)))
    assert told(table, since=first) == [("update_after", "a", "x", 2.0), ("update_after", "a", "x", 3.0)]


def test_late_records_are_no_change(table: Table) -> None:
    first = write(table, ("a", "x", 5, 1.0), ("b", "x", 1, 1.0))
    write(table, ("a", "x", 4, 2.0), ("b", "x", 2, 2.0))
    assert told(table, since=first, images="both") == [
        ("update_before", "b", "x", 1.0),
        ("update_after", "b", "x", 2.0),
    ]


def test_columns_and_filters_choose(table: Table) -> None:
    first, *_ = three_commits(table)
    assert told(table, since=first, filters="v > 1 and city = 'x'") == [
        ("update_after", "a", "x", 2.0),
        ("insert", "c", "x", 2.0),
        ("update_after", "m", "x", 2.0),
    ]
    assert table.changes(since=first, columns=["id"], filters="v > 1").read_all().column_names == [
        "id",
        "_change_type",
        "_commit_instant",
        "_completion_time",
    ]
    assert told(table, filters="city = 'nowhere'") == []


def test_changes_are_the_difference(table: Table) -> None:
    instants = three_commits(table)
    write(table, ("a", "y", 4, 4.0), ("b", "z", 4, 4.0), ("n", "z", 4, 4.0))
    for begin in instants:
        copy = ChangeReader()
        copy.rows = {row["id"]: row for row in table.read(as_of=begin).to_pylist()}
        copy.replay(table.changes(since=begin).read_all())
        assert sorted(copy.rows.values(), key=lambda row: row["id"]) == rows_of(table)


def test_partition_scope_moves_nothing(tmp_path: Path) -> None:
    table = new_table(tmp_path / "table", "simple:")
    first = write(table, ("a", "x", 1, 1.0))
    write(table, ("a", "y", 2, 2.0))
    table.delete(["a"])
    assert told(table, since=first) == [
        ("insert", "a", "y", 2.0),
        ("delete", "a", "x", 1.0),
        ("delete", "a", "y", 2.0),
    ]


def test_touched_timelines_are_refused(tmp_path: Path) -> None:
    table = new_table(tmp_path / "table", version=6)
    instants = [write(table, ("a", "x", number, float(number))) for number in range(3)]
    Path(table.location, f".hoodie/{instants[0]}.commit").touch()
    with pytest.raises(CorruptTableError, match=f"built_on={instants[0]}"):
        table.changes()


def test_other_engines_commits_are_told(tmp_path: Path) -> None:
    table = new_table(tmp_path / "table", version=6, target_file_size=1024, small_file_size=0)
    first, second, _ = three_commits(table)
    expected = told(table, images="both")
    for instant in (first, second):
        turn_into_foreign_commit(table, instant)
    assert told(table, images="both") == expected


def test_journals_are_not_needed(table: Table) -> None:
    _, second, _ = three_commits(table)
    expected = told(table, images="both")
    forget_the_journal(table, second)
    assert told(table, images="both") == expected


def test_new_columns_are_null_before(table: Table) -> None:
    write(table, ("a", "x", 1, 1.0))
    grown = pa.table({"id": ["b"], "city": ["x"], "ts": [1], "v": [1.0], "tip": ["yes"]})
    table.upsert(grown)
    assert table.changes().read_all().select(["id", "tip"]).to_pylist() == [
        {"id": "a", "tip": None},
        {"id": "b", "tip": "yes"},
    ]


def test_merged_changes_make_a_copy(tmp_path: Path) -> None:
    table = new_table(tmp_path / "table")
    copy = create_table(tmp_path / "copy", record_key="id", partition_by="city", index="global-simple:")
    three_commits(table)
    write(table, ("b", "z", 0, 4.0), ("a", "y", 4, 4.0))
    copy.merge(table.changes(images="both"))
    assert rows_of(copy) == rows_of(table)


def test_rollbacks_are_positions(table: Table) -> None:
    *_, last = three_commits(table)
    table.rollback(last)
    position = max(instant.time for instant in table.timeline() if instant.is_completed)
    before = table.read(as_of=position)
    assert table.changes(since=position).read_all().num_rows == 0
    write(table, ("new", "x", 9, 1.0))
    assert [row[:2] for row in told(table, position)] == [("insert", "new")]
    assert table.read().num_rows == before.num_rows + 1


def test_changes_without_columns_are_counted(table: Table) -> None:
    three_commits(table)
    assert table.changes(columns=[]).read_all().num_rows == 7


def test_empty_tables_have_no_changes(table: Table) -> None:
    reader = table.changes()
    assert reader.read_all().num_rows == 0
    assert position(reader) is None


def first_readable(error: pytest.ExceptionInfo[InstantNotFoundError]) -> str:
    return str(error.value).partition("first_readable=")[2].partition(";")[0]


def write_versions(table: Table, number: int) -> list[str]:
    """Versions of a record, one by each commit; a clean may remove the first two."""
    instants = [write(table, ("a", "x", version, float(version))) for version in range(2)]
    if table.info().table_type is TableType.MERGE_ON_READ:
        table.compact()
    return [*instants, *(write(table, ("a", "x", version, float(version))) for version in range(2, number))]


def test_cleaned_ranges_name_what_is_left(table: Table) -> None:
    instants = write_versions(table, 6)
    table.clean(keep_commits=2)
    with pytest.raises(InstantNotFoundError, match="files of commits were cleaned") as error:
        table.changes()
    left = told(table, since=first_readable(error))
    assert left == [("update_after", "a", "x", float(number)) for number in range(6 - len(left), 6)]
    assert len(left) >= 2
    before = instants[instants.index(first_readable(error)) - 1]
    with pytest.raises(InstantNotFoundError):
        table.changes(since=before)


def test_archived_ranges_name_what_is_left(table: Table) -> None:
    instants = [write(table, (f"k{number}", "x", number, float(number))) for number in range(6)]
    table.archive(keep_commits=3)
    for since in (None, instants[0], "2001-01-01"):
        with pytest.raises(InstantNotFoundError, match="have left the active timeline") as error:
            table.changes(since=since)
        assert told(table, since=first_readable(error)) == [
            ("insert", "k4", "x", 4.0),
            ("insert", "k5", "x", 5.0),
        ]


def test_readers_are_told_of_undone_commits(table: Table) -> None:
    first, second, third = three_commits(table)
    completed = table.changes(since=second).read_all().column("_completion_time")[0].as_py()
    table.rollback(third)
    for seen in (third, completed):
        with pytest.raises(InstantNotFoundError, match=f"undone={third}; .*go on with since={second}"):
            table.changes(since=seen)
    assert told(table, since=second) == []
    write(table, ("b", "x", 3, 3.0))
    assert told(table, since=second) == [("update_after", "b", "x", 3.0)]
    with pytest.raises(InstantNotFoundError):
        table.changes(since=completed)
    assert [row[0] for row in told(table, since=first, until=second)] == ["update_after", "insert", "update_after"]


def test_readers_are_told_of_restores(table: Table) -> None:
    first, second, third = three_commits(table)
    table.restore(first)
    write(table, ("q", "x", 3, 3.0))
    for seen in (second, third):
        with pytest.raises(InstantNotFoundError, match="undone"):
            table.changes(since=seen)
    assert told(table, since=first) == [("insert", "q", "x", 3.0)]


def test_files_removed_meanwhile_are_named(table: Table) -> None:
    write_versions(table, 4)
    reader = table.changes()
    table.clean(keep_commits=1)
    with pytest.raises(InstantNotFoundError, match="others have removed a file"):
        reader.read_all()


def test_lost_files_are_damage(table: Table) -> None:
    write(table, ("a", "x", 1, 1.0))
    [path] = Path(table.location, "x").glob("*.parquet")
    reader = table.changes()
    path.unlink()
    with pytest.raises(CorruptTableError):
        reader.read_all()
    with pytest.raises(CorruptTableError):
        table.changes()


def test_copies_without_times_replay(tmp_path: Path) -> None:
    table = new_table(tmp_path / "table", version=6)
    first = write(table, ("a", "x", 0, 0.0))
    for number in range(1, 5):
        write(table, ("a", "x", number, float(number)))
    shutil.copytree(table.location, tmp_path / "copy")
    for number, path in enumerate(sorted(Path(tmp_path, "copy/.hoodie").glob("*"), reverse=True)):
        os.utime(path, (2e9 + number, 2e9 + number))
    copy = open_table(tmp_path / "copy")
    assert told(copy, since=first) == [("update_after", "a", "x", float(number)) for number in range(1, 5)]


def test_one_commit_opens_its_files(tmp_path: Path) -> None:
    table = new_table(tmp_path / "table", "memory:", durability="os")
    cities = [f"c{number:02}" for number in range(20)]
    write(table, *((city, city, 1, 1.0) for city in cities))
    instants = [write(table, (cities[number % 20], cities[number % 20], number, 2.0)) for number in range(2, 32)]

    def opened(since: str) -> int:
        counting = Intruder()
        watched = open_table(table.location)
        found = opened_table(watched)
        found.definition = replace(found.definition, storage=watched_storage(found.definition.storage, counting))
        assert watched.changes(since=since).read_all().num_rows == 29 - instants.index(since)
        return counting.requests

    one, ten = opened(instants[-2]), opened(instants[-11])
    # Two slices of one file group, the commit itself, listings and looks at the timeline.
    assert one < 30
    assert ten < 30 + 9 * 10


def test_filters_open_no_other_files(tmp_path: Path) -> None:
    table = new_table(tmp_path / "table", durability="os")
    write(table, *((f"k{number}", f"c{number}", 1, 1.0) for number in range(30)))
    for path in Path(table.location).glob("c[0-9]*/*.parquet"):
        if path.parent.name != "c7":
            path.write_bytes(b"no Parquet")
    assert told(table, filters="city = 'c7'") == [("insert", "k7", "c7", 1.0)]


def test_followers_see_each_commit(table: Table) -> None:
    instants = three_commits(table)
    stop, seen = threading.Event(), []
    for commit in table.follow_changes(since=instants[0], poll_seconds=0.01, stop=stop):
        seen.append((commit.instant, commit.to_table().num_rows))
        if len(seen) == 2:
            instants.append(write(table, ("z", "z", 1, 1.0)))
        if len(seen) == 3:
            stop.set()
    assert seen == [(instants[1], 3), (instants[2], 1), (instants[3], 1)]


def test_stops_end_a_pause(table: Table) -> None:
    stop = threading.Event()
    follower = threading.Thread(target=lambda: list(table.follow_changes(poll_seconds=600, stop=stop)))
    follower.start()
    stop.set()
    follower.join(timeout=60)
    assert not follower.is_alive()


def test_followers_are_told_of_undone_commits(table: Table) -> None:
    *_, third = three_commits(table)
    commits = table.follow_changes(poll_seconds=0.01)
    assert [next(commits).instant for _ in range(3)][-1] == third
    table.rollback(third)
    with pytest.raises(InstantNotFoundError, match="undone"):
        next(commits)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"since": 5}, InvalidInputError),
        ({"images": "before"}, InvalidInputError),
        ({"columns": "id"}, InvalidInputError),
        ({"columns": ["nothing"]}, SchemaError),
        ({"filters": "nothing = 1"}, Exception),
        ({"since": "2030-01-01", "until": "2029-01-01"}, InvalidInputError),
    ],
)
def test_bad_arguments_are_named(tmp_path: Path, arguments: dict[str, Any], error: type[Exception]) -> None:
    table = new_table(tmp_path / "table")
    write(table, ("a", "x", 1, 1.0))
    with pytest.raises(error):
        table.changes(**arguments)


def test_columns_of_changes_are_reserved(tmp_path: Path) -> None:
    table = create_table(tmp_path / "table", record_key="id", index="global-simple:")
    table.upsert(pa.table({"id": ["a"], "_change_type": ["mine"]}))
    with pytest.raises(SchemaError, match="_change_type"):
        table.changes()
    assert table.changes(columns=["id"]).read_all().num_rows == 1
