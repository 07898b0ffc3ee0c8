"""A commit of a transaction is repeated after the store failed: it takes effect once, and its errors tell the truth."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from uuid import uuid4

import pytest

from rli import ConflictError, IndexTransaction, StoreUnavailableError
from rli.errors import NOTHING_WRITTEN, InvalidInputError, UndecidedCommitError
from rli.index.record.index_alone import IndexAlone
from rli.index.record.stored_index import StoredIndex
from rli.model import FileGroupId
from tests.support.faults import WatchedStore
from tests.support.locations import commit_places, leftover_chunks, locations, places_of
from tests.support.stored_indexes import create_index

A, B, C = FileGroupId("p", "a-0"), FileGroupId("q", "b-0"), FileGroupId("r", "c-0")


class Outage:
    """The store fails from the n-th request of a name on, or at the n-th of all; once, or until it is over."""

    def __init__(self) -> None:
        self._at: str | None = None
        self._left = 0
        self._stays = False
        self.has_begun = False

    def begin_at(self, at: str, *, occurrence: int = 1) -> None:
        self._at, self._left, self._stays, self.has_begun = at, occurrence, True, False

    def begin_after(self, requests: int, *, stays: bool) -> None:
        self._at, self._left, self._stays, self.has_begun = None, requests, stays, False

    def end(self) -> None:
        self._at, self._left, self._stays = None, 0, False

    def __call__(self, point: str) -> None:
        is_counted = self._at is None or point.startswith(self._at)
        self._left -= is_counted
        if (is_counted and self._left == 0) or (self._stays and self.has_begun):
            self.has_begun = True
            raise StoreUnavailableError("the server is gone")


@pytest.fixture
def outage() -> Outage:
    return Outage()


def _indexes(outage: Outage) -> Iterator[tuple[StoredIndex, StoredIndex, int]]:
    """An index whose store fails, the same index with a store that does not, and a growing number."""
    for number in count(1):
        outage.end()
        with create_index(f"memory:{uuid4().hex}") as index:
            commit_places(index, {"k": A})
            yield IndexAlone(WatchedStore(index.store, outage), index.settings), index, number


def _staged(index: StoredIndex) -> IndexTransaction:
    transaction = index.begin()
    transaction.stage(locations({"k": B}))
    return transaction


def _undecided(transaction: IndexTransaction, outage: Outage, at: str) -> None:
    outage.begin_at(at)
    with pytest.raises(UndecidedCommitError):
        transaction.commit()
    outage.end()


def _require_once(index: StoredIndex) -> None:
    index.begin().abort()
    assert places_of(index, ["k"]) == {"k": B}
    assert len(index.history()) == 2
    assert leftover_chunks(index) == []


def _require_nothing_written(index: StoredIndex, error: Exception, answer: str) -> None:
    assert NOTHING_WRITTEN in str(error)
    assert answer == "before"
    index.begin().abort()
    assert places_of(index, ["k"]) == {"k": A}
    assert leftover_chunks(index) == []


@pytest.mark.parametrize("stays", [False, True])
@pytest.mark.parametrize("answer", ["before", "after"])
@pytest.mark.invariant("P30")
def test_repeat_fails_at_each_request(outage: Outage, answer: str, *, stays: bool) -> None:
    for cut_off, index, number in _indexes(outage):
        transaction = _staged(cut_off)
        _undecided(transaction, outage, f"{answer} compare_and_set commit/")
        outage.begin_after(number, stays=stays)
        try:
            transaction.commit()
        except UndecidedCommitError:
            outage.end()
            transaction.commit()
        except StoreUnavailableError as error:
            outage.end()
            _require_nothing_written(index, error, answer)
            continue
        is_over = not outage.has_begun
        outage.end()
        _require_once(index)
        if is_over:
            return


@pytest.mark.parametrize("staged", [1, 3_000])
@pytest.mark.invariant("P29")
def test_repeated_commit_still_conflicts(outage: Outage, staged: int) -> None:
    others = {f"n{number}": B for number in range(staged - 1)}
    for cut_off, index, number in _indexes(outage):
        transaction = cut_off.begin()
        transaction.tag(["k"])
        transaction.stage(locations({"k": B, **others}))
        commit_places(index, {"k": C})
        outage.begin_after(number, stays=False)
        with suppress(StoreUnavailableError):
            with pytest.raises(ConflictError):
                transaction.commit()
            assert places_of(index, ["k"]) == {"k": C}
            if outage.has_begun:
                continue
            return
        with pytest.raises(ConflictError):
            transaction.commit()
        assert places_of(index, ["k"]) == {"k": C}


@pytest.mark.invariant("P29")
def test_keys_staged_between_commits_conflict(outage: Outage) -> None:
    some = {f"n{number}": B for number in range(3_000)}
    with create_index(f"memory:{uuid4().hex}") as index:
        transaction = IndexAlone(WatchedStore(index.store, outage), index.settings).begin()
        transaction.stage(locations(some))
        commit_places(index, {"x": A})
        outage.begin_at("before scan_control prepared/")
        with pytest.raises(StoreUnavailableError, match=NOTHING_WRITTEN):
            transaction.commit()
        outage.end()
        transaction.stage(locations({"x": B}))
        with pytest.raises(ConflictError):
            transaction.commit()
        assert places_of(index, ["x"]) == {"x": A}


@pytest.mark.parametrize("answer", ["before", "after"])
@pytest.mark.invariant("P35")
def test_repeated_decision_fails_at_each_request(outage: Outage, answer: str) -> None:
    for cut_off, index, number in _indexes(outage):
        transaction = _staged(cut_off)
        transaction.prepare()
        _undecided(transaction, outage, f"{answer} compare_and_set prepared/")
        outage.begin_after(number, stays=True)
        try:
            transaction.commit()
        except UndecidedCommitError:
            outage.end()
            transaction.commit()
        is_over = not outage.has_begun
        outage.end()
        _require_once(index)
        assert index.pending() == []
        if is_over:
            return


def test_undecided_commit_outlives_its_block(outage: Outage) -> None:
    for cut_off, index, _ in _indexes(outage):
        outage.begin_at("after compare_and_set commit/")
        with pytest.raises(UndecidedCommitError), _staged(cut_off) as transaction:
            transaction.commit()
        outage.end()
        assert transaction.commit().placed == 1
        _require_once(index)
        return


def test_abort_of_commit_is_refused(outage: Outage) -> None:
    for cut_off, index, _ in _indexes(outage):
        transaction = _staged(cut_off)
        _undecided(transaction, outage, "after compare_and_set commit/")
        with pytest.raises(ConflictError, match="the transaction was committed"):
            transaction.abort()
        _require_once(index)
        return


def test_repeat_with_other_metadata_is_refused(outage: Outage) -> None:
    for cut_off, index, _ in _indexes(outage):
        transaction = _staged(cut_off)
        outage.begin_at("after compare_and_set commit/")
        with pytest.raises(UndecidedCommitError):
            transaction.commit({"version": "1"})
        outage.end()
        with pytest.raises(InvalidInputError, match="other metadata"):
            transaction.commit({"version": "2"})
        assert transaction.commit({"version": "1"}).metadata == {"version": "1"}
        _require_once(index)
        return


@pytest.mark.invariant("P35")
def test_failed_preparation_can_be_aborted(outage: Outage) -> None:
    for cut_off, index, _ in _indexes(outage):
        # The first change of the record says that the transaction is being prepared, the second one that it is.
        outage.begin_at("after compare_and_set prepared/", occurrence=2)
        with pytest.raises(StoreUnavailableError, match="may hold its keys"), _staged(cut_off) as transaction:
            transaction.prepare()
        outage.end()
        assert len(index.pending()) == 1
        transaction.abort()
        assert index.pending() == []
        commit_places(index, {"k": C})
        return
