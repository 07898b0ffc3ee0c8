"""Transactions on an index that is used alone, in stores on servers: large ones make progress, dead ones leave nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rli.errors import LeaseLostError
from rli.index.record.entries.limits import IndexLimits
from tests.index.test_large_transactions import MANY, B, busy
from tests.index.test_sweeping import A, seem_elsewhere
from tests.support.docker import Service
from tests.support.hbase import hbase_url, new_table
from tests.support.locations import commit_places, leftover_chunks, locations, places_of
from tests.support.redis import dropped_afterwards, redis_url
from tests.support.stored_indexes import create_index, open_index

pytestmark = pytest.mark.docker


@pytest.fixture(params=["redis", "hbase"])
def index_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """Where no index is yet."""
    if request.param == "redis":
        service: Service = request.getfixturevalue("redis_server")
        url = redis_url(service)
    else:
        hbase: Service = request.getfixturevalue("hbase")
        url = hbase_url(hbase, new_table())
    with dropped_afterwards(url) as unused:
        yield unused


@pytest.mark.invariant("P29")
def test_large_transaction_commits_beside_small(index_url: str) -> None:
    limits = IndexLimits(rows_per_chunk=4_000, transactions_kept=8, keys_looked_up=2_000, look_ups_per_read=100)
    with busy(index_url, limits) as (index, appends):
        with index.begin() as large:
            large.stage(locations(MANY))
            index.store.is_busy = True  # type: ignore[attr-defined]
            index.store.let_others_commit(12)  # type: ignore[attr-defined]
            large.commit()
        index.store.is_busy = False  # type: ignore[attr-defined]
        assert len(appends) == 3
        assert places_of(index, list(MANY)) == MANY


@pytest.mark.invariant("P30")
def test_presumed_dead_process_commits_nothing(index_url: str) -> None:
    with create_index(index_url) as index, open_index(index_url) as other:
        opened = index.begin()
        opened.stage(locations({"k": A}))
        assert other.sweep() == 0
        seem_elsewhere(other, silent_days=8)
        assert other.sweep() == 1
        assert leftover_chunks(other) == []
        with pytest.raises(LeaseLostError, match="taken for dead"):
            opened.commit()
        commit_places(other, {"k": B})
        assert places_of(index, ["k"]) == {"k": B}
