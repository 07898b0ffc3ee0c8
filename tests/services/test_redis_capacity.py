"""``rli capacity`` says what a real server allocates."""

from __future__ import annotations

import numpy as np
import pytest
import redis

from rli.store import EncodedKeys, open_store, pack
from rli_redis.capacity import SHARDS, estimate
from tests.support.docker import Service
from tests.support.redis import spare_server
from tests.support.waiting import eventually

pytestmark = pytest.mark.docker

ENTRIES = 60_000
SEQUENCE = 300
"""Of an index with some hundred commits: two bytes in each record."""


def put_random(url: str, width: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    keys = np.frombuffer(generator.bytes(ENTRIES * width), dtype=f"V{width}")
    shards = generator.integers(0, SHARDS, ENTRIES).astype(np.uint16)
    with open_store(url, create=True) as store:
        store.put(EncodedKeys(keys, shards), pack(SEQUENCE, np.arange(ENTRIES) % 1000))


def used(server: redis.Redis) -> int:
    # The server may not have seen yet that the store has closed its connections.
    eventually(lambda: len(server.client_list()) == 1, "no other client is connected")
    # What INFO says of the clients' memory may be a second old.
    return int(server.info("memory")["used_memory"]) - sum(int(client["tot-mem"]) for client in server.client_list())


@pytest.mark.parametrize("width", [5, 16, 37])
def test_index_size_matches_estimate(redis_server: Service, width: int) -> None:
    with spare_server(redis_server) as server:
        # The first index of a server makes it load scripts, and statistics of the commands.
        put_random(server.url(name="first"), width, seed=0)
        with server.client() as raw:
            before = used(raw)
            put_random(server.url(name="default"), width, seed=1)
            assert (used(raw) - before) / ENTRIES == pytest.approx(estimate(ENTRIES, width).bytes_per_entry, rel=0.07)
