"""Deletes and updates by a condition act on exactly the records for which it is true, with every kind of index."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rli import (
    ConflictError,
    InvalidInputError,
    SchemaError,
    Scope,
    Step,
    Table,
    TableType,
    TransactionMismatchError,
    create_table,
    open_table,
)
from tests.support.index_kinds import Kind, every_kind, stored_rows
from tests.support.soak import cases
from tests.support.steps import Once
from tests.support.tables import assert_nothing_left_over, check_stored, records, rows_of

pytestmark = pytest.mark.invariant("P47")

Row: TypeAlias = tuple[str, str, int, float | None]

WHERE: Final[dict[str, Callable[[Row], bool]]] = {
    "city = 'x'": lambda row: row[1] == "x",
    "v * 2 > ts": lambda row: row[3] is not None and row[3] * 2 > row[2],
    "id in ('a', 'x,y:z', 'nobody')": lambda row: row[0] in ("a", "x,y:z"),
    "_hoodie_record_key = '7' and ts > 1": lambda row: row[0] == "7" and row[2] > 1,
    "v is null or not (city in ('x', 'y'))": lambda row: row[3] is None or row[1] not in "xy",
    "id like '%7' and city || id != 'x7'": lambda row: row[0].endswith("7") and row[1] + row[0] != "x7",
    "not (v > 1)": lambda row: row[3] is not None and not row[3] > 1,
    "true": lambda _: True,
    "ts > 100": lambda _: False,
}
SET: Final[dict[str, Callable[[Row], Row]]] = {
    "v": lambda row: (*row[:3], None if row[3] is None else row[3] * 2 + row[2]),
    "ts": lambda row: (*row[:2], row[2] - 1, row[3]),
}
VALUES: Final = {"v": "v * 2 + ts", "ts": "ts - 1"}

KEYS: Final = ["a", "7", "007", "x,y:z", "é"]
ROWS = st.lists(
    st.tuples(st.sampled_from(KEYS), st.sampled_from("xyz"), st.integers(1, 4), st.sampled_from([None, 0.5, 1.5, 7.0])),
    min_size=1,
    max_size=9,
    unique_by=lambda row: row[0],
)
STEPS = st.lists(
    st.one_of(
        ROWS,
        st.tuples(st.just("delete"), st.sampled_from([*WHERE])),
        st.tuples(st.sampled_from([*SET]), st.sampled_from([*WHERE])),
        st.just("rollback"),
    ),
    min_size=3,
    max_size=8,
)


@every_kind
def test_exactly_the_matching_records(kind: Kind) -> None:
    @settings(max_examples=cases(5), deadline=None)
    @given(steps=STEPS)
    def check(steps: list[object]) -> None:
        with TemporaryDirectory(prefix="rli-where-") as folder, kind.create(Path(folder), small_file_size=0) as table:
            before: list[tuple[str, frozenset[Row]]] = []
            for step in steps:
                stored = stored_rows(table) if before else frozenset[Row]()
                instant = do(table, step, stored, before)
                if instant is not None:
                    before.append((instant, stored))
            assert table.index.verify().agrees
            check_stored(table)

    check()


def do(table: Table, step: object, stored: frozenset[Row], before: list[tuple[str, frozenset[Row]]]) -> str | None:
    """One step, compared with the model; returns the instant of its commit."""
    if step == "rollback":
        if before:
            instant, rows = before.pop()
            table.rollback(instant)
            assert stored_rows(table) == rows
        return None
    if isinstance(step, list):
        return table.upsert(records(*step)).instant
    assert isinstance(step, tuple)
    verb, where = step
    matching = frozenset(row for row in stored if WHERE[where](row))
    if verb == "delete":
        done = table.delete_where(where)
        assert (done.deleted, done.unchanged, done.instant is None) == (len(matching), 0, not matching)
        assert stored_rows(table) == stored - matching
        if done.receipt is not None:
            assert sorted(done.receipt.keys) == sorted(row[0] for row in matching)
        return done.instant
    done = table.update_where(where, {verb: VALUES[verb]})
    assert done.updated + done.unchanged == len(matching)
    assert stored_rows(table) == (stored - matching) | frozenset(map(SET[verb], matching))
    return done.instant


@every_kind
def test_partition_values_move_records(kind: Kind, tmp_path: Path) -> None:
    with kind.create(tmp_path) as table:
        table.upsert(records(("a", "x", 1, 1.0), ("b", "x", 2, 2.0), ("c", "y", 3, 3.0)))
        if kind.scope is Scope.PARTITION:
            with pytest.raises(InvalidInputError, match="unique in its partition"):
                table.update_where("v < 3", {"city": "city || 'z'"})
            return
        done = table.update_where("v < 3", {"city": "case when id = 'a' then 'y' else city end", "v": "v + 1"})
        assert (done.moved, done.updated) == (1, 1)
        assert stored_rows(table) == {("a", "y", 1, 2.0), ("b", "x", 2, 3.0), ("c", "y", 3, 3.0)}
        check_stored(table)


@every_kind
def test_a_write_decides_anew(kind: Kind, tmp_path: Path) -> None:
    with kind.create(tmp_path) as table, open_table(table.location) as other:
        table.upsert(records(("a", "x", 1, 1.0), ("b", "x", 1, 5.0), ("c", "y", 1, 1.0)))
        changed = Once(Step.WRITTEN, lambda: other.upsert(records(("a", "x", 2, 9.0), ("b", "x", 2, 1.0))))
        done = table.delete_where("v < 2 and city = 'x'", on_step=changed)
        assert (done.deleted, done.attempts) == (1, 2)
        assert stored_rows(table) == {("a", "x", 2, 9.0), ("c", "y", 1, 1.0)}
        changed = Once(Step.TAGGED, lambda: other.delete(["a"]))
        done = table.update_where("v > 5", {"v": "0.0"}, on_step=changed)
        assert (done.updated, done.instant) == (0, None) or done.attempts == 2
        assert stored_rows(table) == {("c", "y", 1, 1.0)}
        with pytest.raises(ConflictError):
            table.update_where("id = 'c'", {"v": "v + 1"}, attempts=1, on_step=lambda step: again(other, step))
        check_stored(table)


def again(other: Table, step: Step) -> None:
    if step is Step.WRITTEN:
        other.update_where("id = 'c'", {"v": "v + 10"})


@every_kind
def test_inserts_meanwhile_stay(kind: Kind, tmp_path: Path) -> None:
    with kind.create(tmp_path, small_file_size=0) as table, open_table(table.location) as other:
        table.upsert(records(("a", "x", 1, 1.0), ("b", "y", 1, 1.0)))
        came = Once(Step.WRITTEN, lambda: other.upsert(records(("n", "z", 1, 1.0))))
        assert table.delete_where("v = 1", on_step=came).attempts == 1
        assert stored_rows(table) == {("n", "z", 1, 1.0)}
        check_stored(table)


@every_kind
def test_repeats_return_the_first_result(kind: Kind, tmp_path: Path) -> None:
    with kind.create(tmp_path) as table:
        table.upsert(records(("a", "x", 1, 1.0), ("b", "y", 1, 1.0)))
        first = table.delete_where("city = 'x'", transaction=("gdpr", 1))
        again = table.delete_where("city = 'x'", transaction=("gdpr", 1))
        assert (again, again.repeated, again.receipt) == (first, True, first.receipt)
        with pytest.raises(TransactionMismatchError):
            table.delete_where("city = 'y'", transaction=("gdpr", 1))
        with pytest.raises(TransactionMismatchError):
            table.delete(["b"], transaction=("gdpr", 1))
        table.update_where("true", {"v": "v + 1"}, transaction=("gdpr", 2))
        table.update_where("true", {"v": "v + 1"}, transaction=("gdpr", 2))
        with pytest.raises(TransactionMismatchError):
            table.update_where("true", {"v": "v + 2"}, transaction=("gdpr", 2))
        assert stored_rows(table) == {("b", "y", 1, 2.0)}


@every_kind
def test_dry_runs_tell_the_counts(kind: Kind, tmp_path: Path) -> None:
    with kind.create(tmp_path) as table:
        table.upsert(records(("a", "x", 1, 1.0), ("b", "y", 1, 1.0), ("c", "y", 1, 3.0)))
        before = table.timeline()
        gone = table.delete_where("v < 2", dry_run=True)
        assert (gone.deleted, gone.dry_run, gone.receipt) == (2, True, None)
        assert len(gone.files_to_rewrite) + gone.files_appended == 2
        changed = table.update_where("v < 2", {"v": "0.5"}, dry_run=True)
        assert (changed.updated, changed.instant) == (2, None)
        assert (table.timeline(), table.read().num_rows) == (before, 3)
        assert_nothing_left_over(table)


@every_kind
def test_receipt_names_the_files_left(kind: Kind, tmp_path: Path) -> None:
    with kind.create(tmp_path) as table:
        table.upsert(records(("a", "x", 1, 1.0), ("b", "x", 1, 2.0), ("c", "y", 1, 3.0)))
        saved = table.savepoint()
        table.upsert(records(("a", "x", 2, 2.0)))
        held = holding(table, "a")
        receipt = table.delete_where("id = 'a'").receipt
        assert receipt is not None
        assert (receipt.keys, receipt.has_all_keys, receipt.savepoints) == (("a",), True, (saved,))
        assert held == {Path(table.location, name) for name in receipt.files}
        if kind.table_type is TableType.MERGE_ON_READ:
            # Until then, the record is in the base file below the log file that deletes it.
            table.compact()
        table.upsert(records(("c", "y", 5, 5.0), ("d", "x", 5, 5.0)))
        table.delete_savepoint(saved)
        cleaned = table.clean(keep_commits=1)
        assert cleaned.earliest_kept is not None
        assert cleaned.earliest_kept > receipt.held_until
        assert holding(table, "a") == set()


def holding(table: Table, key: str) -> set[Path]:
    """The base files on the disk that hold a key, and the log files of their file groups."""
    found = set()
    for path in Path(table.location).rglob("*.parquet"):
        if ".hoodie" not in path.parts:
            keys = pa.parquet.read_table(path, columns=["_hoodie_record_key"], partitioning=None).column(0)
            if key in keys.to_pylist():
                found |= {path, *path.parent.glob(f".{path.name.partition('_')[0]}_*.log.*")}
    return found


def test_only_candidates_are_read(tmp_path: Path) -> None:
    with create_table(tmp_path / "t", record_key="id", partition_by="city", index=f"lmdb://{tmp_path}/index") as table:
        table.upsert(records(*((f"k{n}", "xyz"[n % 3], n, float(n)) for n in range(30))))
        files = {path.parent.name: path for path in Path(table.location).glob("*/*.parquet")}
        for name in "xz":
            files[name].write_bytes(b"PAR1 this is no file of Parquet PAR1")
        # By the partition, and by the index.
        assert table.delete_where("city = 'y' and v > 20").deleted == 3
        assert table.update_where("id = 'k1'", {"v": "100.0"}).updated == 1
        assert table.delete_where("_hoodie_record_key in ('k4', 'nobody') and v >= 0").deleted == 1


def test_a_condition_as_a_full_scan() -> None:
    values = [None, float("nan"), 0.0, -0.0, 1.5, -1.5, float("inf")]
    rows = pa.table(
        {"id": [f"k{n}" for n in range(42)], "f": values * 6, "s": ["a_b", "a%b", "axb", None, "", "é"] * 7}
    )
    for where, expected in [
        ("f = 0", pc.equal(rows["f"], 0.0)),
        ("f != f", pc.is_nan(rows["f"])),
        ("not (f < 1)", pc.invert(pc.less(rows["f"], 1.0))),
        ("s like 'a\\_b'", pc.equal(rows["s"], "a_b")),
        ("s like 'a!%b' escape '!'", pc.equal(rows["s"], "a%b")),
        ("s like 'a_b'", pc.is_in(rows["s"], pa.array(["a_b", "a%b", "axb"]))),
        ("coalesce(s, '') = ''", pc.equal(pc.fill_null(rows["s"], ""), "")),
    ]:
        with TemporaryDirectory() as folder, create_table(Path(folder, "t"), record_key="id", index="simple:") as table:
            table.upsert(rows)
            chosen = pc.fill_null(expected, False)
            assert table.read(filters=where).num_rows == pc.sum(chosen).as_py()
            assert table.delete_where(where).deleted == pc.sum(chosen).as_py()
            left = rows.filter(pc.invert(chosen))
            assert [row["id"] for row in rows_of(table)] == sorted(left["id"].to_pylist())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"id": "'x'"}, "keeps its key"),
        ({"_hoodie_record_key": "'x'"}, "own"),
        ({"nobody": "1"}, "no such column"),
        ({"v": "'x'"}, "does not fit"),
        ({"v": "ts + "}, "not understood"),
        ({"city": "'y'", "ts": "ts + 1"}, "one after the other"),
        ({}, "no columns"),
        ({"v": 1}, "no columns"),
        ({"ts": "9223372036854775807 + ts"}, "cannot be computed"),
        ({"ts": "null"}, "ordering value is missing"),
    ],
)
def test_refused_updates_write_nothing(tmp_path: Path, values: dict[str, str], message: str) -> None:
    with create_table(
        tmp_path / "t", record_key="id", partition_by="city", ordering="ts", index="global-simple:"
    ) as table:
        table.upsert(records(("a", "x", 1, 1.0)))
        before = table.timeline()
        with pytest.raises((InvalidInputError, SchemaError), match=message):
            table.update_where("true", values)
        assert (table.timeline(), stored_rows(table)) == (before, frozenset([("a", "x", 1, 1.0)]))
        assert_nothing_left_over(table)


@pytest.mark.parametrize("where", [None, "", "city =", "nobody = 1", "v", "cast(id as bigint) > 1"])
def test_refused_conditions_delete_nothing(tmp_path: Path, where: str | None) -> None:
    with create_table(tmp_path / "t", record_key="id", partition_by="city", index="simple:") as table:
        table.upsert(records(("a", "x", 1, 1.0)))
        with pytest.raises((InvalidInputError, SchemaError)):
            table.delete_where(where)
        assert stored_rows(table) == {("a", "x", 1, 1.0)}
        assert_nothing_left_over(table)


def test_an_empty_table(tmp_path: Path) -> None:
    with create_table(tmp_path / "t", record_key="id", index="simple:") as table:
        assert table.delete_where("nobody = 1").instant is None
        assert table.update_where("true", {"nobody": "1"}).instant is None


def test_deleted_keys_are_forgotten(tmp_path: Path) -> None:
    with create_table(tmp_path / "t", record_key="id", ordering="ts", index=f"lmdb://{tmp_path}/index") as table:
        table.upsert(records(("a", "x", 9, 1.0)))
        table.delete_where("id = 'a'")
        assert table.upsert(records(("a", "x", 1, 1.0))).inserted == 1


def test_tuples_and_expressions_as_conditions(tmp_path: Path) -> None:
    with create_table(tmp_path / "t", record_key="id", index="simple:") as table:
        table.upsert(records(*((f"k{n}", "x", n, float(n)) for n in range(40))))
        assert table.delete_where([("v", "<", 5), ("ts", "!=", 2)]).deleted == 4
        many = pc.field("ts").isin(pa.array(range(10, 35)))
        assert table.delete_where(many, transaction=("job", 1)).deleted == 25
        assert table.delete_where(many, transaction=("job", 1)).repeated
        # pyarrow prints both in the same way.
        other = pc.field("ts").isin(pa.array([*range(10, 20), 99, *range(21, 35)]))
        with pytest.raises(TransactionMismatchError):
            table.delete_where(other, transaction=("job", 1))
