"""Secondary indexes in the store of the record index: each commit keeps them, and what they find is what the full scan finds."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

import pyarrow as pa
import pytest

from rli import (
    ColumnIndexState,
    IndexExistsError,
    IndexHome,
    IndexNotFoundError,
    IndexNotReadyError,
    InvalidInputError,
    PruningStep,
    RepeatedValueError,
    RliError,
    Step,
    StoreUnavailableError,
    Table,
    UnsupportedTableError,
    create_table,
    open_table,
)
from rli.codec.encoded_keys import EncodedKeys
from rli.codec.entries import Entries
from rli.index.record.columns.stored_column import StoredColumn
from rli.index.record.entries.builds import BuildNotes
from rli.index.record.entries.limits import IndexLimits
from rli.index.record.table.index import RecordTableIndex
from rli.store.contract import Store, Watermarks
from rli.store.registry import open_store
from rli.table.table import opened_table
from rli.view.column_values import ColumnValues
from rli.view.file_slices import FileSlice
from rli.view.snapshot import Snapshot
from rli_lmdb.store import LmdbStore
from tests.support.indexes import limit_index, record_index
from tests.support.soak import FACTOR
from tests.support.tables import records, turn_into_version_9
from tests.support.unshared_commits import write_at_once

pytestmark = [pytest.mark.invariant("P59"), pytest.mark.invariant("P60")]

SCHEMA: Final = pa.schema(
    [
        ("id", pa.string()),
        ("city", pa.string()),
        ("ts", pa.int64()),
        ("email", pa.string()),
        ("n", pa.int32()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
    ]
)
STRINGS: Final = [None, "", "a", "a\0", "\0a", "ä", "😀", "a@b", "A@b", "1\0a"]
VALUES: Final[dict[str, list[Any]]] = {
    "email": STRINGS,
    "n": [None, -1, 0, 1, 10, 2**31 - 1, -(2**31)],
    "day": [None, -364, 0, 19724],
    "at": [None, -1, 0, 1_717_156_800_123_456],
}


def new_table(folder: Path, kind: str = "copy_on_write", version: int = 6, **given: Any) -> Table:
    table = create_table(
        folder, record_key="id", partition_by="city", ordering="ts", table_type=kind, maintenance=False, **given
    )
    if version == 9:
        turn_into_version_9(table)
    return table


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return new_table(tmp_path / "t")


def rows(*given: tuple[Any, ...]) -> pa.Table:
    padded = [(*row, *[None] * (len(SCHEMA) - len(row))) for row in given]
    return records(*padded, schema=SCHEMA)


def require_same(table: Table, *columns: str) -> None:
    """What the index finds is what the full scan finds: for some values together, and for one."""
    everything = table.read().to_pylist()
    for column in columns or ("email",):
        present = sorted({row[column] for row in everything} - {None})
        for values in (present, present[:1]):
            expected = sorted(row["id"] for row in everything if row[column] in values)
            assert sorted(table.get(where={column: values or ["nobody"]})["id"].to_pylist()) == expected, (
                column,
                values,
            )
    absent = table.scan(filters="email = 'nobody'").explain().files
    assert absent.pruned[PruningStep.SECONDARY_INDEX] == absent.total


@pytest.mark.parametrize("version", [6, 9])
def test_all_operations_keep_the_index(tmp_path: Path, version: int) -> None:
    table = new_table(tmp_path / "t", version=version)
    table.upsert(rows(("a", "x", 1, "a@b"), ("b", "y", 1, "b"), ("c", "x", 1, None), ("d", "y", 1, "")))
    assert table.create_index("by_email", on="email", home="store").state is ColumnIndexState.VALID
    require_same(table)
    steps: list[Callable[[], object]] = [
        lambda: table.upsert(rows(("a", "x", 2, "new"), ("e", "z", 1, "a@b"))),
        lambda: table.upsert(rows(("b", "x", 2, "b"), ("d", "z", 2, "d"))),
        lambda: table.upsert(rows(("a", "x", 1, "late"))),
        lambda: table.merge(
            rows(("a", "x", 3, "again"), ("c", "x", 9, None)).append_column("op", pa.array(["u", "d"])), op="op"
        ),
        lambda: table.delete(["d", "nobody"]),
        lambda: table.insert(rows(("d", "x", 5, "back"))),
        table.cluster,
        lambda: table.update_where("id = 'e'", {"email": "'e'"}),
        lambda: table.delete_where("id = 'e'"),
        lambda: table.overwrite_partitions(rows(("o", "x", 5, "over"), ("a", "x", 9, "again"))),
        lambda: table.clean(keep_commits=1),
        lambda: table.upsert(rows(*((f"k{number}", "x", 1, f"{number % 7}") for number in range(100)))),
    ]
    for step in steps:
        step()
        require_same(table)
    assert table.indexes()[0].home is IndexHome.STORE


def test_log_files_keep_the_index(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", "merge_on_read")
    table.insert(rows(("a", "x", 1, "a@b"), ("b", "x", 1, None), ("c", "y", 1, "c")))
    table.create_index("by_email", on="email")
    assert table.upsert(rows(("a", "x", 2, "new"), ("b", "x", 2, "q"))).files_appended == 1
    require_same(table)
    for step in (
        lambda: table.update_where("id = 'c'", {"email": "'d'", "ts": "ts + 1"}),
        lambda: table.upsert(rows(("a", "y", 3, "moved"), ("e", "z", 1, "new"))),
        lambda: table.delete(["c"]),
        table.compact,
        lambda: table.upsert(rows(("e", "z", 2, "again"))),
    ):
        step()
        require_same(table)
    base = table.read(filters="email = 'new'", query="read_optimized")
    assert base.to_pylist() == [row for row in table.read(query="read_optimized").to_pylist() if row["email"] == "new"]


def test_undone_commits_hide_no_record(table: Table) -> None:
    table.upsert(rows(("a", "x", 1, "a@b"), ("b", "y", 1, "b")))
    kept = table.savepoint()
    table.create_index("by_email", on="email")
    undone = table.upsert(rows(("a", "x", 2, "new"), ("c", "y", 1, "a@b"))).instant
    assert undone is not None
    require_same(table)
    table.rollback(undone)
    assert table.read(filters="email = 'a@b'")["id"].to_pylist() == ["a"]
    require_same(table)
    table.overwrite_partitions(rows(("o", "x", 5, "over")))
    table.delete(["b"])
    require_same(table)
    table.restore(kept)
    assert sorted(table.read()["id"].to_pylist()) == ["a", "b"]
    require_same(table)


@pytest.mark.parametrize("kind", ["copy_on_write", "merge_on_read"])
@pytest.mark.parametrize("seed", range(1 * FACTOR))
def test_indexed_answers_equal_the_scan(tmp_path: Path, kind: str, seed: int) -> None:
    table, chance = new_table(tmp_path / "t", kind), random.Random(seed)

    def some_rows(count: int) -> pa.Table:
        ids = chance.sample([*STRINGS[2:], *(f"k{number}" for number in range(20))], count)
        drawn = [(chance.choice(values) for values in VALUES.values()) for _ in ids]
        return rows(
            *((key, chance.choice("xyz"), chance.randrange(9), *row) for key, row in zip(ids, drawn, strict=True))
        )

    table.upsert(some_rows(12))
    columns = ["email", chance.choice(["n", "day", "at"])]
    for column in columns:
        table.create_index(f"by_{column}", on=column)
    for _ in range(3):
        last = table.upsert(some_rows(5)).instant or ""
        step = chance.choice(
            [
                lambda: table.rollback(last),  # noqa: B023  (called at once)
                table.cluster if kind == "copy_on_write" else table.compact,
                lambda: table.clean(keep_commits=1),
                lambda: table.delete(chance.sample(table.read()["id"].to_pylist(), 2)),
                lambda: table.overwrite_partitions(some_rows(2)),
            ]
        )
        step()
        require_same(table, *columns)


def test_a_dead_follower_loses_nothing(table: Table) -> None:
    """The next reader brings into the index what its writer could not."""
    table.upsert(rows(("a", "x", 1, "a@b"), ("b", "y", 1, "b")))
    table.create_index("by_email", on="email")

    def die(step: Step) -> None:
        if step is Step.REGISTERED:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        table.upsert(rows(("a", "y", 2, "b"), ("c", "z", 1, "a@b")), on_step=die)
    again = open_table(table.location)
    assert sorted(again.get(where={"email": ["b"]})["id"].to_pylist()) == ["a", "b"]
    require_same(again)


def test_later_commits_hide_no_record(table: Table) -> None:
    table.upsert(rows(("a", "x", 1, "old"), ("b", "y", 1, "b")))
    table.create_index("by_email", on="email")
    scan = table.scan(filters="email = 'old'")
    open_table(table.location).upsert(rows(("a", "x", 2, "new")))
    assert scan.to_table()["id"].to_pylist() == ["a"]


def test_recreated_indexes_hide_no_record(table: Table) -> None:
    table.upsert(rows(("a", "x", 1, "old", 1), ("b", "y", 1, "b", 2)))
    table.create_index("one", on="email")
    scan, other = table.scan(filters="email = 'old'"), open_table(table.location)
    assert other.get(where={"email": ["old"]})["id"].to_pylist() == ["a"]
    table.drop_index("one")
    table.create_index("one", on="n")
    assert scan.to_table()["id"].to_pylist() == ["a"]
    assert table.read(filters="n = 2")["id"].to_pylist() == ["b"]
    assert other.get(where={"n": [2]})["id"].to_pylist() == ["b"]
    assert "secondary index" in str(other.scan(filters="n = 2").explain())


def test_commits_amid_look_ups_hide_nothing(table: Table) -> None:
    table.upsert(rows(("a", "x", 1, "v"), ("b", "x", 1, "u")))
    table.create_index("by_email", on="email")
    store = type(record_index(table).store)
    find, swaps = store.find, [rows(("a", "x", 2, "w"), ("b", "x", 2, "v"))]

    def swap_first(self: Store, prefixes: EncodedKeys, applied: int) -> Iterator[tuple[EncodedKeys, Entries]]:
        while swaps:
            open_table(table.location).upsert(swaps.pop())
        return find(self, prefixes, applied)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "find", swap_first)
        assert table.get(where={"email": ["v"]}).num_rows == 1


def test_indexes_built_later_hide_no_record(table: Table) -> None:
    table.upsert(rows(("a", "x", 1, "v"), ("b", "x", 1, "u")))
    table.create_index("by_email", on="email")
    keys_with = RecordTableIndex.keys_with

    def build_again_first(self: RecordTableIndex, *asked: Any) -> pa.Array | None:
        patch.undo()
        other = open_table(table.location)
        other.upsert(rows(("a", "x", 2, "w"), ("b", "x", 2, "v")))
        other.drop_index("by_email")
        other.create_index("by_email", on="email")
        return keys_with(self, *asked)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RecordTableIndex, "keys_with", build_again_first)
        assert table.get(where={"email": ["v"]}).num_rows == 1


def test_other_indexes_are_never_dropped(tmp_path: Path, table: Table) -> None:
    table.upsert(rows(("a", "x", 1, "v")))
    other = new_table(tmp_path / "other", index=record_index(table).store.url_beside("by_email"))
    other.upsert(rows(("b", "x", 1, "w")))
    with pytest.raises(IndexExistsError, match="holds a record index"):
        table.create_index("by_email", on="email")
    assert other.lookup(["b"]).num_rows == 1


def test_savepoints_hide_no_record(table: Table) -> None:
    """An old version that a savepoint keeps is not taken for the last one before a commit."""
    table.upsert(rows(("a", "x", 1, "v")))
    table.savepoint()
    table.create_index("by_email", on="email")
    with pytest.MonkeyPatch.context() as patch:
        # The index falls behind.
        patch.setattr(RecordTableIndex, "follow_columns", lambda *_: None)
        for ts, value in ((2, "w"), (3, "v"), (4, "u")):
            table.upsert(rows(("a", "x", ts, value)))
            table.clean(keep_commits=1)
        table.upsert(rows(("a", "x", 5, "v")))
    assert table.get(where={"email": ["v"]})["id"].to_pylist() == ["a"]


def test_indexes_of_columns_outlive_bootstraps(table: Table) -> None:
    table.upsert(rows(("a", "x", 1, "a@b")))
    table.create_index("by_email", on="email")
    table.index.bootstrap()
    table.upsert(rows(("b", "x", 1, "b")))
    require_same(table)
    beside = record_index(table).store.url_beside("by_email")
    table.index.drop()
    with pytest.raises(IndexNotFoundError):
        open_store(beside)


def test_lost_indexes_leave_no_stores(table: Table) -> None:
    table.upsert(rows(("a", "x", 1, "a@b")))
    table.create_index("by_email", on="email")
    beside = record_index(table).store.url_beside("by_email")
    record_index(table).store.drop()
    table.index.bootstrap()
    require_same(table)
    table.index.drop()
    with pytest.raises(IndexNotFoundError):
        open_store(beside)


def test_lost_stores_are_shown_invalid(table: Table) -> None:
    table.upsert(rows(("a", "x", 1, "a@b")))
    table.create_index("by_email", on="email")
    with open_store(record_index(table).store.url_beside("by_email")) as store:
        store.drop()
    assert [index.state for index in table.indexes()] == [ColumnIndexState.INVALID]
    assert not table.upsert(rows(("b", "x", 1, "a@b"))).index_behind
    assert sorted(table.get(where={"email": ["a@b"]})["id"].to_pylist()) == ["a", "b"]
    assert table.create_index("by_email", on="email").state is ColumnIndexState.VALID
    require_same(table)
    table.drop_index("by_email")
    assert table.indexes() == ()


def test_outrun_indexes_are_built_again(table: Table) -> None:
    """Writers of a former version know of no index in a store: they keep it neither up to date nor unique, and archive."""
    table.upsert(rows(("a", "x", 1, "a@b")))
    table.create_index("by_n", on="n")
    table.create_index("by_email", on="email", unique=True)
    with pytest.MonkeyPatch.context() as patch:
        for method in ("follow_columns", "require_unique"):
            patch.setattr(RecordTableIndex, method, lambda *_: None)
        for ts in (2, 3, 4):
            table.upsert(rows(("a", "x", ts, "a@b", 1), ("b", "x", ts, f"{ts}", 1)))
        assert {index.state for index in table.indexes()} == {ColumnIndexState.VALID}
        table.clean(keep_commits=1)
        table.archive(keep_commits=1)
    again = open_table(table.location)
    assert {index.state for index in again.indexes()} == {ColumnIndexState.INVALID}
    with pytest.raises(IndexNotReadyError, match="rli index create TABLE NAME"):
        again.index.sync()
    with pytest.raises(IndexNotReadyError, match="by_email"):
        again.upsert(rows(("c", "x", 1, "c")))
    assert again.create_index("by_email", on="email", unique=True).state is ColumnIndexState.VALID
    with pytest.raises(RepeatedValueError, match="by_email"):
        again.upsert(rows(("c", "x", 1, "a@b")))
    assert again.upsert(rows(("c", "x", 1, "c"))).index_behind
    assert again.create_index("by_n", on="n").state is ColumnIndexState.VALID
    assert not again.upsert(rows(("d", "x", 1, "d", 1))).index_behind
    require_same(again, "email", "n")


def test_cleans_remove_entries_that_went(table: Table) -> None:
    def people(prefix: str, ts: int) -> pa.Table:
        return rows(*((f"k{number}", "x", ts, f"{prefix}{number}") for number in range(1_100)))

    table.upsert(people("old", 1))
    table.create_index("by_email", on="email")
    early, index, old = Snapshot.now(opened_table(table).definition), record_index(table), pa.array(["old7"])
    table.upsert(people("new", 2))
    found = index.keys_with("by_email", "email", early, old, 10)
    assert found is not None
    assert found.to_pylist() == ["k7"]
    table.upsert(rows(("z", "x", 1, "z")))
    table.clean(keep_commits=1)
    with open_store(index.store.url_beside("by_email")) as store:
        assert (store.stats().live_entries, store.stats().tombstones) == (1_101, 0)
    # A reader of the early state must not take the key for one that never had the value.
    assert index.keys_with("by_email", "email", early, old, 10) is None
    table.upsert(rows(("k7", "x", 3, "old7")))
    assert table.get(where={"email": ["old7"]})["id"].to_pylist() == ["k7"]
    assert table.get(where={"email": ["new7"]}).num_rows == 0


def test_frequent_values_are_looked_up_partly(table: Table) -> None:
    table.upsert(rows(*((f"k{number}", "x", 1, "often" if number else "once") for number in range(300))))
    table.create_index("by_email", on="email")
    index, now, given = record_index(table), Snapshot.now(opened_table(table).definition), list[int]()

    def counted(self: LmdbStore, prefixes: EncodedKeys, _: int) -> Iterator[tuple[EncodedKeys, Entries]]:
        for keys, entries in self.find_in_parts(prefixes, 16):
            given.append(len(keys))
            yield keys, entries

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LmdbStore, "find", counted)
        assert index.keys_with("by_email", "email", now, pa.array(["once"]), 20) == pa.array(["k0"])
        assert index.keys_with("by_email", "email", now, pa.array(["often"]), 20) is None
    assert (given[0], sum(given) < 60) == (1, True)


def test_changed_columns_are_shown_invalid(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", record_key="id")
    table.upsert(pa.table({"id": ["a"], "n": pa.array([1], pa.int32())}))
    table.create_index("by_n", on="n")
    table.upsert(pa.table({"id": ["b"], "n": pa.array([1], pa.int64())}))
    assert table.indexes()[0].state is ColumnIndexState.VALID
    assert sorted(table.get(where={"n": [1]})["id"].to_pylist()) == ["a", "b"]


def test_impossible_stored_indexes_are_refused(tmp_path: Path, table: Table) -> None:
    table.upsert(rows(("a", "x", 1, "a@b")))
    with pytest.raises(InvalidInputError, match="column_stats"):
        table.create_index("one", on="n", using="column_stats", home="store")
    with pytest.raises(InvalidInputError, match="attic"):
        table.create_index("one", on="n", home="attic")
    table.create_index("one", on="n")
    with pytest.raises(IndexExistsError, match="columns=n"):
        table.create_index("one", on="email")
    files = new_table(tmp_path / "files", index="bloom:")
    files.upsert(rows(("a", "x", 1, "a@b")))
    with pytest.raises(UnsupportedTableError, match="no key-value store"):
        files.create_index("one", on="n", home="store")
    assert files.indexes() == ()


@pytest.mark.parametrize("compared_at_once", [1, 1_000])
@pytest.mark.parametrize("kind", ["copy_on_write", "merge_on_read"])
def test_unique_values_are_kept_unique(tmp_path: Path, kind: str, compared_at_once: int) -> None:
    table = new_table(tmp_path / "t", kind)
    limit_index(table, IndexLimits(unique_values=compared_at_once))
    table.upsert(rows(("a", "x", 1, "a@b"), ("b", "y", 1, "b"), ("c", "x", 1, None), ("d", "y", 1, None)))
    made = table.create_index("by_email", on="email", unique=True)
    assert (made.is_unique, made.home) == (True, IndexHome.STORE)
    refused: list[Callable[[], object]] = [
        lambda: table.upsert(rows(("e", "z", 1, "a@b"))),
        lambda: table.upsert(rows(("b", "y", 2, "a@b"))),
        # A move.
        lambda: table.upsert(rows(("b", "z", 2, "a@b"))),
        lambda: table.insert(rows(("e", "z", 1, "new"), ("f", "x", 1, "new"))),
        lambda: table.update_where("id = 'b'", {"email": "'a@b'", "ts": "ts + 1"}),
    ]
    before = table.read().to_pylist()
    for write in refused:
        with pytest.raises(RepeatedValueError, match="by_email"):
            write()
        assert table.read().to_pylist() == before
    allowed: list[Callable[[], object]] = [
        # The same record again, a swap, a value that its record gives up, nulls.
        lambda: table.upsert(rows(("a", "z", 2, "a@b"))),
        lambda: table.upsert(rows(("a", "z", 3, "b"), ("b", "y", 3, "a@b"))),
        lambda: table.upsert(rows(("c", "x", 3, None), ("b", "y", 4, "given up"))),
        lambda: table.insert(rows(("e", "z", 1, "a@b"))),
        lambda: table.delete(["e"]),
        lambda: table.insert(rows(("f", "x", 1, "a@b"))),
        table.cluster if kind == "copy_on_write" else table.compact,
        lambda: table.overwrite_partitions(rows(("o", "x", 9, "a@b"))),
    ]
    for write in allowed:
        write()
    values = [row["email"] for row in table.read().to_pylist() if row["email"] is not None]
    assert len(values) == len({*values})
    require_same(table)


def test_new_values_are_compared_in_parts(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    table.upsert(rows(("a", "x", 1, "a@b")))
    table.create_index("by_email", on="email", unique=True)
    limit_index(table, IndexLimits(unique_values=500))
    compared: list[int] = []
    keys_with = StoredColumn.keys_with

    def noted(self: StoredColumn, snapshot: Snapshot, values: pa.Array, *rest: Any) -> pa.Array | None:
        compared.append(len(values))
        return keys_with(self, snapshot, values, *rest)

    monkeypatch.setattr(StoredColumn, "keys_with", noted)
    new = [(f"k{number}", "xyz"[number % 3], 1, f"{number}@b") for number in range(2_000)]
    table.upsert(rows(*new))
    assert sum(compared) == len(new)
    assert max(compared) < 700
    # All records pass their values on, and then two of them get one.
    passed_on = [(key, city, 2, email) for (key, city, *_), (*_, email) in zip(new, [*new[1:], new[0]], strict=True)]
    table.upsert(rows(*passed_on))
    with pytest.raises(RepeatedValueError, match="k8"):
        table.upsert(
            rows(*[(key, city, 3, email) for key, city, _, email in new if key != "k8"], ("k7", "x", 4, "8@b"))
        )
    assert table.get(where={"email": ["1@b", "0@b"]})["id"].sort().to_pylist() == ["k0", "k1999"]


@pytest.mark.parametrize("version", [6, 9])
def test_log_files_free_unique_values(tmp_path: Path, version: int) -> None:
    """Values that a record of the same file group has given up, or gives up in the same commit; and one that it keeps."""
    table = new_table(tmp_path / "t", "merge_on_read", version)
    table.upsert(rows(("a", "x", 1, "v"), ("b", "x", 1, "b"), ("c", "x", 1, "c")))
    table.create_index("by_email", on="email", unique=True)
    table.upsert(rows(("a", "x", 2, None)))
    assert table.upsert(rows(("b", "x", 2, "v"))).files_appended == 1
    changes = rows(("b", "x", 3, None), ("c", "x", 3, "v")).append_column("op", pa.array(["d", "u"]))
    assert table.merge(changes, op="op").files_appended == 1
    with pytest.raises(RepeatedValueError, match="'v', 'c'"):
        table.upsert(rows(("a", "x", 3, "v")))
    # The first of them loses against the stored record.
    with pytest.raises(RepeatedValueError, match="'v', 'c'"):
        table.upsert(rows(("c", "x", 1, "late"), ("a", "x", 3, "v")))
    assert {row["id"]: row["email"] for row in table.read().to_pylist()} == {"a": None, "c": "v"}


def test_one_of_two_writers_wins(table: Table) -> None:
    table.upsert(rows(("a", "x", 1, "a@b")))
    table.create_index("by_email", on="email", unique=True)

    def other(step: Step) -> None:
        if step is Step.WRITTEN and open_table(table.location).read(filters="id = 'f'").num_rows == 0:
            open_table(table.location).upsert(rows(("f", "q", 1, "new")))

    with pytest.raises(RepeatedValueError, match="'new', 'f'"):
        table.upsert(rows(("e", "z", 1, "new")), on_step=other)
    assert table.get(where={"email": ["new"]})["id"].to_pylist() == ["f"]


def test_repeated_values_refuse_the_index(table: Table) -> None:
    table.upsert(rows(("a", "x", 1, "a@b"), ("b", "y", 1, "a@b")))
    with pytest.raises(RepeatedValueError, match="a@b"):
        table.create_index("by_email", on="email", unique=True)
    assert table.indexes() == ()
    with pytest.raises(InvalidInputError, match="home='store'"):
        table.create_index("by_email", on="email", unique=True, home="metadata")


def test_lost_unique_indexes_refuse_commits(table: Table) -> None:
    table.upsert(rows(("a", "x", 1, "a@b")))
    table.create_index("by_email", on="email", unique=True)
    with open_store(record_index(table).store.url_beside("by_email")) as store:
        store.drop()
    with pytest.raises(IndexNotReadyError, match="by_email"):
        open_table(table.location).upsert(rows(("b", "x", 1, "a@b")))
    table.drop_index("by_email")
    assert table.upsert(rows(("b", "x", 1, "a@b"))).inserted == 1


def test_undone_columns_refuse_no_commit(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", record_key="id", maintenance=False)
    table.upsert(pa.table({"id": ["a"]}))
    added = table.upsert(pa.table({"id": ["b"], "email": ["v"]})).instant
    table.create_index("by_email", on="email", unique=True)
    assert added is not None
    table.rollback(added)
    assert table.upsert(pa.table({"id": ["a", "c"]})).inserted == 1
    assert [index.state for index in table.indexes()] == [ColumnIndexState.INVALID]


def test_changed_indexes_keep_values_unique(table: Table) -> None:
    """A commit is refused until the table has an index again that tells the values that are taken."""
    table.upsert(rows(("a", "x", 1, "a@b")))
    table.create_index("by_email", on="email", unique=True)
    table.create_index("by_n", on="n")
    table.migrate_index("bloom:")
    table.drop_index("by_n")
    assert [index.name for index in table.indexes()] == ["by_email"]
    with pytest.raises(IndexNotReadyError, match="by_email"):
        open_table(table.location).upsert(rows(("b", "x", 1, "a@b")))
    table.migrate_index(f"lmdb://{table.location}/again")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RecordTableIndex, "build_column", _die)
        with pytest.raises(KeyboardInterrupt):
            table.create_index("by_email", on="email", unique=True)
    with pytest.raises(IndexNotReadyError, match="by_email"):
        open_table(table.location).upsert(rows(("b", "x", 1, "a@b")))
    table.create_index("by_email", on="email", unique=True)
    with pytest.raises(RepeatedValueError, match="by_email"):
        open_table(table.location).upsert(rows(("b", "x", 1, "a@b")))


@pytest.mark.parametrize("is_unique", [False, True])
def test_stored_indexes_are_built_later(table: Table, *, is_unique: bool) -> None:
    """Nobody uses or keeps the index before; a killed build leaves it to the next one."""
    table.upsert(rows(("a", "x", 1, "a@b"), ("b", "y", 1, "b")))
    made = table.create_index("by_email", on="email", unique=is_unique, wait=False)
    assert (made.state, made.home, made.is_unique) == (ColumnIndexState.BUILDING, IndexHome.STORE, is_unique)
    table.upsert(rows(("c", "x", 1, "c")))
    assert PruningStep.SECONDARY_INDEX not in table.scan(filters="email = 'b'").explain().files.pruned
    for method in ("fill", "sync"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(StoredColumn, method, _die)
            with pytest.raises(KeyboardInterrupt):
                table.build_indexes()
        assert table.indexes()[0].state is ColumnIndexState.BUILDING
        assert table.get(where={"email": ["c"]})["id"].to_pylist() == ["c"]
        assert not table.upsert(rows(("d", "x", 1, method))).index_behind
    told = list[tuple[int, int]]()
    [built] = open_table(table.location).build_indexes(on_progress=lambda done, total: told.append((done, total)))
    assert (built.state, built.lag, built.covers, told[-1]) == (ColumnIndexState.VALID, 0, 1.0, (2, 2))
    require_same(table)
    assert table.build_indexes() == ()
    if is_unique:
        with pytest.raises(RepeatedValueError, match="by_email"):
            table.upsert(rows(("e", "x", 1, "a@b")))


def test_lists_tell_how_indexes_lag(table: Table) -> None:
    table.upsert(rows(("a", "x", 1, "a@b")))
    table.create_index("by_email", on="email")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RecordTableIndex, "follow_columns", lambda *_: None)
        for ts in (2, 3):
            table.upsert(rows(("a", "x", ts, f"{ts}")))
    assert [(index.state, index.lag) for index in table.indexes()] == [(ColumnIndexState.VALID, 2)]
    require_same(table)
    assert [index.lag for index in table.indexes()] == [0]


def builds_amid(table: Table, other: Callable[[], object]) -> None:
    """Builds the scheduled indexes; something else happens when all entries are there, before the index counts as built."""
    mark = LmdbStore.mark_applied

    def meet(self: LmdbStore, since: Watermarks, sequence: int) -> bool:
        patch.undo()
        other()
        return mark(self, since, sequence)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LmdbStore, "mark_applied", meet)
        table.build_indexes()


def test_overtaken_builds_are_refused(table: Table) -> None:
    """Two builds of one name: what the first one has put is lost with its store, so it must not count as built."""
    table.upsert(rows(("a", "x", 1, "a@b"), ("b", "y", 1, "b")))
    table.create_index("by_email", on="email", wait=False)
    other = open_table(table.location)

    def make_again() -> None:
        other.drop_index("by_email")
        other.create_index("by_email", on="email")

    with pytest.raises(RliError):
        builds_amid(table, make_again)
    assert table.indexes()[0].state is ColumnIndexState.VALID
    require_same(table)


def test_two_builds_share_their_work(table: Table) -> None:
    table.upsert(rows(("a", "x", 1, "a@b"), ("b", "y", 1, "b")))
    table.create_index("by_email", on="email", wait=False)
    builds_amid(table, open_table(table.location).build_indexes)
    assert table.indexes()[0].state is ColumnIndexState.VALID
    require_same(table)


def test_failed_builds_spare_finished_ones(table: Table) -> None:
    table.upsert(rows(("a", "x", 1, "a@b"), ("b", "y", 1, "b")))

    def finish_elsewhere(*_: object) -> bool:
        patch.undo()
        open_table(table.location).build_indexes()
        raise IndexNotReadyError("a server was replaced", remedy="make the index again")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LmdbStore, "mark_applied", finish_elsewhere)
        with pytest.raises(IndexNotReadyError):
            table.create_index("by_email", on="email", home="store")
    assert table.indexes()[0].state is ColumnIndexState.VALID
    require_same(table)


def commit_meanwhile(table: Table) -> None:
    for ts in (2, 3):
        table.upsert(rows(("k0", "c0", ts, f"new {ts}"), ("k1", "c2", ts, "moved"), ("new", "c4", ts, "new")))


def add_column_meanwhile(table: Table) -> None:
    commit_meanwhile(table)
    table.upsert(rows(("k3", "c3", 4, "wide")).append_column("extra", pa.array([1])))


def clean_meanwhile(table: Table) -> None:
    commit_meanwhile(table)
    table.clean(keep_commits=1)


def cluster_meanwhile(table: Table) -> None:
    table.cluster(smaller_than=1 << 30)
    clean_meanwhile(table)


MEANWHILE: Final[dict[str, Callable[[Table], None]]] = {
    "nothing": lambda _: None,
    "commits": commit_meanwhile,
    "cleans": clean_meanwhile,
    "clusterings": cluster_meanwhile,
    "columns": add_column_meanwhile,
}


@pytest.mark.parametrize("build_batch", [0, 1])
@pytest.mark.parametrize("meanwhile", MEANWHILE)
def test_dead_builds_are_gone_on_with(tmp_path: Path, meanwhile: str, build_batch: int) -> None:
    """The shards that are in the store are not read again, unless files of the state that the build began with are gone."""
    table = new_table(tmp_path / "t", small_file_size=0)
    for name in "kq":
        table.insert(rows(*((f"{name}{number}", f"c{number % 5}", 1, f"{name}{number % 7}") for number in range(10))))
    table.create_index("by_email", on="email", wait=False)
    finish, read = BuildNotes.finish, ColumnValues.of_slice
    finished, slices = list[object](), list[FileSlice | None]()

    def finish_two(self: BuildNotes, shard: Sequence[FileSlice], rows: int) -> None:
        finished.append(shard)
        if len(finished) > 2:
            raise KeyboardInterrupt
        finish(self, shard, rows)

    def noted(self: ColumnValues, file_slice: FileSlice | None, *, with_instants: bool = True) -> pa.Table:
        slices.append(file_slice)
        return read(self, file_slice, with_instants=with_instants)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rli.index.record.columns.building.shards", lambda slices: [[one] for one in slices])
        with pytest.MonkeyPatch.context() as dying:
            dying.setattr(BuildNotes, "finish", finish_two)
            dying.setattr(LmdbStore, "build_batch", build_batch)
            with pytest.raises(KeyboardInterrupt):
                table.build_indexes()
        MEANWHILE[meanwhile](table)
        patch.setattr(ColumnValues, "of_slice", noted)
        assert [index.state for index in table.build_indexes()] == [ColumnIndexState.VALID]
    if meanwhile == "nothing":
        assert len(slices) == 8
    require_same(table)


def test_deduplication_hides_no_record(tmp_path: Path) -> None:
    """The entry of the record that stays went with an update of the other one."""
    table = new_table(tmp_path / "t", small_file_size=0)
    table.upsert(rows(("a", "x", 1, "a")))
    table.create_index("by_email", on="email", home="store")
    write_at_once(
        table,
        rows(("k", "x", 5, "v"), ("m", "x", 1, "m")),
        rows(("k", "y", 1, "v"), ("h", "y", 1, "h")),
    )
    table = open_table(table.location)
    assert table.upsert(rows(("k", "y", 2, "w"))).updated == 1
    assert table.deduplicate().records_removed == 1
    require_same(table)


def test_drops_wait_for_no_commit(table: Table) -> None:
    table.upsert(rows(("a", "x", 1, "a@b")))
    table.create_index("by_email", on="email", unique=True)
    beside = record_index(table).store.url_beside("by_email")
    with opened_table(open_table(table.location)).service("long service", patience=60):
        table.drop_index("by_email")
        assert table.indexes()[0].state is ColumnIndexState.DROPPING
        assert PruningStep.SECONDARY_INDEX not in table.scan(filters="email = 'b'").explain().files.pruned
    assert table.upsert(rows(("b", "x", 1, "a@b"))).inserted == 1
    assert sorted(table.get(where={"email": ["a@b"]})["id"].to_pylist()) == ["a", "b"]
    assert table.create_index("by_email", on="email").state is ColumnIndexState.VALID
    require_same(table)
    table.drop_index("by_email")
    with pytest.raises(IndexNotFoundError):
        open_store(beside)
    assert table.indexes() == ()


def test_undos_bring_no_repeats_back(table: Table) -> None:
    first = table.upsert(rows(("a", "x", 1, "v"), ("b", "y", 1, "w"))).instant
    table.upsert(rows(("b", "y", 2, "v")))
    table.upsert(rows(("b", "y", 3, "u")))
    repeated = table.timeline()[1].time
    table.create_index("by_email", on="email", unique=True)
    last = table.upsert(rows(("c", "x", 1, "c"))).instant
    assert first is not None
    assert last is not None
    for is_dry in (True, False):
        with pytest.raises(RepeatedValueError, match="'v', 'a'"):
            table.restore(repeated, dry_run=is_dry)
    table.rollback(last)
    with pytest.raises(RepeatedValueError, match="the undo would bring") as refused:
        table.rollback("last")
    assert refused.value.remedy == "drop the index first: rli index drop TABLE by_email"
    require_same(table)
    table.restore(first)
    assert table.read()["email"].to_pylist() == ["v", "w"]
    require_same(table)


def _die(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def test_clean_stands_without_the_store(
    table: Table, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    table.upsert(rows(("a", "x", 1, "a@b")))
    table.create_index("by_email", on="email")
    for ts in (2, 3):
        table.upsert(rows(("a", "x", ts, "a@b")))
    with opened_table(open_table(table.location)).service("long service", patience=60):
        table.drop_index("by_email")

    def fail(_: LmdbStore) -> NoReturn:
        raise StoreUnavailableError("the server is gone")

    monkeypatch.setattr(LmdbStore, "drop", fail)
    assert table.clean(keep_commits=1).files_deleted == 1
    assert "for the next clean" in caplog.text
    assert [index.state for index in table.indexes()] == [ColumnIndexState.DROPPING]
    monkeypatch.undo()
    table.clean(keep_commits=1)
    assert table.indexes() == ()
