"""An overwrite replaces whole partitions, with every kind of index, on both types of table."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Barrier, Thread
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rli import (
    ConflictError,
    InvalidInputError,
    PartitionChangeError,
    Scope,
    Step,
    Table,
    TransactionMismatchError,
    open_table,
)
from rli.hudi.consistent_hashing import Ring
from rli.index.consistent_bucket.rings import stored_ring
from rli.table.table import opened_table
from tests.support.index_kinds import KINDS, MERGE_ON_READ, Kind, every_kind, stored_rows
from tests.support.soak import cases
from tests.support.steps import Once
from tests.support.tables import assert_nothing_left_over, check_stored, records

pytestmark = pytest.mark.invariant("P51")

Row: TypeAlias = tuple[str, str, int, float]

ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "7", "007", "x,y:z", "é"]),
        st.sampled_from("xyz"),
        st.integers(1, 4),
        st.sampled_from([0.5, 1.5]),
    ),
    max_size=6,
    unique_by=lambda row: row[0],
)
NAMED = st.one_of(st.just("all"), st.lists(st.sampled_from(["x", "y", "unknown"]), max_size=2))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("upsert"), ROWS.filter(bool)),
        st.tuples(st.just("overwrite"), ROWS, NAMED),
        st.tuples(st.just("drop"), st.lists(st.sampled_from("xyz"), min_size=1, max_size=2)),
        st.tuples(st.just("cluster")),
        st.tuples(st.just("rollback")),
    ),
    min_size=3,
    max_size=8,
)


@every_kind
def test_partitions_hold_what_was_written(kind: Kind) -> None:
    @settings(max_examples=cases(5), deadline=None)
    @given(steps=STEPS)
    def check(steps: list[tuple[object, ...]]) -> None:
        with TemporaryDirectory(prefix="rli-over-") as folder, kind.create(Path(folder), small_file_size=0) as table:
            before: list[tuple[str, frozenset[Row]]] = []
            for step in steps:
                stored = stored_rows(table) if table.schema is not None else frozenset[Row]()
                instant = do(table, kind, step, stored, before)
                if instant is not None:
                    before.append((instant, stored))
                check_changes(table, stored)
            assert table.index.verify().agrees
            check_stored(table)

    check()


def do(
    table: Table,
    kind: Kind,
    step: tuple[object, ...],
    stored: frozenset[Row],
    before: list[tuple[str, frozenset[Row]]],
) -> str | None:
    """One step, compared with the model; returns the instant of its commit."""
    match step:
        case ("rollback",):
            if before:
                instant, rows = before.pop()
                table.rollback(instant)
                assert (stored_rows(table) if rows else table.read().num_rows) == (rows or 0)
            return None
        case ("cluster",):
            cluster(table, kind)
            return None
        case ("upsert", list(batch)):
            return table.upsert(records(*batch)).instant
        case ("drop", list(paths)):
            gone = frozenset(row for row in stored if row[1] in paths)
            require_refused_if_absent(table, paths)
            done = table.drop_partitions(paths, missing_ok=True)
            assert done.deleted == len(gone)
            # A file group that all records have left goes, too.
            assert done.instant is not None or not gone
            if stored:
                assert stored_rows(table) == stored - gone
            return done.instant
        case ("overwrite", list(batch), named):
            if not batch and not named:
                with pytest.raises(InvalidInputError, match="nothing says what to replace"):
                    table.overwrite_partitions(records(), partitions=[])
                return None
            foretold = table.overwrite_partitions(records(*batch), partitions=named, dry_run=True)  # type: ignore[arg-type]
            done = table.overwrite_partitions(records(*batch), partitions=named)  # type: ignore[arg-type]
            assert counts(foretold) == counts(done)
            after, expected = overwritten(kind, stored, batch, named)
            assert counts(done) == expected
            if done.instant is not None:
                assert stored_rows(table) == after
            return done.instant
    raise AssertionError(step)


def cluster(table: Table, kind: Kind) -> None:
    # File groups that are buckets are not put together.
    if kind.can_cluster:
        table.cluster()


def require_refused_if_absent(table: Table, paths: list[str]) -> None:
    if not {group.partition_path for group in opened_table(table).snapshot().slices}.issuperset(paths):
        with pytest.raises(InvalidInputError, match="no such partitions"):
            table.drop_partitions(paths)


def counts(done: object) -> tuple[int, ...]:
    return tuple(getattr(done, name) for name in ("inserted", "updated", "moved", "deleted", "unchanged"))


def overwritten(
    kind: Kind, stored: frozenset[Row], batch: list[Row], named: object
) -> tuple[frozenset[Row], tuple[int, ...]]:
    """What a table holds afterwards, and the counts."""
    replaced = {row[1] for row in batch} | {row[1] for row in stored if named == "all" or row[1] in str(named)}
    keys = {row[0] for row in batch}
    cells = {row[:2] for row in batch}
    known = {row[:2] for row in stored}
    is_global = kind.scope is Scope.GLOBAL
    held = {row[0] for row in stored}
    ends = {row for row in stored if row[1] in replaced or (is_global and row[0] in keys)}
    updated = len(cells & known)
    moved = sum(cell[0] in held and cell not in known for cell in cells) if is_global else 0
    deleted = sum(row[1] in replaced and row[:2] not in cells and not (is_global and row[0] in keys) for row in stored)
    return (stored - ends) | frozenset(batch), (len(batch) - updated - moved, updated, moved, deleted, 0)


def check_changes(table: Table, stored: frozenset[Row]) -> None:
    """The changes of the last commit lead from the state before it to the present one."""
    history = [entry for entry in table.history() if entry.operation and entry.operation != "CLUSTER"]
    if len(history) < 2 or table.history()[-1].time != history[-1].time:
        return
    told = table.changes(since=history[-2].time, images="both").read_all()
    rows = [(tuple(row[name] for name in ("id", "city", "ts", "v")), row["_change_type"]) for row in told.to_pylist()]
    gone = {row for row, kind in rows if kind in ("delete", "update_before")}
    came = {row for row, kind in rows if kind in ("insert", "update_after")}
    assert (stored - gone) | came == stored_rows(table)


@pytest.mark.parametrize("kind", [KINDS["consistent-bucket"], MERGE_ON_READ["consistent-bucket-logs"]])
@pytest.mark.parametrize("overwrites", [True, False])
def test_replaced_buckets_keep_their_hashes(kind: Kind, tmp_path: Path, overwrites: bool) -> None:  # noqa: FBT001
    with kind.create(tmp_path) as table:
        table.upsert(records(*((key, "x", 1, 1.0) for key in "abcdefgh"), ("a", "y", 1, 1.0)))
        before, rings = ring(table), sorted(Path(table.location).rglob("*.hashing_meta"))
        replaced = opened_table(table).snapshot().slices.of_partitions(["x"])
        undone = table.overwrite_partitions(records(("n", "x", 1, 1.0))) if overwrites else table.drop_partitions(["x"])
        assert ring(table).values.tolist() == before.values.tolist()
        assert not {one.group.file_id for one in replaced} & set(ring(table).file_ids)
        table.rollback(undone.instant or "")
        assert (ring(table), sorted(Path(table.location).rglob("*.hashing_meta"))) == (before, rings)
        table.drop_partitions(["x"])
        table.upsert(records(("a", "x", 2, 2.0)))
        assert stored_rows(table) == {("a", "x", 2, 2.0), ("a", "y", 1, 1.0)}
        check_stored(table)


def ring(table: Table) -> Ring:
    found = stored_ring(opened_table(table).snapshot(), "x")
    assert found is not None
    return found


@every_kind
@pytest.mark.parametrize("partition", ["x", "empty"])
def test_two_overwrites_do_not_add_up(kind: Kind, tmp_path: Path, partition: str) -> None:
    with kind.create(tmp_path) as table, open_table(table.location) as other:
        table.upsert(records(("a", "x", 1, 1.0), ("b", "y", 1, 1.0)))
        first = Once(Step.WRITTEN, lambda: other.overwrite_partitions(records(("m", partition, 1, 1.0))))
        done = table.overwrite_partitions(records(("n", partition, 1, 1.0)), on_step=first)
        assert (done.attempts, done.deleted) == (2, 1)
        assert {row for row in stored_rows(table) if row[1] == partition} == {("n", partition, 1, 1.0)}
        again = Once(Step.WRITTEN, lambda: other.overwrite_partitions(records(("o", partition, 1, 1.0))))
        with pytest.raises(ConflictError):
            table.overwrite_partitions(records(("p", partition, 1, 1.0)), attempts=1, on_step=again)
        check_stored(table)


@every_kind
def test_what_comes_meanwhile_is_replaced(kind: Kind, tmp_path: Path) -> None:
    with kind.create(tmp_path, small_file_size=0) as table, open_table(table.location) as other:
        table.upsert(records(("a", "x", 1, 1.0), ("b", "y", 1, 1.0)))
        came = Once(Step.WRITTEN, lambda: other.insert(records(("n", "x", 9, 9.0))))
        done = table.overwrite_partitions(records(("c", "x", 1, 1.0)), on_step=came)
        assert (done.attempts, done.deleted) == (2, 2)
        elsewhere = Once(Step.WRITTEN, lambda: other.upsert(records(("z", "z", 9, 9.0))))
        assert table.drop_partitions(["x"], on_step=elsewhere).attempts == 1
        into = Once(Step.WRITTEN, lambda: other.upsert(records(("d", "y", 9, 9.0))))
        assert table.overwrite_partitions(records(), partitions="all", on_step=into).attempts == 2
        assert table.read().num_rows == 0
        check_stored(table)


@every_kind
def test_upserts_after_overwrites_decide_anew(kind: Kind, tmp_path: Path) -> None:
    with kind.create(tmp_path) as table, open_table(table.location) as other:
        table.upsert(records(("a", "x", 5, 1.0), ("b", "x", 5, 1.0)))
        came = Once(Step.WRITTEN, lambda: other.overwrite_partitions(records(("c", "x", 1, 1.0))))
        assert table.upsert(records(("a", "x", 6, 2.0)), on_step=came).inserted == 1
        assert stored_rows(table) == {("a", "x", 6, 2.0), ("c", "x", 1, 1.0)}
        check_stored(table)


@every_kind
def test_threads_that_overwrite_one_partition(kind: Kind, tmp_path: Path) -> None:
    with kind.create(tmp_path) as table:
        table.upsert(records(("a", "x", 1, 1.0)))
        start = Barrier(3)

        def write(number: int) -> None:
            start.wait()
            for turn in range(3):
                rows = [(f"{number}-{turn}-{row}", "x", 1, float(number)) for row in range(3)]
                table.overwrite_partitions(records(*rows), attempts=50)

        threads = [Thread(target=write, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        rows = stored_rows(table)
        assert (len(rows), len({row[0].rpartition("-")[0] for row in rows})) == (3, 1)
        check_stored(table)


@every_kind
def test_refused_overwrites_change_nothing(kind: Kind, tmp_path: Path) -> None:
    with kind.create(tmp_path) as table:
        table.upsert(records(("a", "x", 1, 1.0), ("b", "y", 1, 1.0)))
        before = table.timeline()
        if kind.scope is Scope.GLOBAL:
            with pytest.raises(PartitionChangeError):
                table.overwrite_partitions(records(("a", "y", 1, 1.0)), on_partition_change="fail")
        with pytest.raises(InvalidInputError, match="keeps no record in another partition"):
            table.overwrite_partitions(records(("a", "y", 1, 1.0)), on_partition_change="keep")
        with pytest.raises(InvalidInputError, match="no partition paths"):
            table.overwrite_partitions(records(("a", "y", 1, 1.0)), partitions="x")
        with pytest.raises(InvalidInputError, match="no partitions are named"):
            table.drop_partitions([])
        with pytest.raises(InvalidInputError, match=r"partitions=\['city=x', 'z'\]"):
            table.drop_partitions(["x", "z", "city=x"])
        assert table.timeline() == before
        assert_nothing_left_over(table)


@every_kind
def test_repeats_name_the_same_partitions(kind: Kind, tmp_path: Path) -> None:
    with kind.create(tmp_path) as table:
        table.upsert(records(("a", "x", 1, 1.0), ("b", "y", 1, 1.0)))
        batch = records(("n", "x", 1, 1.0))
        first = table.overwrite_partitions(batch, partitions=["y"], transaction=("load", 1))
        again = table.overwrite_partitions(batch, partitions=["y"], transaction=("load", 1))
        assert (again, again.repeated, first.deleted) == (first, True, 2)
        for named in (None, ["z"], "all"):
            with pytest.raises(TransactionMismatchError):
                table.overwrite_partitions(batch, partitions=named, transaction=("load", 1))
        table.drop_partitions(["x"], transaction=("load", 2))
        assert table.drop_partitions(["x"], transaction=("load", 2)).repeated
        with pytest.raises(TransactionMismatchError):
            table.drop_partitions(["y"], transaction=("load", 2))


@every_kind
def test_cleans_remove_replaced_files(kind: Kind, tmp_path: Path) -> None:
    with kind.create(tmp_path) as table:
        table.upsert(records(("a", "x", 1, 1.0)))
        old = set(Path(table.location).glob("x/*.parquet"))
        table.overwrite_partitions(records(("b", "x", 1, 1.0)))
        assert old <= set(Path(table.location).glob("x/*.parquet"))
        table.upsert(records(("c", "y", 1, 1.0)))
        table.clean(keep_commits=1)
        assert not old & set(Path(table.location).glob("x/*.parquet"))
        check_stored(table)
