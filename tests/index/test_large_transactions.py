"""A large transaction on the index alone beside a stream of small ones on other keys (P29)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING

import pytest

from rli import ConflictError
from rli.codec.encoded_keys import EncodedKeys
from rli.codec.entries import Entries
from rli.errors import LeaseLostError
from rli.index.record.entries.limits import IndexLimits
from rli.index.record.index_alone import IndexAlone
from rli.index.record.stored_index import StoredIndex
from rli.model import FileGroupId
from rli.store.contract import Store
from tests.support.faults import AtPoint, PointedStore
from tests.support.locations import commit_places, leftover_chunks, locations, places_of
from tests.support.stored_indexes import create_index, open_index

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.invariant("P29")

A, B = FileGroupId("p", "a-0"), FileGroupId("p", "b-0")
KEYS = 8_000
MANY = {f"large-{number}": A for number in range(KEYS)}
COMMITS_AT_A_LOOK_UP = 3

SMALL_STEPS = IndexLimits(rows_per_chunk=2_000, keys_looked_up=500, fewest_looked_up=200, look_ups_per_read=100)
"""A transaction of thousands of keys works as one of a million does."""


class BusyStore(PointedStore):
    """A store that others use: they commit a few small transactions during each look-up, and one before each append."""

    def __init__(self, store: Store, url: str, at_point: AtPoint) -> None:
        super().__init__(store, at_point)
        self._others = open_index(url)
        self._names = count()
        self.is_busy = False

    def look_up(self, batches: Sequence[EncodedKeys], applied: int = 0) -> list[Entries]:
        found = super().look_up(batches, applied)
        self.let_others_commit(COMMITS_AT_A_LOOK_UP)
        return found

    def let_others_commit(self, times: int) -> None:
        for _ in range(times if self.is_busy else 0):
            commit_places(self._others, {f"small-{next(self._names)}": B})


@contextmanager
def busy(url: str, limits: IndexLimits) -> Iterator[tuple[StoredIndex, list[str]]]:
    """An index that is busy while a transaction commits, and the appends that were tried."""
    appends: list[str] = []

    def at_point(point: str) -> None:
        if point.startswith("before compare_and_set commit/"):
            appends.append(point)
            # Nobody is that quick again and again: to check one commit takes a tenth of the requests that it takes.
            store.let_others_commit(len(appends) < 3)

    with create_index(url, shards=2) as own:
        store = BusyStore(own.store, url, at_point)
        yield IndexAlone(store, own.settings, limits), appends


@pytest.mark.invariant("P29")
def test_large_transaction_commits_beside_small(index_url: str) -> None:
    with busy(index_url, SMALL_STEPS) as (index, appends):
        with index.begin() as large:
            large.stage(locations(MANY))
            # More were committed since its snapshot than are kept: all keys are looked up, once.
            index.store.is_busy = True  # type: ignore[attr-defined]
            index.store.let_others_commit(100)  # type: ignore[attr-defined]
            large.commit()
        index.store.is_busy = False  # type: ignore[attr-defined]
        assert len(appends) == 3
        looked_up = index.log.refresh().head - 100 - 2 - 1
        assert looked_up == COMMITS_AT_A_LOOK_UP * KEYS // 500
        assert places_of(index, list(MANY)) == MANY
        assert leftover_chunks(index) == []


@pytest.mark.parametrize("when", ["before the look-ups", "during the look-ups"])
def test_large_transaction_detects_taken_key(index_url: str, when: str) -> None:
    with create_index(index_url, shards=2) as index, open_index(index_url) as other:
        looked_up = []

        class Meanwhile(PointedStore):
            def look_up(self, batches: Sequence[EncodedKeys], applied: int = 0) -> list[Entries]:
                found = super().look_up(batches, applied)
                looked_up.append(len(found))
                if len(looked_up) == 5 and when == "during the look-ups":
                    commit_places(other, {"large-7": B})
                return found

        with IndexAlone(Meanwhile(index.store, lambda _: None), index.settings, SMALL_STEPS).begin() as large:
            large.stage(locations(MANY))
            for number in range(100):
                commit_places(other, {f"small-{number}": B})
            if when == "before the look-ups":
                commit_places(other, {"large-7": B})
            with pytest.raises(ConflictError) as raised:
                large.commit()
        assert raised.value.keys == ("large-7",)
        assert places_of(index, ["large-7", "large-8"]) == {"large-7": B}


def test_staged_changes_of_others_expire(index_url: str) -> None:
    with create_index(index_url) as index:
        for number in range(80):
            commit_places(index, {f"small-{number}": B})
        assert len(index.store.scan_control("stage/")) == 64
        assert leftover_chunks(index) == []


def test_transaction_reports_removed_staging(index_url: str) -> None:
    with create_index(index_url) as index:
        opened = index.begin()
        opened.stage(locations({"k": A}))
        commit_places(index, {"other": A})
        for name in leftover_chunks(index):
            index.store.compare_and_set(name, index.store.read_control(name), None)
        with pytest.raises(LeaseLostError, match="taken for dead"):
            opened.commit()
        assert places_of(index, ["k", "other"]) == {"other": A}
