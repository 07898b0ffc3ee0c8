"""A store fails while a transaction is committed: the caller gets a result, or an error that says what is not written."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Iterator
from itertools import count
from uuid import uuid4

import pytest

from rli import IndexCommit, IndexTransaction, StoreUnavailableError
from rli.errors import NOTHING_WRITTEN, InvalidInputError, UndecidedCommitError
from rli.index.record.index_alone import IndexAlone
from rli.index.record.stored_index import StoredIndex
from rli.model import FileGroupId
from tests.support.faults import PointedStore
from tests.support.locations import commit_places, leftover_chunks, locations, places_of
from tests.support.stored_indexes import create_index

A, B = FileGroupId("p", "a-0"), FileGroupId("q", "b-0")
BEFORE = {"stays": A, "moves": A, "goes": A}
AFTER = {"stays": A, "moves": B, "new": B}
KEYS = sorted(BEFORE | AFTER)


class Failing:
    """Fails at the n-th change of the store after it was switched on: at that alone, or at all from then on."""

    def __init__(self, number: int, failure: Exception, *, stays: bool) -> None:
        self._number = number
        self._failure = failure
        self._stays = stays
        self._passed = 0
        self.is_on = False

    def __call__(self, _point: str) -> None:
        if not self.is_on:
            return
        self._passed += 1
        if self._passed == self._number or (self._stays and self._passed > self._number):
            raise self._failure

    @property
    def has_failed(self) -> bool:
        return self._passed >= self._number


def _gone() -> Exception:
    return StoreUnavailableError("the server is gone")


def _full() -> Exception:
    return OSError(errno.ENOSPC, "disk full")


def _staged(index: StoredIndex) -> IndexTransaction:
    transaction = index.begin()
    transaction.stage(locations({"moves": B, "new": B}))
    transaction.stage_deletes(["goes"])
    return transaction


def _attempts(failure: Callable[[], Exception], *, stays: bool) -> Iterator[tuple[IndexAlone, StoredIndex, Failing]]:
    """An index with a store that fails at the next change, and the same index with a store that does not."""
    for number in count(1):
        with create_index(f"memory:{uuid4().hex}") as index:
            commit_places(index, BEFORE)
            failing = Failing(number, failure(), stays=stays)
            yield IndexAlone(PointedStore(index.store, failing), index.settings), index, failing
            if not failing.has_failed:
                return


def _says_nothing_was_written(error: Exception) -> bool:
    return NOTHING_WRITTEN in str(error) or NOTHING_WRITTEN in getattr(error, "__notes__", [])


def _require_committed(index: StoredIndex, committed: IndexCommit) -> None:
    index.begin().abort()
    assert places_of(index, KEYS) == AFTER
    assert [commit.instant for commit in index.history(limit=2)] == [committed.instant, index.history()[-1].instant]
    assert leftover_chunks(index) == []


@pytest.mark.parametrize("stays", [False, True])
@pytest.mark.parametrize("failure", [_gone, _full])
def test_a_failure_at_each_change(failure: Callable[[], Exception], *, stays: bool) -> None:
    seen = set()
    for cut_off, index, failing in _attempts(failure, stays=stays):
        transaction = _staged(cut_off)
        failing.is_on = True
        try:
            committed = transaction.commit()
        except UndecidedCommitError:
            seen.add("undecided")
            failing.is_on = False
            with pytest.raises(InvalidInputError, match="may have taken effect"):
                transaction.stage(locations({"more": A}))
            committed = transaction.commit()
        except (OSError, StoreUnavailableError) as error:
            seen.add("nothing written" if _says_nothing_was_written(error) else str(error))
            failing.is_on = False
            assert places_of(index, KEYS) == BEFORE
            assert len(index.history()) == 1
            continue
        seen.add("behind" if committed.index_behind else "committed")
        failing.is_on = False
        _require_committed(index, committed)
    assert seen == {"behind", "committed", "undecided" if stays else "nothing written"}


@pytest.mark.parametrize("stays", [False, True])
@pytest.mark.parametrize("failure", [_gone, _full])
@pytest.mark.invariant("P35")
def test_a_failure_after_the_table(failure: Callable[[], Exception], *, stays: bool) -> None:
    seen = set()
    for cut_off, index, failing in _attempts(failure, stays=stays):
        transaction = _staged(cut_off)
        transaction.prepare()
        failing.is_on = True
        try:
            committed = transaction.commit()
        except UndecidedCommitError:
            seen.add("undecided")
            failing.is_on = False
            committed = transaction.commit()
        seen.add("behind" if committed.index_behind else "committed")
        failing.is_on = False
        _require_committed(index, committed)
        assert index.pending() == []
    assert seen == {"undecided", "behind", "committed"}


def test_a_transaction_that_is_behind(caplog: pytest.LogCaptureFixture) -> None:
    def fail(point: str) -> None:
        if point == "before put":
            raise StoreUnavailableError("the server is gone")

    caplog.set_level(logging.WARNING, "rli")
    with create_index(f"memory:{uuid4().hex}") as index:
        committed = _staged(IndexAlone(PointedStore(index.store, fail), index.settings)).commit()
        assert (committed.index_behind, committed.placed) == (True, 2)
        assert "a transaction is committed, but not all of its changes are in the index" in caplog.text
        index.begin().abort()
        assert places_of(index, ["moves", "new"]) == {"moves": B, "new": B}


def test_an_interrupted_commit_is_not_removed() -> None:
    """Ctrl-C comes when the store has the record of the commit: leaving the transaction asks the log first."""

    def interrupt(point: str) -> None:
        if point.startswith("after compare_and_set commit/"):
            raise KeyboardInterrupt

    with create_index(f"memory:{uuid4().hex}") as index:
        cut_off = IndexAlone(PointedStore(index.store, interrupt), index.settings)
        with pytest.raises(KeyboardInterrupt), _staged(cut_off) as transaction:
            transaction.commit()
        index.begin().abort()
        assert places_of(index, ["moves"]) == {"moves": B}


def test_abort_does_not_hide_error() -> None:
    failing = Failing(1, _gone(), stays=True)
    with create_index(f"memory:{uuid4().hex}") as index:
        transaction = _staged(IndexAlone(PointedStore(index.store, failing), index.settings))
        failing.is_on = True
        with pytest.raises(ZeroDivisionError), transaction:
            raise ZeroDivisionError
        assert places_of(index, KEYS) == {}
