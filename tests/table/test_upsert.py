"""Upserts: inserts, updates, moves, and which of two versions of a record wins."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from rli import CommitResult, InvalidInputError, PartitionChangeError, Table, create_table, open_table
from rli.table.table import opened_table
from tests.support.tables import check_stored, fingerprint, live_files, records, rows_of


def counts(result: CommitResult) -> tuple[int, int, int, int, int]:
    return result.inserted, result.updated, result.moved, result.deleted, result.unchanged


def values(table: Table) -> dict[str, tuple[str, int, float]]:
    return {row["id"]: (row["city"], row["ts"], row["v"]) for row in rows_of(table)}


def test_inserts(trips: Table) -> None:
    result = trips.upsert(records(("a", "x", 1, 1.0), ("b", "x", 1, 2.0), ("c", "y", 1, 3.0)))
    assert counts(result) == (3, 0, 0, 0, 0)
    assert (result.files_created, result.files_rewritten) == (2, 0)
    assert result.written_bytes > 0
    assert values(trips) == {"a": ("x", 1, 1.0), "b": ("x", 1, 2.0), "c": ("y", 1, 3.0)}
    assert [instant.time for instant in trips.timeline()] == [result.instant]
    check_stored(trips)


def test_updates_and_inserts(trips: Table) -> None:
    trips.upsert(records(("a", "x", 1, 1.0), ("b", "x", 1, 2.0), ("c", "y", 1, 3.0)))
    result = trips.upsert(records(("b", "x", 2, 20.0), ("d", "x", 2, 4.0)))
    assert counts(result) == (1, 1, 0, 0, 0)
    assert (result.files_created, result.files_rewritten) == (0, 1)
    assert values(trips) == {"a": ("x", 1, 1.0), "b": ("x", 2, 20.0), "c": ("y", 1, 3.0), "d": ("x", 2, 4.0)}
    check_stored(trips)


def test_moved_record_is_in_single_place(trips: Table) -> None:
    trips.upsert(records(("a", "x", 1, 1.0), ("b", "x", 1, 2.0), ("c", "y", 1, 3.0)))
    result = trips.upsert(records(("a", "y", 2, 10.0), ("c", "z", 2, 30.0)))
    assert counts(result) == (0, 0, 2, 0, 0)
    assert values(trips) == {"a": ("y", 2, 10.0), "b": ("x", 1, 2.0), "c": ("z", 2, 30.0)}
    assert trips.lookup(["a", "b", "c"]).column("partition_path").to_pylist() == ["y", "x", "z"]
    check_stored(trips)


def test_two_records_change_places(trips: Table) -> None:
    trips.upsert(records(("a", "x", 1, 1.0), ("b", "y", 1, 2.0)))
    assert trips.upsert(records(("a", "y", 2, 1.5), ("b", "x", 2, 2.5))).moved == 2
    assert values(trips) == {"a": ("y", 2, 1.5), "b": ("x", 2, 2.5)}
    check_stored(trips)


def test_there_and_back_again(trips: Table) -> None:
    for ts, city in enumerate(["x", "y", "x", "y", "z", "x"]):
        trips.upsert(records(("a", city, ts, float(ts)), (f"other{ts}", city, ts, 0.0)))
        assert values(trips)["a"] == (city, ts, float(ts))
        check_stored(trips)


# Which version wins ----------------------------------------------------------------------------------------------


def test_greatest_ordering_value_in_batch_wins(trips: Table) -> None:
    batch = [("a", "x", 2, 2.0), ("a", "y", 3, 3.0), ("a", "x", 1, 1.0), ("b", "x", 5, 1.0), ("b", "x", 5, 2.0)]
    result = trips.upsert(records(*batch))
    assert counts(result) == (2, 0, 0, 0, 0)
    # Of equals the last one.
    assert values(trips) == {"a": ("y", 3, 3.0), "b": ("x", 5, 2.0)}
    check_stored(trips)


def test_the_same_key_a_thousand_times(trips: Table) -> None:
    trips.upsert(records(*[("a", "x", number * 7919 % 1000, float(number)) for number in range(1000)]))
    assert len(values(trips)) == 1
    assert values(trips)["a"][1] == 999


def test_a_late_event_does_not_win(trips: Table) -> None:
    trips.upsert(records(("a", "x", 5, 1.0), ("b", "x", 5, 1.0)))
    result = trips.upsert(records(("a", "x", 4, 2.0), ("b", "x", 6, 2.0)))
    assert counts(result) == (0, 1, 0, 0, 1)
    assert values(trips) == {"a": ("x", 5, 1.0), "b": ("x", 6, 2.0)}
    check_stored(trips)


def test_arriving_record_wins_on_tie(trips: Table) -> None:
    trips.upsert(records(("a", "x", 5, 1.0), ("b", "x", 5, 1.0)))
    assert counts(trips.upsert(records(("a", "x", 5, 2.0), ("b", "y", 5, 2.0)))) == (0, 1, 1, 0, 0)
    assert values(trips) == {"a": ("x", 5, 2.0), "b": ("y", 5, 2.0)}


def test_late_move_does_not_win(trips: Table) -> None:
    trips.upsert(records(("a", "x", 5, 1.0), ("b", "x", 5, 1.0)))
    result = trips.upsert(records(("a", "y", 4, 2.0), ("b", "y", 6, 2.0)))
    assert counts(result) == (0, 0, 1, 0, 1)
    assert values(trips) == {"a": ("x", 5, 1.0), "b": ("y", 6, 2.0)}
    check_stored(trips)


@pytest.mark.parametrize("cities", [("x", "x"), ("y", "z"), ("x", "y")])
def test_late_batch_commits_nothing(trips: Table, cities: tuple[str, str]) -> None:
    trips.upsert(records(("a", "x", 5, 1.0), ("b", "x", 5, 1.0)))
    before = fingerprint(trips)
    result = trips.upsert(records(("a", cities[0], 4, 2.0), ("b", cities[1], 1, 2.0)))
    assert result.instant is None
    assert counts(result) == (0, 0, 0, 0, 2)
    assert (result.files_created, result.files_rewritten, result.written_bytes) == (0, 0, 0)
    assert fingerprint(trips) == before


def test_an_empty_batch_commits_nothing(trips: Table) -> None:
    before = fingerprint(trips)
    assert trips.upsert(records()).instant is None
    assert fingerprint(trips) == before
    trips.upsert(records(("a", "x", 5, 1.0)))
    before = fingerprint(trips)
    result = trips.upsert(records())
    assert counts(result) == (0, 0, 0, 0, 0)
    assert fingerprint(trips) == before


def test_later_write_wins_without_ordering(tmp_path: Path, memory_url: str) -> None:
    table = create_table(tmp_path / "t", record_key="id", partition_by="city", index=memory_url)
    table.upsert(records(("a", "x", 5, 1.0), ("a", "y", 4, 2.0)))
    assert values(table) == {"a": ("y", 4, 2.0)}
    assert counts(table.upsert(records(("a", "y", 3, 3.0)))) == (0, 1, 0, 0, 0)
    assert counts(table.upsert(records(("a", "x", 2, 4.0)))) == (0, 0, 1, 0, 0)
    assert values(table) == {"a": ("x", 2, 4.0)}
    check_stored(table)


# Changes of the partition ----------------------------------------------------------------------------------------


def test_keep_updates_where_the_record_is(trips: Table) -> None:
    trips.upsert(records(("a", "x", 1, 1.0), ("b", "x", 1, 1.0), ("c", "y", 1, 1.0)))
    batch = records(("a", "y", 2, 2.0), ("c", "x", 0, 9.0), ("b", "x", 2, 2.0), ("d", "y", 2, 2.0))
    result = trips.upsert(batch, on_partition_change="keep")
    assert counts(result) == (1, 2, 0, 0, 1)
    assert values(trips) == {"a": ("x", 2, 2.0), "b": ("x", 2, 2.0), "c": ("y", 1, 1.0), "d": ("y", 2, 2.0)}
    check_stored(trips)


def test_fail_writes_nothing(trips: Table) -> None:
    trips.upsert(records(("a", "x", 1, 1.0), ("b", "x", 1, 1.0)))
    before = fingerprint(trips)
    with pytest.raises(PartitionChangeError, match=r"keys=\['a'\]"):
        trips.upsert(records(("a", "y", 2, 2.0), ("b", "x", 2, 2.0), ("c", "y", 2, 2.0)), on_partition_change="fail")
    assert fingerprint(trips) == before


def test_fail_lets_late_events_pass(trips: Table) -> None:
    trips.upsert(records(("a", "x", 5, 1.0)))
    result = trips.upsert(records(("a", "y", 4, 2.0), ("b", "y", 2, 2.0)), on_partition_change="fail")
    assert counts(result) == (1, 0, 0, 0, 1)


@pytest.mark.parametrize("choice", ["move", "keep", "fail"])
def test_choice_is_stored_with_table(tmp_path: Path, memory_url: str, choice: str) -> None:
    create_table(
        tmp_path / "t", record_key="id", partition_by="city", index=memory_url, on_partition_change=choice
    ).upsert(records(("a", "x", 1, 1.0)))
    table = open_table(tmp_path / "t")
    if choice == "fail":
        with pytest.raises(PartitionChangeError):
            table.upsert(records(("a", "y", 1, 1.0)))
    else:
        table.upsert(records(("a", "y", 1, 1.0)))
    assert values(table)["a"][0] == ("y" if choice == "move" else "x")


def test_an_unknown_choice_is_refused(trips: Table) -> None:
    with pytest.raises(InvalidInputError, match="'copy'"):
        trips.upsert(records(("a", "x", 1, 1.0)), on_partition_change="copy")


# What is kept of untouched records -------------------------------------------------------------------------------


def test_untouched_records_keep_their_commit(trips: Table) -> None:
    meta = ["_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_record_key", "_hoodie_file_name"]
    first = trips.upsert(records(("a", "x", 1, 1.0), ("b", "x", 1, 1.0), ("c", "x", 1, 1.0)))
    before = {row["_hoodie_record_key"]: row for row in trips.read(columns=meta).to_pylist()}
    second = trips.upsert(records(("b", "x", 2, 2.0), ("c", "x", 0, 2.0), ("d", "x", 2, 2.0)))
    after = {row["_hoodie_record_key"]: row for row in trips.read(columns=meta).to_pylist()}
    for key in ("a", "c"):
        assert after[key]["_hoodie_commit_time"] == first.instant
        assert after[key]["_hoodie_commit_seqno"] == before[key]["_hoodie_commit_seqno"]
    for key in ("b", "d"):
        assert after[key]["_hoodie_commit_time"] == second.instant
    (path,) = live_files(trips)
    assert {row["_hoodie_file_name"] for row in after.values()} == {path.rpartition("/")[2]}
    assert path.endswith(f"_{second.instant}.parquet")
    check_stored(trips)


def test_lookups_tell_instant_of_arrival(trips: Table) -> None:
    first = trips.upsert(records(("a", "x", 1, 1.0), ("b", "x", 1, 1.0)))
    second = trips.upsert(records(("a", "x", 2, 1.0), ("b", "y", 2, 1.0)))
    assert trips.lookup(["a", "b", "a"]).column("instant_time").to_pylist() == [
        first.instant,
        second.instant,
        first.instant,
    ]


# File sizes ------------------------------------------------------------------------------------------------------


def numbered(first: int, count: int, city: str = "x", ts: int = 1) -> pa.Table:
    return records(*[(f"key-{number:06}", city, ts, number * 0.37) for number in range(first, first + count)])


def test_inserts_fill_small_file_groups_first(trips: Table) -> None:
    for number in range(5):
        trips.upsert(numbered(number * 10, 10))
    assert len(live_files(trips)) == 1
    assert len(values(trips)) == 50
    check_stored(trips)


def test_file_groups_respect_target_size(tmp_path: Path, memory_url: str) -> None:
    target = 20_000
    table = create_table(
        tmp_path / "t", record_key="id", partition_by="city", index=memory_url, target_file_size=target
    )
    table.upsert(numbered(0, 1000))
    for number in range(1, 6):
        table.upsert(numbered(number * 2000, 2000))
        sizes = sorted(file_slice.size for file_slice in opened_table(table).snapshot().slices.values())
        # A file's size is estimated from the last commit and met by chance: the hash of a key chooses its file.
        assert sizes[-1] < 1.6 * target
        assert sum(size < target // 2 for size in sizes) <= 2
    assert len(values(table)) == 11_000
    assert len(live_files(table)) > 3
    check_stored(table)


def test_full_file_groups_are_left_alone(tmp_path: Path, memory_url: str) -> None:
    table = create_table(
        tmp_path / "t",
        record_key="id",
        partition_by="city",
        index=memory_url,
        target_file_size=30_000,
        small_file_size=0,
    )
    table.upsert(numbered(0, 100))
    result = table.upsert(numbered(100, 100))
    assert (result.files_created, result.files_rewritten) == (1, 0)


def test_records_find_their_file_groups_again(tmp_path: Path, memory_url: str) -> None:
    table = create_table(
        tmp_path / "t", record_key="id", partition_by="city", ordering="ts", index=memory_url, target_file_size=20_000
    )
    table.upsert(numbered(0, 3000))
    files = len(live_files(table))
    assert files > 2
    result = table.upsert(numbered(0, 3000, ts=2))
    assert counts(result) == (0, 3000, 0, 0, 0)
    assert (result.files_created, result.files_rewritten) == (0, files)
    result = table.upsert(numbered(0, 3000, city="y", ts=3))
    assert counts(result) == (0, 0, 3000, 0, 0)
    check_stored(table)


def test_emptied_file_group_is_filled_again(trips: Table) -> None:
    trips.upsert(records(("a", "x", 1, 1.0), ("b", "x", 1, 1.0)))
    assert trips.delete(["a", "b"]).deleted == 2
    assert values(trips) == {}
    check_stored(trips)
    result = trips.upsert(records(("a", "x", 0, 2.0), ("c", "x", 1, 1.0)))
    assert counts(result) == (2, 0, 0, 0, 0)
    assert (result.files_created, result.files_rewritten) == (0, 1)
    assert values(trips) == {"a": ("x", 0, 2.0), "c": ("x", 1, 1.0)}
    check_stored(trips)


def test_whole_partition_moves_away(trips: Table) -> None:
    trips.upsert(records(("a", "x", 1, 1.0), ("b", "x", 1, 1.0)))
    assert trips.upsert(records(("a", "y", 2, 1.0), ("b", "y", 2, 1.0))).moved == 2
    assert values(trips) == {"a": ("y", 2, 1.0), "b": ("y", 2, 1.0)}
    check_stored(trips)
