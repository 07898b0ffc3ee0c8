"""Inserting: the first record of a key wins, in the whole table, and known keys touch no file."""

from __future__ import annotations

from pathlib import Path
from threading import Barrier, Thread
from uuid import uuid4

import pyarrow as pa
import pytest

from rli import InvalidInputError, RecordExistsError, Step, Table, create_table, open_table
from tests.support.tables import by_key, check_stored, live_files, records, rows_of

FIRST = records(("a", "x", 1, 1.0), ("b", "y", 1, 1.0))


def test_known_keys_change_nothing_anywhere(table: Table) -> None:
    table.upsert(FIRST)
    before = live_files(table).keys()
    done = table.insert(records(("a", "x", 9, 9.0), ("b", "elsewhere", 9, 9.0), ("c", "z", 1, 1.0)))
    assert (done.inserted, done.unchanged, done.updated, done.moved) == (1, 2, 0, 0)
    assert before < live_files(table).keys()
    assert {key: row["v"] for key, row in by_key(rows_of(table)).items()} == {"a": 1.0, "b": 1.0, "c": 1.0}
    check_stored(table)


def test_first_record_in_batch_wins(table: Table) -> None:
    done = table.insert(records(("a", "x", 2, 2.0), ("a", "y", 3, 3.0), ("a", "z", 1, 1.0)))
    assert done.inserted == 1
    assert by_key(rows_of(table))["a"]["v"] == 2.0
    assert table.lookup(["a"])["partition_path"].to_pylist() == ["x"]


def test_insert_of_known_keys_commits_nothing(trips: Table) -> None:
    trips.insert(FIRST)
    done = trips.insert(FIRST)
    assert (done.instant, done.unchanged) == (None, 2)
    assert len(trips.timeline()) == 1


def test_deleted_key_can_be_inserted_again(table: Table) -> None:
    table.insert(FIRST)
    table.delete(["a"])
    assert table.insert(FIRST).inserted == 1
    check_stored(table)


def test_insert_refusing_known_keys_writes_nothing(trips: Table) -> None:
    trips.upsert(FIRST)
    with pytest.raises(RecordExistsError, match=r"count=1 keys=\['a'\] \(nothing was written\); leave them out"):
        trips.insert(records(("a", "x", 2, 2.0), ("c", "x", 2, 2.0)), on_existing="fail")
    assert len(by_key(rows_of(trips))) == 2
    assert trips.insert(records(("c", "x", 2, 2.0)), on_existing="fail").inserted == 1


def test_an_unknown_choice_is_named(trips: Table) -> None:
    with pytest.raises(InvalidInputError, match="on_existing='drop'; choose one of"):
        trips.insert(FIRST, on_existing="drop")


def test_insert_skips_concurrent_inserts(table: Table) -> None:
    table.upsert(records(("s", "q", 1, 1.0)))
    rivals = iter([FIRST])

    def interrupt_once(step: Step) -> None:
        if step is Step.WRITTEN:
            for rival in rivals:
                open_table(table.location).insert(rival)

    done = table.insert(records(("a", "z", 5, 5.0), ("c", "z", 5, 5.0)), on_step=interrupt_once)
    assert (done.inserted, done.unchanged, done.attempts) == (1, 1, 2)
    assert by_key(rows_of(table))["a"]["v"] == 1.0
    check_stored(table)


def test_insert_restores_concurrently_deleted_key(table: Table) -> None:
    """It found the key, and skipped its record: after the deletion that would be wrong."""
    table.upsert(FIRST)
    deletions = iter([["a"]])

    def interrupt_once(step: Step) -> None:
        if step is Step.WRITTEN:
            for keys in deletions:
                open_table(table.location).delete(keys)

    done = table.insert(records(("a", "x", 5, 5.0), ("c", "z", 5, 5.0)), on_step=interrupt_once)
    assert (done.inserted, done.unchanged, done.attempts) == (2, 0, 2)
    check_stored(table)


def test_a_repeated_transaction_inserts_once(trips: Table) -> None:
    first = trips.insert(FIRST, transaction=("job", 1))
    trips.delete(["a"])
    assert trips.insert(FIRST, transaction=("job", 1)) == first
    assert by_key(rows_of(trips)).keys() == {"b"}


def test_concurrent_inserts_insert_key_once(tmp_path: Path, memory_url: str) -> None:
    table = create_table(tmp_path / "t", record_key="id", partition_by="city", ordering="ts", index=memory_url)
    table.upsert(records(("s", "q", 1, 1.0)))
    start, inserted = Barrier(3), list[int]()

    def insert(number: int) -> None:
        start.wait()
        batch = records(*((f"k{key}", f"city{number}", 1, float(number)) for key in range(20)))
        inserted.append(table.insert(batch, attempts=50).inserted)

    writers = [Thread(target=insert, args=(number,)) for number in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert sum(inserted) == 20
    assert table.read().num_rows == 21
    assert table.verify_index().agrees


def test_insert_may_add_column(trips: Table) -> None:
    trips.upsert(FIRST)
    more = records(("a", "x", 2, 2.0), ("c", "x", 2, 2.0)).append_column("note", pa.array(["n1", "n2"]))
    assert trips.insert(more).inserted == 1
    assert {key: row["note"] for key, row in by_key(rows_of(trips)).items()} == {"a": None, "b": None, "c": "n2"}


def test_few_inserts_rewrite_no_large_group(tmp_path: Path, memory_url: str) -> None:
    table = create_table(tmp_path / "t", record_key="id", index=memory_url)
    table.insert(pa.table({"id": [str(uuid4()) for _ in range(60_000)]}))
    [large] = live_files(table)
    assert Path(table.location, large).stat().st_size > 1 << 20
    table.insert(pa.table({"id": ["a"]}))
    assert large in live_files(table)
    table.insert(pa.table({"id": ["b"]}))
    assert len(live_files(table)) == 2
    table.insert(pa.table({"id": [str(uuid4()) for _ in range(20_000)]}))
    assert large not in live_files(table)
    assert table.verify_index().agrees
