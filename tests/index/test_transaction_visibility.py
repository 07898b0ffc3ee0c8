"""Look-ups in an index that is used on its own see a commit whole or not at all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rli import IndexNotReadyError
from rli.index.record.index_alone import IndexAlone
from rli.index.record.log.commit_log import CommitLog
from rli.index.record.log.record import RecordDraft
from rli.model import FileGroupId
from rli.store.registry import open_store
from tests.support.faults import PointedStore
from tests.support.locations import commit_places, places_of
from tests.support.stored_indexes import create_index, open_index

A, B = FileGroupId("p", "a-0"), FileGroupId("q", "b-0")
KEYS = ["1", "22222", "a key", "a longer key"]
BEFORE, AFTER = dict.fromkeys(KEYS, A), dict.fromkeys(KEYS, B)


@pytest.mark.invariant("P8")
def test_lookup_sees_no_partial_commit(tmp_path: Path) -> None:
    url = f"lmdb://{tmp_path}/i"
    with create_index(url, shards=2) as index:
        commit_places(index, BEFORE)
    seen = []
    with open_index(url) as writing, open_index(url) as reading:

        def look(point: str) -> None:
            seen.append((point, places_of(reading, KEYS)))

        commit_places(IndexAlone(PointedStore(writing.store, look), writing.settings), AFTER)
        assert places_of(reading, KEYS) == AFTER
    assert [point for point, _ in seen].count("before put") >= 2
    assert all(places in (BEFORE, AFTER) for _, places in seen)
    # Once a look-up has shown the commit, none goes back.
    shown = [places == AFTER for _, places in seen]
    assert shown == sorted(shown)


def test_lookup_completes_commit_within_timeout(tmp_path: Path) -> None:
    url = f"lmdb://{tmp_path}/i"
    with create_index(url, shards=2) as index:
        commit_places(index, BEFORE)
    refused: list[str] = []
    with open_index(url) as writing, open_index(url) as reading:

        def look(point: str) -> None:
            if point == "after put" and not refused:
                with pytest.raises(IndexNotReadyError, match="longer timeout") as raised:
                    reading.lookup(KEYS, timeout=0)
                refused.append(str(raised.value))

        commit_places(IndexAlone(PointedStore(writing.store, look), writing.settings), AFTER)
        assert places_of(reading, KEYS) == AFTER
    # There is no table that could be synced.
    assert ["TABLE" in text for text in refused] == [False]


@pytest.mark.invariant("P2")
def test_differing_record_is_not_own() -> None:
    with open_store("memory:same-writer", create=True) as store:
        one, other = CommitLog(store), CommitLog(store)
        empty = one.refresh()
        less = RecordDraft(instant="2", action="foreign", writer="2", located_at=("2", "2"), file_groups=(A,))
        first = one.append(empty, replace(less, located_at=("2", "1", "2"), covers=("1",)))
        assert first is not None
        assert other.append(empty, less) is None
        assert other.refresh().records == first.records
        assert other.last_read.head == first.head == 3
        store.drop()
