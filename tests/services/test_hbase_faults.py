"""What the HBase store does when servers, connections and regions fail: an error or the truth, never a wrong entry."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from rli.errors import StoreUnavailableError
from rli.store.contract import Store
from rli.store.registry import open_store
from rli.testing.batches import differences, entries_of, entry, get_all, key_batch, random_keys, scanned
from rli.testing.processes import count_up
from rli_hbase.control_record import MAX_HISTORY
from tests.support.docker import Service
from tests.support.hbase import (
    happybase_connection,
    hbase_url,
    kill_spare,
    move_regions,
    new_table,
    spare_thrift_server,
    split_region,
    start_spare,
    url_of,
)
from tests.support.services import HBASE_PORT
from tests.support.tcp_proxy import Fate, TcpProxy, tcp_proxy

pytestmark = pytest.mark.docker

KEYS = random_keys(1000, 16, seed=1)
SHARDS = [key[0] % 4 for key in KEYS]


@pytest.fixture
def table() -> str:
    return new_table()


@pytest.fixture
def direct(hbase: Service, table: str) -> Iterator[Store]:
    """The index, reached without anything between."""
    with open_store(hbase_url(hbase, table), create=True) as store:
        yield store
        store.drop()


@pytest.fixture
def proxy(hbase: Service) -> Iterator[TcpProxy]:
    with tcp_proxy((hbase.host, hbase.ports[HBASE_PORT])) as proxy:
        yield proxy


@pytest.fixture
def store(direct: Store, proxy: TcpProxy, table: str) -> Iterator[Store]:
    """The same index, reached through the proxy in batches of 100 rows."""
    assert direct.read_control("settings") is None
    with open_store(url_of(proxy.host, proxy.port, table, batch=100), create=False) as store:
        yield store


def put_all(store: Store, sequence: int) -> None:
    store.put(key_batch(KEYS, SHARDS), entries_of(sequence, range(len(KEYS))))


def expect_all(store: Store, sequence: int) -> None:
    expected = [entry(sequence, number) for number in range(len(KEYS))]
    assert differences(get_all(store, KEYS, SHARDS), expected) == []
    assert len(scanned(store, range(4))) == len(KEYS)


@pytest.mark.parametrize("fate", list(Fate))
@pytest.mark.parametrize(
    "request_name",
    [b"getRowsWithColumns", b"mutateRowsTs", b"scannerOpenWithScan", b"scannerGetList", b"getRowWithColumns"],
)
def test_batch_survives_cut_connection(
    direct: Store, store: Store, proxy: TcpProxy, request_name: bytes, fate: Fate
) -> None:
    put_all(direct, 1)
    for _ in range(3):
        proxy.once(request_name, fate)
    expect_all(store, 1)
    put_all(store, 2)
    expect_all(store, 2)
    assert proxy.is_done
    expect_all(direct, 2)


@pytest.mark.parametrize("fate", list(Fate))
def test_set_with_lost_answer_is_resolved(direct: Store, store: Store, proxy: TcpProxy, fate: Fate) -> None:
    for expected, value in ((None, b"one"), (b"one", b"two"), (b"two", None), (None, b"three")):
        proxy.once(b"checkAndPut", fate)
        assert store.compare_and_set("lease", expected, value)
        assert proxy.is_done
        assert direct.read_control("lease") == value


@pytest.mark.parametrize("others", [1, 5])
def test_overwritten_set_with_lost_answer_counts(direct: Store, store: Store, proxy: TcpProxy, others: int) -> None:
    proxy.once(b"checkAndPut", Fate.ANSWER_LOST, lambda: count_up(direct, "counter", others))
    assert store.compare_and_set("counter", None, b"10")
    assert direct.read_control("counter") == b"%d" % (10 + others)


def test_set_lost_before_rival_fails(direct: Store, store: Store, proxy: TcpProxy) -> None:
    proxy.once(b"checkAndPut", Fate.LOST_BEFORE, lambda: count_up(direct, "counter", 3))
    assert not store.compare_and_set("counter", None, b"10")
    assert direct.read_control("counter") == b"3"


def test_unresolvable_set_is_error(direct: Store, table: str, proxy: TcpProxy) -> None:
    count_up(direct, "counter", 1)
    # The attempt waits until the others have counted, however slow the server is: a second attempt
    # would find the record's history while it still reaches back.
    with open_store(url_of(proxy.host, proxy.port, table, timeout=600), create=False) as store:
        proxy.once(b"checkAndPut", Fate.LOST_BEFORE, lambda: count_up(direct, "counter", MAX_HISTORY + 1))
        with pytest.raises(StoreUnavailableError, match="unknown whether"):
            store.compare_and_set("counter", b"1", b"10")
    assert direct.read_control("counter") == b"%d" % (MAX_HISTORY + 2)


def test_cut_connections_lose_no_count(store: Store, proxy: TcpProxy) -> None:
    for fate in list(Fate) * 4:
        proxy.once(b"checkAndPut", fate)
    # However late a lost set is looked for, the record's history still reaches back to it.
    assert MAX_HISTORY > 4 * 15
    with ThreadPoolExecutor(4) as threads:
        for future in [threads.submit(count_up, store, "counter", 15) for _ in range(4)]:
            future.result()
    assert proxy.is_done
    assert store.read_control("counter") == b"60"


def test_closed_connections_are_reopened(store: Store, proxy: TcpProxy) -> None:
    put_all(store, 1)
    for _ in range(3):
        proxy.cut_all()
        expect_all(store, 1)


def test_latency_only_slows_down(store: Store, proxy: TcpProxy) -> None:
    proxy.delay_seconds = 1
    some = key_batch(KEYS[:100], SHARDS[:100])
    store.put(some, entries_of(1, range(100)))
    assert store.get(some).tolist() == entries_of(1, range(100)).tolist()
    assert store.compare_and_set("lease", None, b"mine")
    assert store.read_control("lease") == b"mine"


def test_unreachable_server_is_named(direct: Store, proxy: TcpProxy, table: str) -> None:
    put_all(direct, 1)
    with open_store(url_of(proxy.host, proxy.port, table, timeout=3), create=False) as store:
        proxy.close()
        attempts: list[Callable[[], object]] = [
            lambda: get_all(store, KEYS, SHARDS),
            lambda: put_all(store, 2),
            lambda: scanned(store, [0]),
            lambda: store.compare_and_set("lease", None, b"mine"),
        ]
        for attempt in attempts:
            with pytest.raises(StoreUnavailableError, match=f"{proxy.port}.*last cause="):
                attempt()
    expect_all(direct, 1)


def test_other_thrift_server_takes_over(hbase: Service, direct: Store, table: str) -> None:
    target = (hbase.host, hbase.ports[HBASE_PORT])
    with tcp_proxy(target) as first, tcp_proxy(target) as second:
        url = f"hbase://{first.host}:{first.port},{second.host}:{second.port}/?table={table}&batch=100"
        with open_store(url, create=False) as store:
            put_all(store, 1)
            used, unused = (first, second) if first.connections else (second, first)
            assert unused.connections == 0
            used.once(b"mutateRowsTs", Fate.ANSWER_LOST, used.close)
            put_all(store, 2)
            expect_all(store, 2)
            assert unused.connections > 0
    expect_all(direct, 2)


def restart_spare(hbase: Service, starter: ThreadPoolExecutor) -> None:
    kill_spare(hbase)
    starter.submit(start_spare, hbase)


@pytest.mark.slow
def test_thrift_server_restarts_during_batches(hbase: Service, direct: Store, table: str) -> None:
    with (
        spare_thrift_server(hbase) as target,
        tcp_proxy(target) as proxy,
        open_store(url_of(proxy.host, proxy.port, table, batch=100, timeout=120), create=False) as store,
        ThreadPoolExecutor(1) as starter,
    ):
        for sequence, request in ((1, b"mutateRowsTs"), (2, b"getRowsWithColumns")):
            # It dies with the request; its successor is awaited by the store, not by the test.
            proxy.once(request, Fate.LOST_BEFORE, lambda: restart_spare(hbase, starter))
            put_all(store, sequence)
            expect_all(store, sequence)
            assert proxy.is_done
    expect_all(direct, 2)


@pytest.mark.slow
def test_regions_split_and_move_during_work(hbase: Service, direct: Store, table: str) -> None:
    with open_store(hbase_url(hbase, table, batch=50), create=False) as store, ThreadPoolExecutor(3) as threads:
        put_all(store, 1)
        is_over = Event()

        def write() -> int:
            sequence = 1
            while not is_over.is_set():
                sequence += 1
                put_all(store, sequence)
                expect_all(store, sequence)
            return sequence

        def look_up() -> None:
            seen = 1
            while not is_over.is_set():
                found = get_all(direct, KEYS, SHARDS)
                assert [number & 0xFFFF_FFFF for number in found] == list(range(len(KEYS)))
                # Batches are written one behind the other, and nothing goes back.
                assert min(number >> 32 for number in found) >= seen
                seen = min(number >> 32 for number in found)

        writing, looking_up = threads.submit(write), threads.submit(look_up)
        counting = threads.submit(count_up, direct, "counter", 100)
        try:
            # Between shards, and within one.
            split_region(hbase, table, b"\0\2", b"\0\1", b"\0\2\x80")
            move_regions(hbase, table)
        finally:
            is_over.set()
        last = writing.result()
        looking_up.result()
        counting.result()
        expect_all(direct, last)
        assert direct.read_control("counter") == b"100"
        assert direct.stats().live_entries == len(KEYS)
    with happybase_connection(hbase) as connection:
        borders = [region["start_key"] for region in connection.table(table).regions()]
    assert borders == [b"", b"\0\1", b"\0\2", b"\0\2\x80"]
