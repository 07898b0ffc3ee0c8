"""Transactions on the index alone: all or nothing, and one of two that meet gives way."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from uuid import uuid4

import pyarrow as pa
import pytest

from rli import ConflictError, IndexTransaction
from rli.errors import InvalidInputError, InvalidKeyError, SchemaError, StoreUnavailableError
from rli.index.record.entries.limits import IndexLimits
from rli.index.record.index_alone import IndexAlone
from rli.index.record.stored_index import StoredIndex
from rli.model import FileGroupId
from tests.support.faults import PointedStore
from tests.support.locations import commit_places, leftover_chunks, locations, places_in, places_of
from tests.support.stored_indexes import create_index, open_index

A, B, C = FileGroupId("p", "a-0"), FileGroupId("p", "b-0"), FileGroupId("q/r", "c-0")


@pytest.fixture
def index(index_url: str) -> StoredIndex:
    """An empty index."""
    return create_index(index_url)


def test_nothing_is_seen_before_the_commit(index: StoredIndex) -> None:
    with index.begin() as transaction:
        transaction.stage(locations({"k1": A}))
        assert places_of(index, ["k1"]) == {}
        assert places_of(transaction, ["k1"]) == {}
        transaction.commit()
    assert places_of(index, ["k1"]) == {"k1": A}
    assert index.lookup(["k1"]).column("instant_time").to_pylist() == [transaction.instant]
    assert leftover_chunks(index) == []


def test_instants_rise(index: StoredIndex) -> None:
    instants = [commit_places(index, {f"k{number}": A}) for number in range(5)]
    assert instants == sorted(set(instants))


def test_leaving_without_commit_aborts(index: StoredIndex) -> None:
    commit_places(index, {"k1": A})
    with index.begin() as transaction:
        transaction.stage(locations({"k1": B, "k2": B}))
        transaction.stage_deletes(["k3"])
    assert places_of(index, ["k1", "k2"]) == {"k1": A}
    assert leftover_chunks(index) == []
    assert index.stats().last_sequence == 1


def test_an_error_inside_aborts(index: StoredIndex) -> None:
    def fail() -> None:
        with index.begin() as transaction:
            transaction.stage(locations({"k1": B}))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert leftover_chunks(index) == []
    assert places_of(index, ["k1"]) == {}


def test_an_ended_transaction_takes_nothing_more(index: StoredIndex) -> None:
    committed, aborted, empty = index.begin(), index.begin(), index.begin()
    committed.stage(locations({"k1": A}))
    committed.commit()
    aborted.abort()
    aborted.abort()
    empty.commit()
    for transaction in (committed, aborted, empty):
        for call in (
            transaction.commit,
            lambda ended=transaction: ended.stage(locations({"k2": A})),
            lambda ended=transaction: ended.stage_deletes(["k1"]),
        ):
            with pytest.raises(InvalidInputError, match="has ended"):
                call()
    assert index.stats().last_sequence == 1


def test_tag_answers_every_row(index: StoredIndex) -> None:
    commit_places(index, {"k1": A, "k2": B})
    with index.begin() as transaction:
        assert places_in(transaction.tag(["k2", "k1", "k2", "x", "k2"])) == [B, A, B, None, B]


def test_deletes(index: StoredIndex) -> None:
    commit_places(index, {"k1": A, "k2": B, "k3": C})
    with index.begin() as transaction:
        transaction.stage_deletes(["k1", "never there", "k1"])
        transaction.commit()
    assert places_of(index, ["k1", "k2", "k3", "never there"]) == {"k2": B, "k3": C}
    commit_places(index, {"k1": C})
    assert places_of(index, ["k1"]) == {"k1": C}


def test_last_staged_change_counts(index: StoredIndex) -> None:
    with index.begin() as transaction:
        transaction.stage(locations({"k1": A, "k2": A, "k3": A}))
        transaction.stage_deletes(["k2", "k3"])
        transaction.stage(locations({"k1": B, "k3": C}))
        transaction.commit()
    assert places_of(index, ["k1", "k2", "k3"]) == {"k1": B, "k3": C}


def test_staging_in_many_chunks(index: StoredIndex) -> None:
    places = {f"k{number}": (A, B, C)[number % 3] for number in range(95)}
    commit_places(IndexAlone(index.store, index.settings, IndexLimits(rows_per_chunk=10)), places)
    assert places_of(index, list(places)) == places
    assert leftover_chunks(index) == []


def test_repeated_key_in_call_is_refused(index: StoredIndex) -> None:
    twice = pa.concat_tables([locations({"k1": A, "k2": A}), locations({"k2": B})])
    with index.begin() as transaction, pytest.raises(InvalidKeyError, match="key=k2"):
        transaction.stage(twice)
    assert leftover_chunks(index) == []


@pytest.mark.parametrize(
    ("change", "error", "named"),
    [
        (lambda table: table.drop_columns(["file_id"]), SchemaError, "file_id"),
        (lambda table: table.set_column(0, "record_key", pa.array([None, "b"])), InvalidKeyError, "record_key"),
        (lambda table: table.set_column(1, "partition_path", pa.array([None, "b"])), InvalidKeyError, "partition_path"),
        (lambda table: table.set_column(2, "file_id", pa.array(["b", None])), InvalidKeyError, "file_id"),
        (lambda table: table.set_column(2, "file_id", pa.array([1, 2])), InvalidKeyError, "file_id"),
    ],
)
def test_locations_that_are_none_are_refused(
    index: StoredIndex, change: Callable[[pa.Table], pa.Table], error: type[Exception], named: str
) -> None:
    with index.begin() as transaction, pytest.raises(error, match=named):
        transaction.stage(change(locations({"k1": A, "k2": B})))
    assert leftover_chunks(index) == []


def test_staging_nothing_commits_nothing(index: StoredIndex) -> None:
    with index.begin() as transaction:
        transaction.stage(locations({}))
        transaction.stage_deletes([])
        transaction.commit()
    assert index.stats().last_sequence == 0


def test_second_transaction_on_key_yields(index: StoredIndex) -> None:
    commit_places(index, {"k1": A})
    first, second = index.begin(), index.begin()
    first.stage(locations({"k1": B, "new": B}))
    second.stage(locations({"k1": C, "new": C, "other": C}))
    first.commit()
    with pytest.raises(ConflictError, match="'new'") as raised:
        second.commit()
    assert set(raised.value.keys) == {"k1", "new"}
    assert raised.value.key_count == 2
    assert raised.value.instants == (first.instant,)
    assert places_of(index, ["k1", "new", "other"]) == {"k1": B, "new": B}
    assert leftover_chunks(index) == []


def test_all_staged_conflict_keys_are_counted(index: StoredIndex) -> None:
    first, second = index.begin(), index.begin()
    places = {f"k{number:02}": A for number in range(30)}
    first.stage(locations(places))
    for key in places:
        second.stage(locations({key: B}))
    second.stage_deletes(["k00"])
    first.commit()
    with pytest.raises(ConflictError, match="30 record keys") as raised:
        second.commit()
    assert raised.value.key_count == 30
    assert len(raised.value.keys) == 10
    assert set(raised.value.keys) <= set(places)


def test_delete_conflicts_with_taking_same_key(index: StoredIndex) -> None:
    commit_places(index, {"k1": A})
    first, second = index.begin(), index.begin()
    first.stage_deletes(["k1"])
    second.stage(locations({"k1": B}))
    first.commit()
    with pytest.raises(ConflictError):
        second.commit()
    assert places_of(index, ["k1"]) == {}


def test_transactions_on_different_keys_both_commit(index: StoredIndex) -> None:
    first, second = index.begin(), index.begin()
    first.stage(locations({"k1": A}))
    second.stage(locations({"k2": B}))
    first.commit()
    second.commit()
    assert places_of(index, ["k1", "k2"]) == {"k1": A, "k2": B}


def test_tag_refuses_later_changes(index: StoredIndex) -> None:
    commit_places(index, {"k1": A, "k2": A})
    with index.begin() as transaction:
        instant = commit_places(index, {"k1": B})
        assert places_of(transaction, ["k2", "new"]) == {"k2": A}
        with pytest.raises(ConflictError) as raised:
            transaction.tag(["k2", "k1"])
        assert raised.value.keys == ("k1",)
        assert raised.value.instants == (instant,)


def test_another_process_sees_the_commit(index: StoredIndex, index_url: str) -> None:
    with open_index(index_url) as other:
        assert places_of(other, ["k1"]) == {}
        commit_places(index, {"k1": C})
        assert places_of(other, ["k1"]) == {"k1": C}
        commit_places(other, {"k2": A})
    assert places_of(index, ["k1", "k2"]) == {"k1": C, "k2": A}


def test_commit_with_lost_answer_stays_whole(index: StoredIndex) -> None:
    """The record of the commit is in the log, but the store's answer never came: the changes must not be removed."""

    def lose_answer(point: str) -> None:
        if point.startswith("after compare_and_set commit/"):
            raise StoreUnavailableError("the connection was lost")

    cut_off = IndexAlone(PointedStore(index.store, lose_answer), index.settings)
    commit_places(cut_off, {"k1": A})
    assert places_of(index, ["k1"]) == {"k1": A}
    assert leftover_chunks(index) == []


def test_refused_commit_is_aborted(index: StoredIndex) -> None:
    refused: list[str] = []

    def refuse(point: str) -> None:
        if point.startswith("before compare_and_set commit/") and not refused:
            refused.append(point)
            raise StoreUnavailableError("the connection was lost")

    cut_off = IndexAlone(PointedStore(index.store, refuse), index.settings)
    with pytest.raises(StoreUnavailableError, match="nothing was written"):
        commit_places(cut_off, {"k1": A})
    index.begin().abort()
    assert places_of(index, ["k1"]) == {}
    assert leftover_chunks(index) == []


def test_a_transaction_is_public(index: StoredIndex) -> None:
    assert isinstance(index.begin(), IndexTransaction)


def test_conflict_names_instant_of_delete(index_url: str) -> None:
    with create_index(index_url) as index, open_index(index_url) as other:
        with index.begin() as first:
            first.stage(pa.table({"record_key": ["a"], "partition_path": ["p"], "file_id": ["f"]}))
            first.commit()
        mine = index.begin()
        with other.begin() as theirs:
            theirs.stage_deletes(["a"])
            theirs.commit()
        with pytest.raises(ConflictError) as conflict:
            mine.tag(["a"])
        assert conflict.value.instants == (theirs.instant,)


def test_failed_staging_is_not_committed(index_url: str) -> None:
    failed: list[str] = []

    def fail_once(point: str) -> None:
        if point.endswith("/000001") and not failed:
            failed.append(point)
            raise StoreUnavailableError("the store does not answer")

    with create_index(index_url) as index:
        failing = PointedStore(index.store, fail_once)
        transaction = IndexAlone(failing, index.settings, IndexLimits(rows_per_chunk=1)).begin()
        with pytest.raises(StoreUnavailableError):
            transaction.stage(locations({"k1": A, "k2": A}))
        transaction.stage(locations({"k3": B}))
        assert transaction.commit().placed == 1
        assert places_of(index, ["k1", "k2", "k3"]) == {"k3": B}


def test_a_transaction_cannot_be_pickled() -> None:
    transaction = create_index(f"memory:{uuid4().hex}").begin()
    with pytest.raises(InvalidInputError, match="belongs to one process"):
        pickle.dumps(transaction)
