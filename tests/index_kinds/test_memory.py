"""The index ``memory:``: each process builds its own from the table, and no record is inserted twice."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from rli import LeasePlace, Scope, SettingsError, Step, Table, create_table, open_index, open_table
from rli.errors import IndexNotFoundError
from rli.index.record.sync.bootstrap import bootstrap
from tests.support.children import pipe, start_child
from tests.support.index_kinds import KINDS, stored_rows
from tests.support.tables import check_stored, records


@pytest.fixture
def table(tmp_path: Path) -> Table:
    created = create_table(
        tmp_path / "t", record_key="id", partition_by="city", ordering="ts", index="memory:", small_file_size=0
    )
    created.upsert(records(("a", "x", 1, 1.0), ("b", "x", 1, 1.0)))
    return created


def write_elsewhere(location: str, told: Connection) -> None:
    """A child's work: known keys are updated and moved, where Hudi's INMEMORY index would insert them again."""
    with open_table(location) as table:
        result = table.upsert(records(("a", "y", 2, 2.0), ("b", "x", 2, 2.0), ("c", "x", 2, 2.0)))
    told.send((result.inserted, result.updated, result.moved))


def upsert_elsewhere(table: Table) -> tuple[int, int, int]:
    """Inserted, updated and moved in another process."""
    receiver, sender = pipe()
    child = start_child(write_elsewhere, table.location, sender)
    counts: tuple[int, int, int] = receiver.recv()
    child.join()
    assert child.exitcode == 0
    return counts


def test_other_process_sees_written_entries(table: Table) -> None:
    assert upsert_elsewhere(table) == (1, 1, 1)
    expected = {("a", "y", 2, 2.0), ("b", "x", 2, 2.0), ("c", "x", 2, 2.0)}
    assert stored_rows(table) == expected
    assert table.upsert(records(("c", "x", 3, 3.0))).updated == 1
    check_stored(table)
    assert table.settings.lease is LeasePlace.TABLE


@pytest.mark.invariant("P36")
@pytest.mark.parametrize("step", [Step.INFLIGHT, Step.TAGGED, Step.WRITTEN])
def test_processes_insert_key_once(table: Table, step: Step) -> None:
    told: list[tuple[int, int, int]] = []

    def rival(reached: Step) -> None:
        if reached is step and not told:
            told.append(upsert_elsewhere(table))

    result = table.upsert(records(("c", "x", 5, 5.0), ("d", "x", 5, 5.0)), on_step=rival)
    assert told == [(1, 1, 1)]
    assert (result.inserted, result.updated, result.attempts) == (1, 1, 2)
    check_stored(table)


def test_tables_do_not_share_an_index(table: Table, tmp_path: Path) -> None:
    with create_table(tmp_path / "other", record_key="id", index="memory:") as other:
        assert other.lookup(["a"])["file_id"].null_count == 1
        assert other.index.stats().entries == 0
    with pytest.raises(IndexNotFoundError):
        open_index("memory:")
    assert table.index.stats().entries == 2


def test_missing_index_is_built_again(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    table.drop_index()
    with monkeypatch.context() as patched:
        patched.setattr("rli.index.record.kind.bootstrap", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            table.lookup(["a"])
    assert table.lookup(["a"])["partition_path"].to_pylist() == ["x"]
    check_stored(table)


def test_threads_build_it_once(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    table.drop_index()
    built: list[object] = []

    def build_and_count(*given: Any) -> int:
        built.append(given)
        return bootstrap(*given)

    monkeypatch.setattr("rli.index.record.kind.bootstrap", build_and_count)

    def look_up(_: int) -> list[str | None]:
        with open_table(table.location) as own:
            found: list[str | None] = own.lookup(["a", "nobody"])["partition_path"].to_pylist()
            return found

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(look_up, range(8))) == [["x", None]] * 8
    assert len(built) == 1


def test_with_partition_scope(tmp_path: Path) -> None:
    table = create_table(
        tmp_path / "t", record_key="id", partition_by="city", ordering="ts", index="memory:?scope=partition"
    )
    table.upsert(records(("a", "x", 1, 1.0), ("a", "y", 1, 1.0)))
    assert upsert_elsewhere(table) == (2, 1, 0)
    assert table.lookup(["a"])["partition_path"].to_pylist() == ["x", "y"]
    assert table.index.scope is Scope.PARTITION
    check_stored(table)


def test_lease_cannot_be_in_process_memory(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no store in which writers could agree"):
        create_table(tmp_path / "t", record_key="id", index="memory:", lease="index")
    with KINDS["record"].create(tmp_path) as stored:
        stored.upsert(records(("a", "x", 1, 1.0)))
    with open_table(stored.location, index="memory:") as reader:
        assert reader.lookup(["a"])["partition_path"].to_pylist() == ["x"]
        with pytest.raises(SettingsError, match="open the table without another index"):
            reader.upsert(records(("b", "x", 1, 1.0)))


def test_table_migrates_to_memory_and_back(tmp_path: Path) -> None:
    table = KINDS["record"].create(tmp_path)
    table.upsert(records(("a", "x", 1, 1.0)))
    assert table.bootstrap_index("memory:") == 1
    with open_table(table.location) as again:
        assert again.settings.lease is LeasePlace.TABLE
        assert again.upsert(records(("a", "y", 2, 2.0))).moved == 1
        assert again.bootstrap_index(f"lmdb://{tmp_path}/back") == 1
        check_stored(again)
