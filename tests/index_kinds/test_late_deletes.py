"""Deletes with ordering values: events that come late, or twice, lose, with every kind of index."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pytest

import rli
from rli import CommitResult, RecordExistsError, Step, Table
from rli.storage import Storage
from rli.view import paths
from tests.support.clocks import later
from tests.support.index_kinds import KINDS, Kind, every_kind, kinds_without_metadata_table
from tests.support.steps import Once
from tests.support.tables import SCHEMA, assert_nothing_left_over, records, rows_of

pytestmark = pytest.mark.invariant("P42")

Counts: TypeAlias = tuple[int, int, int, int, int]

MARK = "_hoodie_is_deleted"


def counts(result: CommitResult) -> Counts:
    return result.inserted, result.updated, result.moved, result.deleted, result.unchanged


def marked(*rows: Sequence[Any], marks: Iterable[bool | None]) -> pa.Table:
    return records(*rows).append_column(MARK, pa.array(list(marks), pa.bool_()))


def files(table: Table) -> list[str]:
    return [file.name for file in Storage(table.location).list_files(paths.DELETED_KEYS)]


@every_kind
def test_the_greatest_ordering_value_wins(kind: Kind, tmp_path: Path) -> None:
    table = kind.create(tmp_path)
    table.upsert(records(("a", "x", 5, 1.0), ("b", "x", 5, 1.0), ("c", "x", 5, 1.0)))
    assert counts(table.delete(["a", "b", "c", "d"], ordering=[4, 5, 6, 9])) == (0, 0, 0, 2, 2)
    assert [row["id"] for row in rows_of(table)] == ["a"]
    late = records(("a", "x", 4, 2.0), ("b", "x", 4, 2.0), ("c", "x", 5, 2.0), ("d", "x", 8, 2.0), ("e", "x", 1, 2.0))
    assert counts(table.upsert(late)) == (1, 0, 0, 0, 4)
    # Of equal values the later write wins.
    equal = records(("b", "x", 5, 3.0), ("c", "x", 6, 3.0), ("d", "x", 9, 3.0))
    assert counts(table.upsert(equal)) == (3, 0, 0, 0, 0)
    assert counts(table.delete(["b", "c", "d"], ordering=[4, 5, 9])) == (0, 0, 0, 1, 2)
    assert {row["id"]: row["v"] for row in rows_of(table)} == {"a": 1.0, "b": 3.0, "c": 3.0, "e": 2.0}
    assert table.verify_index().agrees
    assert_nothing_left_over(table)


@every_kind
def test_marked_records_are_deletes(kind: Kind, tmp_path: Path) -> None:
    table = kind.create(tmp_path)
    table.upsert(records(("a", "x", 5, 1.0), ("b", "x", 5, 1.0), ("c", "x", 5, 1.0)))
    batch = marked(
        ("a", "x", 4, 2.0), ("b", "x", 5, 2.0), ("c", "x", 6, 2.0), ("d", "x", 9, 2.0), marks=[True, True, None, True]
    )
    assert counts(table.upsert(batch)) == (0, 1, 0, 1, 2)
    assert [(row["id"], row["v"]) for row in rows_of(table)] == [("a", 1.0), ("c", 2.0)]
    # Records without marks are no deletes.
    assert counts(table.upsert(records(("b", "x", 4, 3.0), ("d", "x", 8, 3.0), ("e", "x", 1, 3.0)))) == (1, 0, 0, 0, 2)
    assert table.schema is not None
    assert table.schema.field(MARK).type == pa.bool_()
    assert table.verify_index().agrees


@every_kind
def test_marked_deletes_meet_concurrent_inserts(kind: Kind, tmp_path: Path) -> None:
    table = kind.create(tmp_path)
    table.upsert(marked(("a", "x", 5, 1.0), marks=[None]))
    other = rli.open_table(table.location)
    # The key is unknown when the delete looks it up, and the record that comes meanwhile is older.
    insert = Once(Step.WRITTEN, lambda: other.upsert(records(("m", "x", 4, 1.0))))
    done = table.upsert(marked(("m", "x", 5, 1.0), marks=[True]), on_step=insert)
    assert (counts(done), done.attempts) == ((0, 0, 0, 1, 0), 2)
    assert [row["id"] for row in rows_of(table)] == ["a"]


@every_kind
def test_the_first_write_holds_deletes(kind: Kind, tmp_path: Path) -> None:
    table = kind.create(tmp_path)
    assert counts(table.upsert(marked(("a", "x", 5, 1.0), ("b", "x", 5, 1.0), marks=[True, False]))) == (1, 0, 0, 0, 1)
    assert counts(table.upsert(records(("a", "x", 4, 1.0)))) == (0, 0, 0, 0, 1)
    empty = kind.create(tmp_path / "empty")
    assert counts(empty.delete(["a"], ordering=[5])) == (0, 0, 0, 0, 1)
    assert counts(empty.upsert(records(("a", "x", 4, 1.0), ("b", "x", 4, 1.0)))) == (1, 0, 0, 0, 1)
    assert [row["id"] for row in rows_of(empty)] == ["b"]


@every_kind
def test_inserts_lose_against_deletes(kind: Kind, tmp_path: Path) -> None:
    table = kind.create(tmp_path)
    table.delete(["a"], ordering=[5])
    with pytest.raises(RecordExistsError, match=r"older than a delete of their key: count=1 keys=\['a'\]"):
        table.insert(records(("a", "x", 4, 1.0)), on_existing="fail")
    assert counts(table.insert(records(("a", "x", 4, 1.0), ("b", "x", 1, 1.0)))) == (1, 0, 0, 0, 1)
    assert counts(table.insert(records(("a", "x", 5, 1.0)), on_existing="fail")) == (1, 0, 0, 0, 0)


@every_kind
def test_a_repeated_delete_commits_nothing(kind: Kind, tmp_path: Path) -> None:
    table = kind.create(tmp_path)
    first = table.delete(["a", "b"], ordering=[5, 6])
    assert first.instant is not None
    assert table.delete(["b", "a"], ordering=[6, 4]).instant is None
    assert table.delete(["a"], ordering=[7]).instant is not None
    assert counts(table.upsert(records(("a", "x", 6, 1.0)))) == (0, 0, 0, 0, 1)


@every_kind
def test_undone_deletes_are_forgotten(kind: Kind, tmp_path: Path) -> None:
    table = kind.create(tmp_path)
    table.upsert(records(("a", "x", 5, 1.0)))
    before = table.timeline()[-1].time
    table.delete(["a", "b"], ordering=[7, 7])
    table.rollback("last")
    assert files(table) == []
    assert counts(table.upsert(records(("a", "x", 6, 1.0), ("b", "x", 6, 1.0)))) == (1, 1, 0, 0, 0)
    table.delete(["a"], ordering=[9])
    table.delete(["c"], ordering=[9])
    table.restore(before)
    assert files(table) == []
    assert counts(table.upsert(records(("a", "x", 6, 2.0), ("c", "x", 6, 1.0)))) == (1, 1, 0, 0, 0)


@every_kind
def test_deletes_of_other_writers_are_conflicts(kind: Kind, tmp_path: Path) -> None:
    table = kind.create(tmp_path)
    other = rli.open_table(table.location)
    delete = Once(Step.WRITTEN, lambda: other.delete(["a"], ordering=[5]))
    done = table.upsert(records(("a", "x", 4, 1.0), ("b", "x", 4, 1.0)), on_step=delete)
    assert (counts(done), done.attempts) == ((1, 0, 0, 0, 1), 2)
    undo = Once(Step.WRITTEN, lambda: other.rollback("last"))
    table.delete(["c"], ordering=[5])
    done = table.upsert(records(("c", "x", 4, 1.0), ("d", "x", 4, 1.0)), on_step=undo)
    assert (counts(done), done.attempts) == ((2, 0, 0, 0, 0), 2)
    insert = Once(Step.WRITTEN, lambda: other.upsert(records(("e", "x", 6, 1.0))))
    assert counts(table.delete(["e"], ordering=[5], on_step=insert)) == (0, 0, 0, 0, 1)
    assert [row["id"] for row in rows_of(table)] == ["b", "c", "d", "e"]


@every_kind
def test_a_delete_without_ordering_is_final(kind: Kind, tmp_path: Path) -> None:
    table = kind.create(tmp_path)
    table.upsert(records(("a", "x", 5, 1.0)))
    assert counts(table.delete(["a"])) == (0, 0, 0, 1, 0)
    assert files(table) == []
    assert counts(table.upsert(records(("a", "x", 1, 1.0)))) == (1, 0, 0, 0, 0)


@kinds_without_metadata_table
def test_deleted_keys_outlive_the_archive(kind: Kind, tmp_path: Path) -> None:
    table = kind.create(tmp_path, maintenance=False)
    for number in range(12):
        table.delete([f"k{number}", "often"], ordering=[50, 20 - number])
    table.rollback("last")
    table.upsert(records(("z", "x", 1, 1.0)))
    # The second one merges the files of commits that the first one has archived.
    for _ in range(2):
        table.clean(keep_commits=1)
        table.archive(keep_commits=1)
        table.upsert(records(("z", "x", 1, 2.0)))
    assert len(files(table)) == 1
    late = records(*((f"k{number}", "x", 49, 1.0) for number in range(12)), ("often", "x", 19, 1.0))
    assert counts(table.upsert(late)) == (1, 0, 0, 0, 12)
    assert [row["id"] for row in rows_of(table)] == ["k11", "z"]


def test_a_reader_finds_merged_files(tmp_path: Path) -> None:
    table = KINDS["record"].create(tmp_path, maintenance=False)
    for number in range(12):
        table.delete([f"k{number}"], ordering=[50])
    table.upsert(records(("z", "x", 1, 1.0)))
    other = rli.open_table(table.location)

    def tidy_up() -> None:
        for _ in range(2):
            other.archive(keep_commits=1)
            other.upsert(records(("y", "x", 1, 2.0)))

    late = records(*((f"k{number}", "x", 49, 1.0) for number in range(12)))
    assert counts(table.upsert(late, on_step=Once(Step.REQUESTED, tidy_up))) == (0, 0, 0, 0, 12)


@pytest.mark.parametrize("keep", ["off", "36h"])
def test_deleted_keys_are_kept_until_expiry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep: str) -> None:
    table = KINDS["record"].create(tmp_path)
    assert table.settings.tombstones == 7 * 86_400
    table.delete(["a", "b", "c"], ordering=[5, 5, 5])
    later(monkeypatch, timedelta(days=6))
    assert counts(table.upsert(records(("a", "x", 4, 1.0)))) == (0, 0, 0, 0, 1)
    table.set_tombstones(keep)
    assert counts(rli.open_table(table.location).upsert(records(("a", "x", 4, 1.0)))) == (1, 0, 0, 0, 0)
    table.set_tombstones("7d")
    assert counts(table.upsert(records(("b", "x", 4, 1.0)))) == (0, 0, 0, 0, 1)
    later(monkeypatch, timedelta(days=2))
    assert counts(table.upsert(records(("b", "x", 4, 1.0)))) == (1, 0, 0, 0, 0)


def test_late_deletes_lose_without_tombstones(tmp_path: Path) -> None:
    table = KINDS["record"].create(tmp_path, tombstones="off")
    table.upsert(records(("a", "x", 5, 1.0), ("b", "x", 5, 1.0)))
    assert counts(table.delete(["a", "b"], ordering=[4, 6])) == (0, 0, 0, 1, 1)
    assert files(table) == []
    assert counts(table.upsert(records(("b", "x", 5, 1.0)))) == (1, 0, 0, 0, 0)


def test_marked_record_is_deleted_in_place(tmp_path: Path) -> None:
    table = KINDS["global-simple"].create(tmp_path)
    table.upsert(records(("a", "x", 5, 1.0)))
    assert counts(table.upsert(marked(("a", "y", 6, 1.0), marks=[True]))) == (0, 0, 0, 1, 0)
    assert counts(table.upsert(records(("a", "z", 5, 1.0)))) == (0, 0, 0, 0, 1)


def test_deletes_are_scoped_to_partition(tmp_path: Path) -> None:
    table = KINDS["simple"].create(tmp_path)
    table.upsert(records(("a", "x", 5, 1.0), ("a", "y", 5, 1.0)))
    assert counts(table.upsert(marked(("a", "x", 6, 1.0), marks=[True]))) == (0, 0, 0, 1, 0)
    assert counts(table.upsert(records(("a", "x", 5, 1.0), ("a", "y", 6, 2.0)))) == (0, 1, 0, 0, 1)
    # Keys alone are deleted in every partition, known or not.
    assert counts(table.delete(["a"], ordering=[7])) == (0, 0, 0, 1, 0)
    assert counts(table.upsert(records(("a", "x", 6, 1.0), ("a", "new", 6, 1.0)))) == (0, 0, 0, 0, 2)


def test_deleted_keys_stay_with_another_index(tmp_path: Path) -> None:
    table = KINDS["record"].create(tmp_path)
    table.upsert(records(("a", "x", 5, 1.0)))
    table.delete(["a"], ordering=[6])
    table.migrate_index("bloom:")
    assert counts(table.upsert(records(("a", "x", 5, 1.0)))) == (0, 0, 0, 0, 1)
    table.migrate_index(f"lmdb://{tmp_path}/other")
    table.bootstrap_index()
    assert counts(table.upsert(records(("a", "x", 5, 1.0)))) == (0, 0, 0, 0, 1)


@every_kind
@pytest.mark.parametrize("by_mark", [True, False], ids=["marks", "keys"])
def test_event_order_does_not_matter(kind: Kind, tmp_path: Path, by_mark: bool) -> None:  # noqa: FBT001
    chance = random.Random(f"{kind.url} {by_mark}")
    table, newest = kind.create(tmp_path), dict[str, tuple[int, bool, float]]()
    events = [(f"k{chance.randrange(60)}", order, chance.random() < 0.3, chance.random()) for order in range(400)]
    # Each event comes once or twice, up to 100 events too late.
    sent = sorted((event[1] + chance.randrange(100), event) for event in events + chance.sample(events, 150))
    for start in range(0, len(sent), 50):
        batch = [event for _, event in sent[start : start + 50]]
        for key, order, is_deleted, value in batch:
            if order >= newest.get(key, (-1, False, 0.0))[0]:
                newest[key] = order, is_deleted, value
        if by_mark:
            rows = [(key, "x", order, value) for key, order, _, value in batch]
            table.upsert(marked(*rows, marks=[is_deleted for _, _, is_deleted, _ in batch]))
        else:
            table.upsert(records(*((key, "x", order, value) for key, order, gone, value in batch if not gone)))
            gone = [(key, order) for key, order, is_deleted, _ in batch if is_deleted]
            table.delete(pa.table({"id": [key for key, _ in gone], "ts": [order for _, order in gone]}))
        live = {key: (order, value) for key, (order, is_deleted, value) in newest.items() if not is_deleted}
        assert {row["id"]: (row["ts"], row["v"]) for row in rows_of(table)} == live
    assert table.verify_index().agrees


def test_other_ordering_values_are_refused(tmp_path: Path) -> None:
    table = KINDS["record"].create(tmp_path)
    table.upsert(records(("a", "x", 5, 1.0)))
    rows = pa.table({"id": ["a"], "at": [6]})
    assert counts(table.delete(rows, ordering="at")) == (0, 0, 0, 1, 0)
    with pytest.raises(rli.SchemaError, match="the ordering column is missing: column=when"):
        table.delete(rows, ordering="when")
    with pytest.raises(rli.InvalidInputError, match="not one ordering value for each key: keys=1 values=2"):
        table.delete(["a"], ordering=[1, 2])
    with pytest.raises(rli.SchemaError, match="an ordering value is missing: column=ts row=0"):
        table.delete(pa.table({"id": ["a"], "ts": pa.array([None], pa.int64())}))
    for values in (["7"], [7.5]):
        with pytest.raises(rli.SchemaError, match="column=ts"):
            table.delete(["b"], ordering=values)
    table.delete(["b"], ordering=[7.0])
    assert counts(table.upsert(records(("b", "x", 6, 1.0)))) == (0, 0, 0, 0, 1)
    empty = KINDS["record"].create(tmp_path / "empty")
    empty.delete(["a"], ordering=["7"])
    with pytest.raises(rli.SchemaError, match="cannot be compared"):
        empty.upsert(records(("a", "x", 6, 1.0)))
    plain = rli.create_table(tmp_path / "plain", record_key="id", index="simple:")
    with pytest.raises(rli.InvalidInputError, match="no ordering column"):
        plain.delete(["a"], ordering=[1])


@pytest.mark.parametrize("name", ["_hoodie_foo", "_hoodie_record_key", "_HOODIE_IS_DELETED"])
def test_reserved_columns_are_refused(tmp_path: Path, name: str) -> None:
    table = KINDS["record"].create(tmp_path)
    batch = records(("a", "x", 5, 1.0)).append_column(name, pa.array(["k"]))
    for write in (table.upsert, table.insert):
        with pytest.raises(rli.SchemaError, match=f"names that Hudi reserves: columns=\\['{name}'\\]"):
            write(batch)
    with pytest.raises(rli.SchemaError, match="marks deletes is not boolean"):
        table.upsert(records(("a", "x", 5, 1.0)).append_column(MARK, pa.array(["true"])))
    with pytest.raises(rli.InvalidInputError, match="marked as deleted"):
        table.insert(marked(("a", "x", 5, 1.0), marks=[True]))
    assert table.timeline() == ()
    assert SCHEMA.names == records().schema.names
