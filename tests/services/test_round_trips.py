"""What a network's latency costs: stores and verbs wait for few answers, however many keys, shards and servers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from redis.connection import Connection

import rli
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


def trips_of_verbs(proxy: TcpProxy, url: str, folder: Path, count: int) -> dict[str, int]:
    """The round trips of each verb, with batches of so many rows, of which half are new to the table."""
    trips: dict[str, int] = {}

    def count_trips(verb: str, work: Callable[[], object]) -> None:
        before = proxy.round_trips
        work()
        trips[verb] = proxy.round_trips - before

    def rows(keys: range, version: int) -> pa.Table:
        parts = [str(key % 4) for key in keys]
        return pa.table({"id": [f"{key:08}" for key in keys], "part": parts, "version": [version] * len(keys)})

    table = rli.create_table(folder, record_key="id", partition_by="part", ordering="version", index=url)
    table.upsert(rows(range(1000), 0))
    proxy.delay_seconds = 0.005
    new = range(1000, 1000 + count)
    count_trips("first upsert", lambda: table.upsert(rows(new, 1)))
    count_trips("upsert", lambda: table.upsert(rows(range(1000 + count // 2, 1000 + count + count // 2), 2)))
    count_trips("insert", lambda: table.insert(rows(range(1000 + count, 1000 + 2 * count), 3)))
    count_trips("delete", lambda: table.delete([f"{key:08}" for key in new]))
    count_trips("look-up", lambda: table.lookup([f"{key:08}" for key in new]))
    count_trips("get", lambda: table.get([f"{key:08}" for key in new]))
    count_trips("open and look up", lambda: rli.open_table(folder).lookup(["00000001"]))
    proxy.delay_seconds = 0
    return trips


def require_few(trips: dict[str, int], *, write: int, read: int, first_read: int) -> None:
    """The tables of docs/stores give the counts; these are a few more."""
    most = dict.fromkeys(trips, write) | {"look-up": read, "get": read, "open and look up": first_read}
    assert {verb: count for verb, count in trips.items() if count > most[verb]} == {}


@pytest.mark.parametrize("rows", [10, 20_000])
def test_verbs_on_redis(redis_proxy: TcpProxy, tmp_path: Path, rows: int) -> None:
    url = redis_url_of(redis_proxy.host, redis_proxy.port)
    require_few(trips_of_verbs(redis_proxy, url, tmp_path / "t", rows), write=62, read=6, first_read=16)


def test_verbs_on_hbase(hbase_proxy: TcpProxy, tmp_path: Path) -> None:
    url = hbase_url_of(hbase_proxy.host, hbase_proxy.port, new_table())
    require_few(trips_of_verbs(hbase_proxy, url, tmp_path / "t", 1000), write=65, read=6, first_read=18)


def trips_of_values(proxy: TcpProxy, url: str, folder: Path) -> list[int]:
    """The round trips of the first look-up of the records with 100 values, and of the second one."""
    with rli.create_table(folder, record_key="id", ordering="version", index=url) as table:
        names = [f"name {number}" for number in range(200)]
        table.upsert(pa.table({"id": names, "version": [1] * len(names), "name": names}))
        table.create_index("by_name", on="name")
        trips = []
        for _ in range(2):
            before = proxy.round_trips
            assert table.get(where={"name": names[:100]}).num_rows == 100
            trips.append(proxy.round_trips - before)
        table.drop_index()
    return trips


def test_values_on_redis(redis_proxy: TcpProxy, tmp_path: Path) -> None:
    """Three for the keys of the records with these values, and some for the index of the table."""
    trips = trips_of_values(redis_proxy, redis_url_of(redis_proxy.host, redis_proxy.port), tmp_path / "t")
    # The first one opens the index, and reads its list of segments and their states.
    assert trips[0] <= 14
    assert trips[1] <= 7


def test_values_on_hbase(hbase_proxy: TcpProxy, tmp_path: Path) -> None:
    """As many for 100 values as for one. The limits are a few more than the counts of docs/how-to/index-a-column.md."""
    url = hbase_url_of(hbase_proxy.host, hbase_proxy.port, new_table())
    trips = trips_of_values(hbase_proxy, url, tmp_path / "t")
    assert max(trips) <= 13


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
