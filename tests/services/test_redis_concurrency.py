"""Many processes write, read and scan the same segments of a Redis index while these grow, and nothing goes wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pytest

from rli.codec.entries import TOMBSTONE, pack
from rli.store.contract import Store
from rli.store.registry import open_store
from rli.testing.batches import key_batch, numbered_keys
from rli.testing.processes import run_in_processes
from tests.support.docker import Service
from tests.support.redis import cluster_url, dropped_afterwards, redis_url
from tests.support.services import REDIS_PORT

pytestmark = [pytest.mark.docker, pytest.mark.slow]

SHARDS = 2
ROUNDS = 25
EARLY = numbered_keys(1000, 16)
"""Keys that are there all the time."""
SHARED = numbered_keys(6000, 16, first=1 << 20)
"""Keys that all writers change."""


@pytest.fixture(params=["one server", "independent servers", "cluster"])
def store(
    request: pytest.FixtureRequest, redis_server: Service, second_redis_server: Service, redis_cluster: Service
) -> Iterator[Store]:
    urls = {
        "one server": redis_url(redis_server),
        "independent servers": f"redis+shards://{redis_server.address(REDIS_PORT)},"
        f"{second_redis_server.address(REDIS_PORT)}/0?name=concurrency",
        "cluster": cluster_url(redis_cluster),
    }
    with dropped_afterwards(urls[request.param]) as url, open_store(url, create=True) as store:
        yield store


def changes(writer: int) -> Iterator[tuple[list[bytes], list[int], np.ndarray]]:
    """What a writer writes: keys, their shards, their entries; every change has a sequence of its own."""
    generator = np.random.default_rng(writer)
    for number in range(ROUNDS):
        sequence = 10 + number * 10 + writer
        chosen = generator.choice(len(SHARED), 600, replace=False)
        own = numbered_keys(200, 16, first=(writer + 2 << 24) + number * 200)
        keys = [SHARED[position] for position in chosen.tolist()] + own
        groups = np.concatenate([chosen, np.arange(200)])
        # Some of them are deletions.
        groups[:: writer + 3] = TOMBSTONE
        yield keys, [key[-1] % SHARDS for key in keys], pack(sequence, groups)


def write(store: Store, writer: int) -> None:
    for keys, shards, entries in changes(writer):
        store.put(key_batch(keys, shards), entries)
        # What was written is there at once, or something newer.
        assert (store.get(key_batch(keys, shards)) >= entries).all()


def look_up(store: Store) -> int:
    """Look up what is there all the time, until all is written."""
    shards = [key[-1] % SHARDS for key in EARLY]
    expected = pack(1, np.arange(len(EARLY)))
    times = 0
    while store.read_control("over") is None:
        assert (store.get(key_batch(EARLY, shards)) == expected).all()
        times += 1
    return times


def scan(store: Store) -> int:
    """Scan until all is written: each key at most once, and those that are there all the time exactly once."""
    times = 0
    while store.read_control("over") is None:
        for shard in range(SHARDS):
            seen = [key for keys, _ in store.scan(shard, 500) for key in keys.to_bytes()]
            assert len(seen) == len(set(seen))
            assert {key for key in EARLY if key[-1] % SHARDS == shard} <= set(seen)
        times += 1
    return times


def write_and_say(store: Store, writer: int, writers: int) -> int:
    """Write, and say so in the end; the last one ends the others' work."""
    write(store, writer)
    while True:
        done = store.read_control("done")
        count = int(done or b"0") + 1
        if store.compare_and_set("done", done, b"%d" % count):
            break
    if count == writers:
        store.compare_and_set("over", None, b"1")
    return count


def test_concurrent_writers_lose_or_repeat_nothing(store: Store) -> None:
    shards = [key[-1] % SHARDS for key in EARLY]
    store.put(key_batch(EARLY, shards), pack(1, np.arange(len(EARLY))))
    works: list[Callable[[Store], int]] = [look_up, scan]
    works += [partial(write_and_say, writer=number, writers=3) for number in range(3)]
    assert min(run_in_processes(works, store)) >= 1
    model = dict(zip(EARLY, pack(1, np.arange(len(EARLY))).tolist(), strict=True))
    for writer in range(3):
        for keys, _, entries in changes(writer):
            for key, entry in zip(keys, entries.tolist(), strict=True):
                if entry >> 32 > model.get(key, 0) >> 32:
                    model[key] = entry
    found = store.get(key_batch(list(model), [key[-1] % SHARDS for key in model]))
    assert (found == np.array(list(model.values()), dtype=np.uint64)).all()
    content: dict[bytes, int] = {}
    for shard in range(SHARDS):
        for batch, entries in store.scan(shard, 10_000):
            content |= dict(zip(batch.to_bytes(), entries.tolist(), strict=True))
    assert content == model
    stats = store.stats()
    tombstones = sum(entry & 0xFFFF_FFFF == TOMBSTONE for entry in model.values())
    assert (stats.live_entries, stats.tombstones) == (len(model) - tombstones, tombstones)
