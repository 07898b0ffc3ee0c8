"""Two writers on a table of each kind of index: a key is never inserted twice within its scope."""

from __future__ import annotations

from pathlib import Path

import pytest

from rli import ConflictError, CorruptTableError, Scope, Step, Table, open_table
from tests.support.index_kinds import KINDS, Kind, stored_rows, with_metadata_kinds
from tests.support.steps import Once
from tests.support.tables import check_stored, records

BEFORE_THE_LEASE = [Step.INFLIGHT, Step.TAGGED, Step.WRITTEN]


@pytest.fixture
def table(kind: Kind, tmp_path: Path) -> Table:
    """A table with a record, each commit in a file group of its own."""
    created = kind.create(tmp_path, small_file_size=0)
    created.upsert(records(("old", "x", 1, 1.0)))
    return created


@pytest.mark.invariant("P36")
@pytest.mark.parametrize("step", BEFORE_THE_LEASE)
@with_metadata_kinds
def test_writers_insert_key_once(table: Table, step: Step) -> None:
    first, second = ("k", "x", 1, 1.0), ("k", "x", 2, 2.0)
    rival = Once(step, lambda: open_table(table.location).upsert(records(first)))
    result = table.upsert(records(second), on_step=rival)
    assert rival.reached == 2, "the write was not tried again"
    assert (result.inserted, result.updated) == (0, 1)
    assert stored_rows(table) == {("old", "x", 1, 1.0), second}
    check_stored(table)


@pytest.mark.invariant("P36")
@with_metadata_kinds
def test_key_in_two_partitions_follows_scope(table: Table, kind: Kind) -> None:
    first, second = ("k", "x", 1, 1.0), ("k", "y", 2, 2.0)
    rival = Once(Step.WRITTEN, lambda: open_table(table.location).upsert(records(first)))
    result = table.upsert(records(second), on_step=rival)
    if kind.scope is Scope.GLOBAL:
        assert (rival.reached, result.moved) == (2, 1)
        assert stored_rows(table) == {("old", "x", 1, 1.0), second}
    else:
        # Another partition is another scope: there is no conflict to begin with.
        assert (rival.reached, result.inserted) == (1, 1)
        assert stored_rows(table) == {("old", "x", 1, 1.0), first, second}
    check_stored(table)


@pytest.mark.invariant("P36")
@with_metadata_kinds
def test_delete_sees_concurrent_insert(table: Table) -> None:
    rival = Once(Step.WRITTEN, lambda: open_table(table.location).upsert(records(("k", "y", 1, 1.0))))
    assert table.delete(["old", "k"], on_step=rival).deleted == 2
    assert rival.reached == 2
    assert stored_rows(table) == frozenset()


@pytest.mark.invariant("P36")
@with_metadata_kinds
def test_insert_sees_rolled_back_delete(table: Table) -> None:
    deleted = table.delete(["old"]).instant
    assert deleted is not None
    rival = Once(Step.WRITTEN, lambda: open_table(table.location).rollback(deleted))
    # Not found at first, and there again at the commit: a second copy would be a lost update.
    assert table.upsert(records(("old", "x", 5, 5.0)), on_step=rival).updated == 1
    assert rival.reached == 2
    assert stored_rows(table) == {("old", "x", 5, 5.0)}
    check_stored(table)


@pytest.mark.invariant("P36")
@with_metadata_kinds
def test_insert_sees_deletion_of_skipped_key(table: Table) -> None:
    rival = Once(Step.WRITTEN, lambda: open_table(table.location).delete(["old"]))
    result = table.insert(records(("old", "x", 2, 2.0), ("new", "x", 2, 2.0)), on_step=rival)
    assert (rival.reached, result.inserted) == (2, 2)
    assert stored_rows(table) == {("old", "x", 2, 2.0), ("new", "x", 2, 2.0)}


@with_metadata_kinds
def test_disjoint_writers_do_not_wait(table: Table) -> None:
    rival = Once(Step.WRITTEN, lambda: open_table(table.location).upsert(records(("other", "z", 1, 1.0))))
    assert table.upsert(records(("k", "x", 1, 1.0)), on_step=rival).inserted == 1
    assert rival.reached == 1
    check_stored(table)


@pytest.mark.invariant("P36")
@with_metadata_kinds
def test_insert_beside_clustering_and_clean(table: Table, kind: Kind) -> None:
    table.upsert(records(("k", "x", 1, 1.0)))

    def service() -> None:
        with open_table(table.location) as other:
            if kind.can_cluster:
                other.cluster(smaller_than=1 << 30)
            other.upsert(records(("k", "x", 2, 2.0), ("new", "x", 2, 2.0)))
            other.clean(keep_commits=1)

    rival = Once(Step.TAGGED, service)
    assert table.upsert(records(("new", "x", 3, 3.0)), on_step=rival).updated == 1
    assert stored_rows(table) == {("old", "x", 1, 1.0), ("k", "x", 2, 2.0), ("new", "x", 3, 3.0)}
    check_stored(table)


@with_metadata_kinds
def test_exhausted_attempts_name_the_key(table: Table) -> None:
    rival = Once(Step.WRITTEN, lambda: open_table(table.location).upsert(records(("k", "x", 1, 1.0))))
    with pytest.raises(ConflictError) as raised:
        table.upsert(records(("k", "x", 2, 2.0), ("l", "x", 2, 2.0)), attempts=1, on_step=rival)
    assert raised.value.keys == ("k",)
    assert stored_rows(table) == {("old", "x", 1, 1.0), ("k", "x", 1, 1.0)}


@with_metadata_kinds
def test_repeated_batch_key_counts_once(table: Table, kind: Kind) -> None:
    batch = [("k", "x", 1, 1.0), ("k", "x", 2, 2.0), ("k", "y", 3, 3.0)]
    table.upsert(records(*batch))
    expected, _ = kind.model().upserted([("old", "x", 1, 1.0), *batch])
    assert stored_rows(table) == expected.rows


def test_keys_that_stand_twice_are_found(tmp_path: Path) -> None:
    """Under a smaller scope they were written, under a greater one they are wrong."""
    table = KINDS["simple"].create(tmp_path)
    table.upsert(records(("k", "x", 1, 1.0), ("k", "y", 1, 1.0), ("l", "x", 1, 1.0)))
    assert table.verify_index().agrees
    with open_table(table.location, index="global-simple:") as strict:
        report = strict.verify_index()
        assert (report.agrees, report.records, report.repeated, report.sample) == (False, 3, 1, ("k",))
        with pytest.raises(CorruptTableError, match=r"more than once.*sample=\['k'\]"):
            strict.repair_index()
        with pytest.raises(CorruptTableError, match=r"more than once.*keys=\['k'\]"):
            strict.upsert(records(("k", "z", 2, 2.0)))
        assert strict.delete(["k"]).deleted == 2
        assert strict.verify_index().agrees
