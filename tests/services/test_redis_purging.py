"""Tombstones in Redis go, and no deleted key comes back, however late a writer is and whatever a server loses (P30)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pytest

import rli_redis.store
import rli_redis.writing
from rli.codec.entries import pack
from rli.index.record.entries.purging import floor_of, floor_of_look_ups
from rli.model import FileGroupId
from rli_redis.entries import merged
from tests.index.test_purging import commit_deletes
from tests.support.docker import Service
from tests.support.locations import commit_places, locations, places_of
from tests.support.redis import SpareServer, dropped_afterwards, redis_url, spare_server
from tests.support.services import REDIS_PORT
from tests.support.stored_indexes import create_index, open_index

pytestmark = [pytest.mark.docker, pytest.mark.invariant("P30")]

A = FileGroupId("p", "a-0")
KEYS = [f"k{number}" for number in range(40)]
DELETED, LEFT = KEYS[:30], KEYS[30:]


@pytest.fixture
def index_url(redis_server: Service) -> Iterator[str]:
    with dropped_afterwards(redis_url(redis_server)) as unused:
        yield unused


def test_purge_removes_tombstones_only(index_url: str) -> None:
    with create_index(index_url) as index:
        commit_places(index, dict.fromkeys(KEYS, A))
        commit_deletes(index, DELETED)
        assert index.purge() == len(DELETED)
        assert (index.stats().entries, index.stats().tombstones) == (len(LEFT), 0)
        assert places_of(index, KEYS) == dict.fromkeys(LEFT, A)
        commit_places(index, {DELETED[0]: A})
        assert list(places_of(index, DELETED)) == DELETED[:1]
    with open_index(index_url) as reader:
        assert floor_of(reader) == 2


def test_stale_merge_after_purge_is_refused(index_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its writer has read the bucket. Then others write the entry, delete its key, and remove the tombstone."""
    with create_index(index_url, shards=1) as late, open_index(index_url) as other:
        commit_places(other, {"stays": A})
        paused: list[None] = []

        def paused_after_reading(*arguments: Any) -> Any:
            computed = merged(*arguments)
            if not paused:
                paused.append(None)
                commit_deletes(other, ["late"])
                assert other.purge() == 1
            return computed

        with late.begin() as transaction:
            transaction.stage(locations({"late": A}))
            monkeypatch.setattr(rli_redis.writing, "merged", paused_after_reading)
            transaction.commit()
        assert paused
        assert places_of(other, ["late", "stays"]) == {"stays": A}
        assert other.stats().tombstones == 0


def test_parallel_lookup_hides_no_floor(index_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has read its shard before the purge, and notes the lower floor while a look-up after the purge notes its own."""
    with create_index(index_url, shards=1) as index, open_index(index_url) as other:
        commit_places(other, dict.fromkeys(KEYS, A))
        noted = threading.Event()

        def greatest(*values: Any, **options: Any) -> Any:
            computed = max(*values, **options)
            if threading.current_thread() is slow:
                noted.wait(1)
            return computed

        def look_up() -> None:
            places_of(index, KEYS)
            noted.set()

        slow = threading.Thread(target=places_of, args=(index, KEYS))
        monkeypatch.setattr(rli_redis.store, "max", greatest, raising=False)
        pieces = index.store._reader.pieces  # type: ignore[attr-defined]  # noqa: SLF001
        is_read = threading.Event()

        def noticed(*arguments: Any) -> Any:
            for piece in pieces(*arguments):
                is_read.set()
                yield piece

        monkeypatch.setattr(index.store._reader, "pieces", noticed)  # type: ignore[attr-defined]  # noqa: SLF001
        slow.start()
        assert is_read.wait(30)
        commit_deletes(other, DELETED)
        other.purge()
        quick = threading.Thread(target=look_up)
        quick.start()
        quick.join()
        slow.join()
        assert floor_of_look_ups(index) == 2


@pytest.fixture
def spares(redis_server: Service) -> Iterator[list[SpareServer]]:
    with ExitStack() as stack:
        yield [
            stack.enter_context(spare_server(redis_server, "--appendonly", "no", number=number)) for number in range(2)
        ]


@pytest.mark.parametrize("which", [0, 1], ids=["the server with the log", "another one"])
@pytest.mark.parametrize("snapshot", ["before the purge", "after the floor", "after the purge"])
def test_restored_server_resurrects_no_purged_key(
    redis_server: Service, spares: list[SpareServer], monkeypatch: pytest.MonkeyPatch, which: int, snapshot: str
) -> None:
    hosts = ["{}:{}".format(*spare.target) for spare in spares] + [redis_server.address(REDIS_PORT)]
    url = f"redis+shards://{','.join(hosts)}/0?name={uuid4().hex}"

    def save(now: str) -> None:
        if now == snapshot:
            with spares[which].client() as raw:
                raw.save()

    with create_index(url, shards=6) as index:
        commit_places(index, dict.fromkeys(KEYS, A))
        commit_deletes(index, DELETED)
        save("before the purge")
        raise_floor = index.store.raise_floor  # type: ignore[attr-defined]

        def raise_and_save(_: object, sequence: int) -> None:
            raise_floor(sequence)
            save("after the floor")

        monkeypatch.setattr(type(index.store), "raise_floor", raise_and_save)
        assert index.purge() == len(DELETED)
        save("after the purge")
        spares[which].kill()
        spares[which].start()
        index.begin().abort()
        assert places_of(index, KEYS) == dict.fromkeys(LEFT, A)
        # As of a process that was paused in the first commit.
        log = index.log.refresh()
        index.put(pa.array(DELETED), pack(1, np.full(len(DELETED), log.dictionary.numbers_of([A])[A])))
        assert places_of(index, KEYS) == dict.fromkeys(LEFT, A)
        index.drop()
