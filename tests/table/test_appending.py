"""Writes of merge-on-read tables: what becomes a log file, what a base file, and that each record is what a reader merges."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rli
from rli import CorruptTableError, Query, Table, TableType, create_table
from rli.hudi.properties import Key
from rli.hudi.timeline.instant import new_instant_time
from rli.table.table import opened_table
from tests.crash.writes import pointed
from tests.support.tables import (
    by_key,
    change_properties,
    check_stored,
    records,
    turn_into_version_8,
    turn_into_version_9,
)

ROWS = [(f"k{number}", "x", 10, float(number)) for number in range(6)]


@pytest.fixture(params=[6, 9])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    made = create(tmp_path, version=request.param)
    made.insert(records(*ROWS))
    return made


def create(folder: Path, *, version: int = 6, **options: Any) -> Table:
    options = {"ordering": "ts", "index": "global-simple:", "maintenance": False, **options}
    made = create_table(
        folder / "t", record_key="id", partition_by="city", table_type=TableType.MERGE_ON_READ, **options
    )
    if version > 6:
        {8: turn_into_version_8, 9: turn_into_version_9}[version](made)
        if options["ordering"] is None:
            change_properties(made, {Key.MERGE_MODE: "COMMIT_TIME_ORDERING"})
        made.bootstrap_index(options["index"])
    return made


def files(table: Table) -> tuple[int, int]:
    """Base files and log files of the present state."""
    slices = opened_table(table).snapshot().slices.values()
    return sum(one.base is not None for one in slices), sum(len(one.logs) for one in slices)


def value_of(table: Table, key: str) -> object:
    return by_key(table.read().to_pylist()).get(key, {}).get("v")


def test_changes_become_one_log_file(table: Table) -> None:
    result = table.upsert(records(("k0", "x", 11, 100.0), ("k1", "x", 9, -1.0), ("k2", "x", 10, 7.0)))
    assert (result.updated, result.unchanged, result.files_appended, result.files_rewritten) == (2, 1, 1, 0)
    deleted = table.delete(["k3"])
    assert (deleted.deleted, deleted.files_appended) == (1, 1)
    assert files(table) == (1, 2)
    assert [entry.action for entry in table.history()] == ["deltacommit"] * 3
    assert by_key(table.read(query=Query.READ_OPTIMIZED).to_pylist()).keys() == {key for key, *_ in ROWS}
    assert {key: value_of(table, key) for key in ("k0", "k1", "k2", "k3")} == {"k0": 100, "k1": 1, "k2": 7, "k3": None}
    check_stored(table)


def test_lower_ordering_values_rewrite(table: Table) -> None:
    """Readers would keep the stored record."""
    lowered = table.update_where("id = 'k1'", {"ts": "ts - 5", "v": "v + 1"})
    assert (lowered.files_appended, lowered.files_rewritten) == (0, 1)
    assert value_of(table, "k1") == 2
    raised = table.update_where("id = 'k1'", {"ts": "ts + 1"})
    assert (raised.files_appended, raised.files_rewritten) == (1, 0)
    check_stored(table)


def test_deleted_keys_come_again(table: Table) -> None:
    """The base file still has their records, with greater ordering values."""
    table.delete(["k1"])
    again = table.upsert(records(("k1", "x", 1, -1.0)))
    assert (again.inserted, value_of(table, "k1")) == (1, -1)
    table.upsert(records(("k1", "y", 2, -2.0)))
    table.upsert(records(("k1", "x", 3, -3.0)))
    assert value_of(table, "k1") == -3
    check_stored(table)


@pytest.mark.parametrize("index", ["global-simple:", "bucket:?buckets=1"])
@pytest.mark.parametrize("ordering", ["ts", None])
@pytest.mark.parametrize("version", [6, 8, 9])
def test_returning_keys_win(version: int, ordering: str | None, index: str, tmp_path: Path) -> None:
    """Of keys that log files delete, with higher, equal and lower ordering values than those of the base file."""
    table = create(tmp_path, version=version, ordering=ordering, index=index)
    table.insert(records(*ROWS))
    for turn in (1, 2):
        assert table.delete(["k0", "k1", "k2", "k3"]).files_appended == 1
        returning = [("k0", "x", 20, 0.5 + turn), ("k1", "x", 10, 1.5 + turn), ("k2", "x", 1, 2.5 + turn)]
        assert table.upsert(records(*returning)).inserted == 3
        assert table.insert(records(("k3", "x", 5, 3.5 + turn))).inserted == 1
        expected = {key: {"id": key, "city": city, "ts": ts, "v": v} for key, city, ts, v in (*ROWS, *returning)}
        expected["k3"] |= {"ts": 5, "v": 3.5 + turn}
        assert by_key(table.read().to_pylist()) == expected
        assert by_key(table.get([*expected]).to_pylist()) == expected
    if ordering is not None:
        table.delete(records(("k4", "x", 30, 0.0)))
        late = table.upsert(records(("k4", "x", 29, -1.0)))
        assert (late.unchanged, value_of(table, "k4")) == (1, None)
        assert (table.upsert(records(("k4", "x", 30, -2.0))).inserted, value_of(table, "k4")) == (1, -2)
    merged = by_key(table.read().to_pylist())
    table.compact()
    assert by_key(table.read().to_pylist()) == merged
    check_stored(table)


def test_buckets_take_new_records(tmp_path: Path) -> None:
    table = create(tmp_path, index="bucket:?buckets=1")
    table.insert(records(*ROWS))
    appended = table.upsert(records(("new", "x", 1, 1.0), ("k0", "x", 11, 2.0)))
    assert (appended.inserted, appended.updated, appended.files_appended) == (1, 1, 1)
    table.delete(["k1", "new"])
    again = table.upsert(records(("k1", "x", 1, -1.0), ("new", "x", 0, -2.0)))
    assert (again.inserted, again.files_rewritten) == (2, 1)
    assert (value_of(table, "k1"), value_of(table, "new")) == (-1, -2)
    check_stored(table)


@pytest.mark.parametrize("ordering", [pa.int32(), pa.float64(), pa.string(), pa.timestamp("us", "UTC"), pa.date32()])
def test_each_type_of_ordering_values(ordering: pa.DataType, tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.string()), ("city", pa.string()), ("ts", ordering), ("v", pa.float64())])

    def batch(*rows: tuple[str, int, float]) -> pa.Table:
        keys, times, values = zip(*rows, strict=True)
        of_type = pa.array([str(time) for time in times]) if ordering == pa.string() else _cast(times, ordering)
        return pa.table([list(keys), ["x"] * len(keys), of_type, list(values)], schema=schema)

    table = create(tmp_path)
    table.insert(batch(("a", 5, 0.0), ("b", 5, 0.0), ("c", 5, 0.0), ("d", 5, 0.0)))
    told = table.upsert(batch(("a", 6, 1.0), ("b", 4, 1.0), ("c", 5, 1.0)))
    assert (told.updated, told.unchanged, told.files_appended) == (2, 1, 1)
    assert table.delete(["a", "d"]).deleted == 2
    assert {row["id"]: row["v"] for row in table.read().to_pylist()} == {"b": 0, "c": 1}
    assert table.upsert(batch(("a", 6, 2.0), ("d", 5, 2.0))).inserted == 2
    assert {row["id"]: row["v"] for row in table.read().to_pylist()} == {"a": 2, "b": 0, "c": 1, "d": 2}


def _cast(times: tuple[int, ...], ordering: pa.DataType) -> pa.Array:
    whole = pa.array(times, pa.int32() if ordering == pa.date32() else pa.int64())
    return whole.cast(ordering)


def test_without_ordering_the_later_wins(tmp_path: Path) -> None:
    table = create(tmp_path, ordering=None, log_format="avro")
    table.insert(records(*ROWS))
    table.upsert(records(("k0", "x", 1, 5.0)))
    table.delete(["k1"])
    table.upsert(records(("k1", "x", 1, 6.0), ("k2", "x", 1, 7.0)))
    assert [value_of(table, key) for key in ("k0", "k1", "k2")] == [5, 6, 7]
    check_stored(table)


def test_kept_columns_from_log_files(table: Table) -> None:
    table.upsert(records(("k0", "x", 11, 100.0)))
    told = table.upsert(records(("k0", "x", 12, 0.0)).drop_columns(["v"]), missing="keep")
    assert (told.files_appended, value_of(table, "k0")) == (1, 100)
    changes = records(("k0", "x", 13, 1.0), ("k1", "x", 13, 0.5)).append_column("op", pa.array(["u", "u"]))
    merged = table.merge(changes, "op", when="source.v < target.v and source.ts > 0")
    assert (merged.updated, value_of(table, "k0"), value_of(table, "k1")) == (2, 1, 0.5)


def test_undo_takes_log_files_away(table: Table) -> None:
    first = table.history()[-1].time
    states = {}
    for value in (1.0, 2.0, 3.0):
        instant = table.upsert(records(("k0", "x", 20, value), ("k1", "y", int(value), value))).instant or ""
        states[instant] = by_key(table.read().to_pylist())
    assert {instant: by_key(table.read(as_of=instant).to_pylist()) for instant in states} == states
    last, before = sorted(states, reverse=True)[:2]
    table.rollback(last)
    assert by_key(table.read().to_pylist()) == states[before]
    check_stored(table)
    table.restore(first)
    assert by_key(table.read().to_pylist()) == by_key(records(*ROWS).to_pylist())
    assert files(table) == (1, 0)
    check_stored(table)


def test_clean_keeps_live_log_files(table: Table) -> None:
    for value in (0.0, 1.0, 2.0, 3.0):
        table.upsert(records(("k0", "x", 20, value)))
    assert table.clean(keep_commits=1).files_deleted == 0
    assert value_of(table, "k0") == 3
    for value in (5.0, 6.0):
        # A new base file each time: readers would keep the greater value.
        table.update_where("id = 'k0'", {"ts": "ts - 1", "v": f"{value}"})
    assert table.clean(keep_commits=1).files_deleted == 5
    assert value_of(table, "k0") == 6
    check_stored(table)


def test_dry_runs_name_rewritten_files_alone(table: Table) -> None:
    told = table.upsert(records(("k0", "x", 11, 1.0), ("new", "y", 1, 1.0)), dry_run=True)
    assert (told.files_appended, told.files_created, told.files_to_rewrite) == (1, 1, ())
    assert files(table) == (1, 0)


def test_types_are_told_apart(tmp_path: Path) -> None:
    table = create(tmp_path)
    raw = opened_table(table).definition.properties.raw
    assert raw[Key.TYPE] == "MERGE_ON_READ"
    assert raw[Key.PRECOMBINE_FIELD] == raw[Key.ORDERING_FIELDS] == "ts"
    assert create(tmp_path, if_exists="open").location == table.location
    with pytest.raises(rli.SettingsError, match="table_type=merge_on_read"):
        create_table(
            tmp_path / "t",
            record_key="id",
            partition_by="city",
            ordering="ts",
            table_type="copy_on_write",
            if_exists="open",
        )
    with pytest.raises(rli.SettingsError, match="no such choice: table_type='mor'"):
        create_table(tmp_path / "other", record_key="id", table_type="mor")
    with pytest.raises(rli.SettingsError, match="log_format='avro'"):
        create_table(tmp_path / "other", record_key="id", log_format="avro")


def end_of_values(log: bytes | bytearray) -> int:
    """Where the values of the last column end in a log file: pages of values have a checksum, other bytes of Parquet have none."""
    start, end = log.index(b"PAR1"), log.rindex(b"PAR1") + len(b"PAR1")
    last = pq.read_metadata(pa.BufferReader(bytes(log[start:end]))).row_group(0).to_dict()["columns"][-1]
    return start + int(last["data_page_offset"]) + int(last["total_compressed_size"])


def test_deep_check_reads_log_files(table: Table) -> None:
    table.upsert(records(("k0", "x", 11, 1.0)))
    assert table.verify_index(deep=True).agrees
    [log] = [log for one in opened_table(table).snapshot().slices.values() for log in one.logs]
    path = Path(table.location, log.path)
    content = bytearray(path.read_bytes())
    content[end_of_values(content) - 1] ^= 0xFF
    path.write_bytes(content)
    # The keys are in memory: no other read of the process would notice.
    report = table.verify_index(deep=True)
    assert not report.agrees
    [damage] = report.damaged
    assert "a log file is damaged" in damage


@pytest.mark.parametrize("key", ["k1", "k0", None])
def test_appends_of_other_keys_both_commit(table: Table, key: str | None) -> None:
    other, done = rli.open_table(table.location), list[str]()

    def write_meanwhile(step: rli.Step) -> None:
        if step is rli.Step.WRITTEN and not done:
            done.append("")
            change = records((key or "k1", "x", 30, 30.0))
            other.update_where("id = 'k1'", {"ts": "ts - 1", "v": "30.0"}) if key is None else other.upsert(change)

    told = table.upsert(records(("k0", "x", 40, 40.0), ("k2", "x", 1, -1.0)), on_step=write_meanwhile)
    # Others have changed a key of this write, or written a base file.
    assert told.attempts == (1 if key == "k1" else 2)
    assert (value_of(table, "k0"), value_of(table, "k2")) == (40, 2)
    assert value_of(table, key or "k1") == (40 if key == "k0" else 30)
    check_stored(table)


def test_commits_end_behind_a_request(tmp_path: Path) -> None:
    """A commit that began earlier completes between the request of a write and the state that it reads."""
    table = create(tmp_path, version=9, index="bucket:?buckets=1")
    table.insert(records(*ROWS))
    deleted = table.delete(["k1"]).instant
    [completed] = Path(table.location, ".hoodie/timeline").glob(f"{deleted}_*.deltacommit")
    content = [completed.read_bytes()]
    completed.unlink()

    def complete(point: str) -> None:
        if content and point.startswith("after create") and point.endswith(".deltacommit.requested"):
            requested = point.rpartition("/")[2].partition(".")[0]
            completed_at = new_instant_time(datetime.now(UTC), requested)
            completed.with_name(f"{deleted}_{completed_at}.deltacommit").write_bytes(content.pop())

    again = pointed(table, complete).upsert(records(("k1", "x", 10, -1.0)))
    # The log file of the delete counts over base files that were requested before it completed.
    assert (again.inserted, again.files_rewritten) == (1, 1)
    assert value_of(table, "k1") == -1
    check_stored(table)


@pytest.mark.parametrize("count", [8, 100])
def test_ordering_column_grows_behind_logs(count: int, tmp_path: Path) -> None:
    """Few keys are sought, of many records; of few records, all are read."""
    table = create(tmp_path)
    keys = [f"k{number}" for number in range(count)]

    def batch(ts: pa.Array, **columns: list[Any]) -> pa.Table:
        return pa.table({"id": keys[: len(ts)], "city": ["x"] * len(ts), "ts": ts, **columns})

    table.insert(batch(pa.array([1.5] * count, pa.float32()), v=[float(number) for number in range(count)]))
    table.upsert(batch(pa.array([1.5, 5.5], pa.float32()), v=[0.0, 111.0]))
    # Later than what the files have, and earlier than what the log file has.
    late = table.merge(batch(pa.array([0.5, 3.0]), v=[7.0, 7.0], op=["d", "d"]), "op")
    assert (late.deleted, late.unchanged) == (0, 2)
    kept = table.upsert(batch(pa.array([6.0, 6.0, 6.0])), missing="keep")
    assert (kept.updated, kept.unchanged) == (3, 0)
    assert [value_of(table, key) for key in keys[:4]] == [0, 111, 2, 3]
    assert table.verify_index().agrees


def test_kept_partitions_beside_deletes(table: Table) -> None:
    changes = records(("k0", "y", 11, 1.5), ("k1", "x", 11, 0.0)).append_column("op", pa.array(["u", "d"]))
    done = table.merge(changes, op="op", on_partition_change="keep")
    assert (done.updated, done.deleted, done.files_appended) == (1, 1, 1)
    assert by_key(table.read().to_pylist())["k0"] == {"id": "k0", "city": "x", "ts": 11, "v": 1.5}
    check_stored(table)


def store_twice(table: Table, ts: int = 1, v: float = 1.0) -> None:
    """Add another record with the key of the first one to a base file, as Hudi's bulk inserts may do."""
    [file] = Path(table.location).glob("x/*.parquet")
    stored = pq.ParquetFile(file).read()
    second = stored.slice(0, 1).to_pylist()[0] | {"ts": ts, "v": v}
    added = pa.Table.from_pylist([second], schema=stored.schema)
    pq.write_table(pa.concat_tables([stored, added]), file, row_group_size=100)


@pytest.mark.parametrize("count", [2, 100])
@pytest.mark.parametrize("index", ["lmdb://{}/i", "global-bloom:"])
def test_keys_twice_in_base_file(index: str, count: int, tmp_path: Path) -> None:
    """Of the records of a base file with one key, log files change the first one alone. Few keys are sought, of many all are read."""
    table = create(tmp_path, index=index.format(tmp_path))
    keys = [f"k{number}" for number in range(200)]
    table.insert(records(*((key, "x", 1, 1.0) for key in keys)))
    store_twice(table)
    changes = records(*((key, "x", 2, 2.0) for key in keys[:count]))
    if index == "global-bloom:":
        with pytest.raises(CorruptTableError, match="deduplicate"):
            table.upsert(changes)
    else:
        assert table.upsert(changes).files_rewritten == 1
        assert table.read(filters="id = 'k0'")["v"].to_pylist() == [2, 2]
    assert table.delete(keys[:count]).deleted == count
    assert sorted(table.read()["id"].to_pylist()) == sorted(keys[count:])
    assert table.verify_index().agrees


@pytest.mark.parametrize(
    ("change", "condition", "left"),
    [
        (("k0", "x", 7, 3.0, "u"), None, [(7, 3.0), (10, 5.0)]),
        (("k0", "x", 11, 3.0, "u"), "source.v > target.v", [(10, 5.0), (11, 3.0)]),
        (("k0", "x", 7, 3.0, "d"), None, [(10, 5.0)]),
        (("k0", "x", 11, 3.0, "d"), "source.v > target.v", [(10, 5.0)]),
    ],
    ids=["late update", "refused update", "late delete", "refused delete"],
)
def test_one_of_two_records_changes(
    change: tuple[str, str, int, float, str], condition: str | None, left: list[tuple[int, float]], tmp_path: Path
) -> None:
    """The one for which the change is not late, and that the condition admits; a log file would change the first one."""
    table = create(tmp_path, index=f"lmdb://{tmp_path}/i")
    table.insert(records(("k0", "x", 10, 5.0), ("k1", "x", 10, 5.0)))
    store_twice(table, 5, 1.0)
    table.merge(records(change[:4]).append_column("op", pa.array([change[4]])), op="op", when=condition)
    assert sorted((row["ts"], row["v"]) for row in table.read(filters="id = 'k0'").to_pylist()) == left


def test_second_record_behind_log_goes(tmp_path: Path) -> None:
    """A log file from before the deletion of all records of a key has deleted the first one."""
    table = create(tmp_path)
    table.insert(records(*ROWS))
    assert table.delete(["k0"]).files_appended == 1
    store_twice(table)
    assert table.read(filters="id = 'k0'").num_rows == 1
    assert table.delete(["k0"]).files_rewritten == 1
    assert table.read(filters="id = 'k0'").num_rows == 0
    check_stored(table)
