"""What a network's latency costs: look-ups and writes wait for few answers, however many keys, shards and servers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from redis.connection import Connection

from rli.store.contract import Store
from rli.store.registry import open_store
from rli.testing.batches import entries_of, get_all, key_batch, random_keys
from tests.support.docker import Service
from tests.support.hbase import new_table
from tests.support.hbase import url_of as hbase_url_of
from tests.support.redis import cluster_url
from tests.support.redis import url_of as redis_url_of
from tests.support.services import HBASE_PORT, REDIS_PORT
from tests.support.tcp_proxy import TcpProxy, tcp_proxy

pytestmark = pytest.mark.docker

SHARDS = 64
KEYS = random_keys(600, 16, seed=1)
BATCH = key_batch(KEYS, [number % SHARDS for number in range(len(KEYS))])


@pytest.fixture
def redis_proxy(redis_server: Service) -> Iterator[TcpProxy]:
    with tcp_proxy((redis_server.host, redis_server.ports[REDIS_PORT])) as proxy:
        yield proxy


@pytest.fixture
def hbase_proxy(hbase: Service) -> Iterator[TcpProxy]:
    with tcp_proxy((hbase.host, hbase.ports[HBASE_PORT])) as proxy:
        yield proxy


def put_and_get(store: Store, sequence: int) -> None:
    store.put(BATCH, entries_of(sequence, range(len(KEYS))))
    assert get_all(store, KEYS, BATCH.shards.tolist()) == entries_of(sequence, range(len(KEYS))).tolist()


def trips_of(proxy: TcpProxy, store: Store, sequence: int) -> tuple[int, int]:
    """The round trips of a write and of a look-up."""
    proxy.delay_seconds = 0.02
    before = proxy.round_trips
    store.put(BATCH, entries_of(sequence, range(len(KEYS))))
    written = proxy.round_trips
    store.get(BATCH)
    proxy.delay_seconds = 0
    return written - before, proxy.round_trips - written


def test_a_redis_server(redis_proxy: TcpProxy) -> None:
    with open_store(redis_url_of(redis_proxy.host, redis_proxy.port), create=True) as store:
        put_and_get(store, 1)
        written, read = trips_of(redis_proxy, store, 2)
        assert (written, read) == (2, 1)
        store.drop()


def test_hbase(hbase_proxy: TcpProxy) -> None:
    """Six requests of 100 keys, in turn where they write and four at a time where they read, and whether it is still there."""
    with open_store(hbase_url_of(hbase_proxy.host, hbase_proxy.port, new_table(), batch=100), create=True) as store:
        put_and_get(store, 1)
        written, read = trips_of(hbase_proxy, store, 2)
        assert written <= 7
        assert read <= 4
        store.drop()


def test_a_redis_cluster(redis_cluster: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes a command for each shard."""
    trips, was_answered = 0, True
    send: Any = Connection.send_packed_command
    read: Any = Connection.read_response

    def noted_send(self: Connection, *args: Any, **options: Any) -> None:
        nonlocal trips, was_answered
        trips, was_answered = trips + was_answered, False
        send(self, *args, **options)

    def noted_read(self: Connection, *args: Any, **options: Any) -> object:
        nonlocal was_answered
        was_answered = True
        return read(self, *args, **options)

    with open_store(cluster_url(redis_cluster), create=True) as store:
        put_and_get(store, 1)
        monkeypatch.setattr(Connection, "send_packed_command", noted_send)
        monkeypatch.setattr(Connection, "read_response", noted_read)
        store.put(BATCH, entries_of(2, range(len(KEYS))))
        assert trips <= 3
        trips = 0
        store.get(BATCH)
        assert trips == 1
        store.drop()
