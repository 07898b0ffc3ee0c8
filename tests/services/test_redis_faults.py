"""What the Redis store does when servers and connections fail: an error or the truth, never a wrong entry."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest

from rli.errors import StoreUnavailableError
from rli.store.contract import Store
from rli.store.registry import open_store
from rli.testing.batches import differences, entries_of, entry, get_all, key_batch, random_keys, scanned, tombstones_of
from rli.testing.processes import count_up
from rli_redis import RedisStore
from rli_redis.control import TOKENS_KEPT
from rli_redis.scripts import (
    COMPARE_AND_SET,
    CREATE_SEGMENT,
    GROW_SEGMENT,
    LIST_CONTROL,
    NOTE_SEGMENTS,
    READ_CONTROL,
    SWAP_BUCKETS,
)
from tests.support.docker import Service
from tests.support.redis import SpareServer, client_of, redis_url, spare_server, url_of
from tests.support.services import REDIS_PORT
from tests.support.tcp_proxy import Fate, TcpProxy, tcp_proxy

pytestmark = pytest.mark.docker

KEYS = random_keys(4000, 16, seed=1)
SHARDS = [key[0] % 4 for key in KEYS]

DURABLE = ("--appendonly", "yes", "--appendfsync", "always")
"""Options of a server that writes everything to its disk before it answers."""


@pytest.fixture
def url(redis_server: Service) -> str:
    return redis_url(redis_server)


@pytest.fixture
def direct(url: str) -> Iterator[Store]:
    """The index, reached without anything between."""
    with open_store(url, create=True) as store:
        yield store
        store.drop()


@pytest.fixture
def proxy(redis_server: Service) -> Iterator[TcpProxy]:
    with tcp_proxy((redis_server.host, redis_server.ports[REDIS_PORT])) as proxy:
        yield proxy


def through(proxy: TcpProxy, url: str, **options: Any) -> str:
    """The same index through a proxy."""
    return url_of(proxy.host, proxy.port, name=url.partition("name=")[2], **options)


@pytest.fixture
def store(direct: Store, proxy: TcpProxy, url: str) -> Iterator[Store]:
    """The same index, reached through the proxy."""
    assert direct.read_control("settings") is None
    with open_store(through(proxy, url), create=False) as store:
        yield store


@pytest.fixture
def known_scripts(redis_server: Service) -> None:
    """The first answer to a script is that of its work, not that nobody knows it."""
    with client_of(redis_server) as raw:
        for script in (
            COMPARE_AND_SET,
            CREATE_SEGMENT,
            GROW_SEGMENT,
            LIST_CONTROL,
            NOTE_SEGMENTS,
            READ_CONTROL,
            SWAP_BUCKETS,
        ):
            raw.script_load(script.source)


def put_all(store: Store, sequence: int) -> None:
    store.put(key_batch(KEYS, SHARDS), entries_of(sequence, range(len(KEYS))))


def expect_all(store: Store, sequence: int) -> None:
    expected = [entry(sequence, number) for number in range(len(KEYS))]
    assert differences(get_all(store, KEYS, SHARDS), expected) == []
    assert len(scanned(store, range(4))) == len(KEYS)
    stats = store.stats()
    assert (stats.live_entries, stats.tombstones) == (len(KEYS), 0)


# Connections that are cut --------------------------------------------------------------------------------------


@pytest.mark.parametrize("fate", list(Fate))
@pytest.mark.parametrize(
    "request_name",
    ["MGET", NOTE_SEGMENTS.sha, "SMEMBERS", "GET", CREATE_SEGMENT.sha, SWAP_BUCKETS.sha, GROW_SEGMENT.sha],
    ids=["MGET", "note_segments", "SMEMBERS", "GET", "create_segment", "swap_buckets", "grow_segment"],
)
@pytest.mark.usefixtures("known_scripts")
def test_batch_survives_cut_connection(
    direct: Store, store: Store, proxy: TcpProxy, request_name: str, fate: Fate
) -> None:
    for _ in range(2):
        proxy.once(request_name.encode(), fate)
    # Few entries first, so that the segments grow with the rest.
    store.put(key_batch(KEYS[:40], SHARDS[:40]), entries_of(1, range(40)))
    for sequence in (1, 2, 3):
        put_all(store, sequence)
        expect_all(store, sequence)
    assert proxy.is_done
    expect_all(direct, 3)


@pytest.mark.parametrize("fate", list(Fate))
def test_counts_survive_cut_connections(direct: Store, store: Store, proxy: TcpProxy, fate: Fate) -> None:
    put_all(direct, 1)
    batches = [
        (KEYS[:2000], tombstones_of(2, 2000)),
        (KEYS[1000:3000], entries_of(3, range(2000))),
        (KEYS[:500], tombstones_of(2, 500)),
        ([b"n" * 16], tombstones_of(1, 1)),
    ]
    for keys, entries in batches:
        proxy.once(SWAP_BUCKETS.sha.encode(), fate)
        proxy.once(SWAP_BUCKETS.sha.encode(), fate)
        store.put(key_batch(keys, [key[0] % 4 for key in keys]), entries)
    stats = direct.stats()
    assert (stats.live_entries, stats.tombstones) == (3000, 1001)


@pytest.mark.parametrize("fate", list(Fate))
def test_set_with_lost_answer_is_resolved(direct: Store, store: Store, proxy: TcpProxy, fate: Fate) -> None:
    for expected, value in ((None, b"one"), (b"one", b"two"), (b"two", None), (None, b"three")):
        proxy.once(COMPARE_AND_SET.sha.encode(), fate)
        assert store.compare_and_set("lease", expected, value)
        assert proxy.is_done
        assert direct.read_control("lease") == value
    proxy.once(COMPARE_AND_SET.sha.encode(), fate)
    assert not store.compare_and_set("lease", b"two", b"four")
    assert direct.read_control("lease") == b"three"


@pytest.mark.usefixtures("known_scripts")
@pytest.mark.parametrize("others", [1, TOKENS_KEPT - 1])
def test_overwritten_set_with_lost_answer_counts(direct: Store, store: Store, proxy: TcpProxy, others: int) -> None:
    proxy.once(COMPARE_AND_SET.sha.encode(), Fate.ANSWER_LOST, lambda: count_up(direct, "counter", others))
    assert store.compare_and_set("counter", None, b"10")
    assert direct.read_control("counter") == b"%d" % (10 + others)


def test_set_lost_before_rival_fails(direct: Store, store: Store, proxy: TcpProxy) -> None:
    proxy.once(COMPARE_AND_SET.sha.encode(), Fate.LOST_BEFORE, lambda: count_up(direct, "counter", 3))
    assert not store.compare_and_set("counter", None, b"10")
    assert direct.read_control("counter") == b"3"


@pytest.mark.usefixtures("known_scripts")
@pytest.mark.parametrize("others", [0, TOKENS_KEPT + 1])
def test_delayed_set_is_not_made_twice(direct: Store, store: Store, proxy: TcpProxy, others: int) -> None:
    """A network keeps the first attempt back until the second one was answered, and its record removed again."""
    proxy.once(COMPARE_AND_SET.sha.encode(), Fate.LOST_BEFORE)
    assert store.compare_and_set("writer", None, b"mine")
    assert store.compare_and_set("writer", b"mine", None)
    count_up(direct, "counter", others)
    proxy.deliver_lost()
    assert direct.read_control("writer") is None


def test_set_survives_many_later_changes(direct: Store, store: Store) -> None:
    assert store.read_control("lease") is None
    count_up(direct, "counter", TOKENS_KEPT + 1)
    assert store.compare_and_set("lease", None, b"mine")
    assert direct.read_control("lease") == b"mine"


@pytest.mark.parametrize(("fate", "is_mine"), [(Fate.LOST_BEFORE, False), (Fate.ANSWER_LOST, True)])
def test_record_has_single_remover(direct: Store, store: Store, proxy: TcpProxy, fate: Fate, *, is_mine: bool) -> None:
    assert store.compare_and_set("lease", None, b"mine")
    answers: list[bool] = []
    proxy.once(
        COMPARE_AND_SET.sha.encode(), fate, lambda: answers.append(direct.compare_and_set("lease", b"mine", None))
    )
    assert store.compare_and_set("lease", b"mine", None) is is_mine
    assert answers == [not is_mine]


def test_unresolvable_set_is_error(direct: Store, store: Store, proxy: TcpProxy) -> None:
    assert store.read_control("counter") is None
    proxy.once(COMPARE_AND_SET.sha.encode(), Fate.LOST_BEFORE, lambda: count_up(direct, "counter", TOKENS_KEPT + 1))
    with pytest.raises(StoreUnavailableError, match="its outcome is unknown"):
        store.compare_and_set("counter", b"1", b"10")
    assert direct.read_control("counter") == b"%d" % (TOKENS_KEPT + 1)
    assert not store.compare_and_set("counter", b"1", b"10")


def test_cut_connections_lose_no_count(store: Store, proxy: TcpProxy) -> None:
    for fate in list(Fate) * 4:
        proxy.once(COMPARE_AND_SET.sha.encode(), fate)
    with ThreadPoolExecutor(4) as threads:
        for future in [threads.submit(count_up, store, "counter", 15) for _ in range(4)]:
            future.result()
    assert proxy.is_done
    assert store.read_control("counter") == b"60"


@pytest.mark.parametrize("fate", list(Fate))
def test_control_records_are_read_whole(direct: Store, store: Store, proxy: TcpProxy, fate: Fate) -> None:
    wanted = [(f"log/{number:04}", b"%d" % number * 100) for number in range(600)]
    for name, value in wanted:
        assert direct.compare_and_set(name, None, value)
    proxy.once(LIST_CONTROL.sha.encode(), fate)
    proxy.once(READ_CONTROL.sha.encode(), fate)
    assert store.scan_control("log/") == wanted
    assert store.read_control("log/0007") == wanted[7][1]
    assert proxy.is_done


def test_closed_connections_are_reopened(redis_server: Service, store: Store, proxy: TcpProxy) -> None:
    put_all(store, 1)
    for _ in range(3):
        proxy.cut_all()
        expect_all(store, 1)
    with client_of(redis_server) as raw:
        raw.client_kill_filter(_type="normal", skipme=True)
    expect_all(store, 1)


def test_latency_only_slows_down(store: Store, proxy: TcpProxy) -> None:
    proxy.delay_seconds = 1
    some = key_batch(KEYS[:100], SHARDS[:100])
    store.put(some, entries_of(1, range(100)))
    assert store.get(some).tolist() == entries_of(1, range(100)).tolist()
    assert store.compare_and_set("lease", None, b"mine")
    assert store.read_control("lease") == b"mine"


def test_answers_beyond_deadline_are_errors(direct: Store, proxy: TcpProxy, url: str) -> None:
    put_all(direct, 1)
    with open_store(through(proxy, url, timeout=3), create=False) as store:
        proxy.delay_seconds = 20
        with pytest.raises(StoreUnavailableError, match="last cause"):
            get_all(store, KEYS, SHARDS)
        proxy.delay_seconds = 0
        proxy.cut_all()
        expect_all(store, 1)


def test_unreachable_server_is_named(direct: Store, proxy: TcpProxy, url: str) -> None:
    put_all(direct, 1)
    with open_store(through(proxy, url, timeout=2), create=False) as store:
        proxy.close()
        attempts: list[Callable[[], object]] = [
            lambda: get_all(store, KEYS, SHARDS),
            lambda: put_all(store, 2),
            lambda: scanned(store, [0]),
            lambda: store.compare_and_set("lease", None, b"mine"),
            lambda: store.read_control("lease"),
            store.stats,
            store.drop,
        ]
        for attempt in attempts:
            with pytest.raises(StoreUnavailableError, match=f"{proxy.port}.*seconds=2 last cause=.*refused"):
                attempt()
    expect_all(direct, 1)


# Scripts, threads, forks, and batches that are not read to their end ---------------------------------------------


def test_forgotten_scripts_are_resent(redis_server: Service, store: Store) -> None:
    is_over = Event()
    with client_of(redis_server) as raw, ThreadPoolExecutor(1) as threads:

        def forget() -> int:
            times = 0
            while not is_over.is_set():
                raw.script_flush()
                times += 1
            return times

        forgetting = threads.submit(forget)
        try:
            for sequence in range(1, 6):
                put_all(store, sequence)
                count_up(store, "counter", 10)
                expect_all(store, sequence)
        finally:
            is_over.set()
        assert forgetting.result() > 10
    assert store.read_control("counter") == b"50"


def test_threads_share_a_store(store: Store) -> None:
    def work(number: int) -> None:
        keys = random_keys(500, 16, seed=100 + number)
        for sequence in range(1, 6):
            store.put(key_batch(keys, number % 4), entries_of(sequence, range(500)))
            assert get_all(store, keys, number % 4) == entries_of(sequence, range(500)).tolist()
            assert len(scanned(store, [number % 4])) >= 500

    with ThreadPoolExecutor(8) as threads:
        for future in [threads.submit(work, number) for number in range(8)]:
            future.result()
    assert store.stats().live_entries == 8 * 500


def test_abandoned_work_leaves_no_answers(store: Store) -> None:
    """The connection of a look-up or a scan that stops early must not give its answers to the next one."""
    assert isinstance(store, RedisStore)
    put_all(store, 1)
    keys = key_batch(KEYS, SHARDS)
    for _ in range(5):
        pieces = store._reader.pieces([keys])  # noqa: SLF001  (get reads them all)
        next(pieces)
        del pieces
        scan = store.scan(0, 10)
        next(scan)
        del scan
    expect_all(store, 1)


def test_invalid_commands_leave_no_answers(store: Store) -> None:
    assert isinstance(store, RedisStore)
    put_all(store, 1)
    servers = store._opened()  # noqa: SLF001
    good = store._states.read_segment(16, 0, entries_of(0, [0]).astype("i8"))  # noqa: SLF001

    def commands() -> Iterator[object]:
        yield good
        yield good
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(servers.exchange(commands()))  # type: ignore[arg-type]
    expect_all(store, 1)


def test_forked_child_does_not_disturb_parent(direct: Store) -> None:
    """Not promised, but Python's own pools fork where nobody says otherwise."""
    put_all(direct, 1)
    child = os.fork()
    if child == 0:
        try:
            expect_all(direct, 1)
            os._exit(0)
        finally:
            os._exit(1)
    for _ in range(5):
        expect_all(direct, 1)
    assert os.waitpid(child, 0)[1] == 0


def test_closed_store_gives_no_wrong_answer(direct: Store, url: str) -> None:
    put_all(direct, 1)
    expected = [entry(1, number) for number in range(len(KEYS))]
    for _ in range(20):
        store = open_store(url, create=False)
        with ThreadPoolExecutor(2) as threads:

            def read(store: Store = store) -> None:
                while True:
                    assert differences(get_all(store, KEYS, SHARDS), expected) == []

            reading = threads.submit(read)
            get_all(store, KEYS, SHARDS)
            store.close()
            assert isinstance(reading.exception(), StoreUnavailableError)


# Servers that are killed ---------------------------------------------------------------------------------------


@pytest.fixture
def spare(redis_server: Service) -> Iterator[SpareServer]:
    """A server of the test's own."""
    with spare_server(redis_server, *DURABLE) as server:
        yield server


@pytest.mark.parametrize("fate", list(Fate))
@pytest.mark.parametrize(
    "request_name", ["MGET", SWAP_BUCKETS.sha, GROW_SEGMENT.sha, COMPARE_AND_SET.sha], ids=["get", "put", "grow", "set"]
)
def test_server_restarts_during_batch(spare: SpareServer, request_name: str, fate: Fate) -> None:
    with (
        tcp_proxy(spare.target) as proxy,
        ThreadPoolExecutor(1) as starter,
        open_store(url_of(proxy.host, proxy.port, name="trips"), create=True) as store,
    ):
        store.put(key_batch(KEYS[:40], SHARDS[:40]), entries_of(1, range(40)))
        count_up(store, "counter", 1)

        def restart() -> None:
            spare.kill()
            # Its successor is awaited by the store, not by the test.
            starter.submit(spare.start, *DURABLE)

        proxy.once(request_name.encode(), fate, restart)
        put_all(store, 1)
        count_up(store, "counter", 1)
        expect_all(store, 1)
        assert proxy.is_done
        put_all(store, 2)
        expect_all(store, 2)
        assert store.read_control("counter") == b"2"


def test_server_restored_from_snapshot(spare: SpareServer) -> None:
    """It has lost its last writes, as with snapshots: no error, and what is written again is there."""
    with open_store(spare.url(name="trips"), create=True) as store, spare.client() as raw:
        store.put(key_batch(KEYS[:400], SHARDS[:400]), entries_of(1, range(400)))
        raw.config_set("appendonly", "no")
        raw.save()
        put_all(store, 2)
        expect_all(store, 2)
        scan = store.scan(0, 10)
        next(scan)
        spare.kill()
        spare.start()
        # The reader knows more buckets than there are now.
        expected = [entry(1, number) for number in range(400)] + [0] * (len(KEYS) - 400)
        assert differences(get_all(store, KEYS, SHARDS), expected) == []
        assert len(scanned(store, range(4))) == 400
        put_all(store, 2)
        expect_all(store, 2)


def test_server_restored_before_shard_had_entries(spare: SpareServer) -> None:
    early = [number for number, shard in enumerate(SHARDS) if shard == 0][:10]
    with open_store(spare.url(name="trips"), create=True) as store, spare.client() as raw:
        store.put(key_batch([KEYS[number] for number in early], 0), entries_of(1, early))
        raw.config_set("appendonly", "no")
        raw.save()
        put_all(store, 2)
        expect_all(store, 2)
        spare.kill()
        spare.start()
        expected = [entry(1, number) if number in early else 0 for number in range(len(KEYS))]
        assert differences(get_all(store, KEYS, SHARDS), expected) == []
        spare.kill()
        spare.start()
        put_all(store, 3)
        expect_all(store, 3)


def test_scan_of_restored_server_is_error(spare: SpareServer) -> None:
    keys = random_keys(20_000, 16, seed=3)
    with open_store(spare.url(name="trips"), create=True) as store, spare.client() as raw:
        store.put(key_batch(keys[:100]), entries_of(1, range(100)))
        raw.config_set("appendonly", "no")
        raw.save()
        store.put(key_batch(keys), entries_of(2, range(len(keys))))
        scan = store.scan(0, 10_000)
        next(scan)
        spare.kill()
        spare.start()
        with pytest.raises(StoreUnavailableError, match="lost its last changes"):
            list(scan)
        assert len(scanned(store, [0])) == 100


def test_unseen_change_is_not_overwritten(spare: SpareServer) -> None:
    """The server loses a change, another one is made in its place, and then comes one who has read the lost one."""
    key = key_batch([b"k" * 16])
    with (
        open_store(spare.url(name="trips"), create=True) as store,
        spare.client() as raw,
        tcp_proxy(spare.target) as proxy,
        open_store(url_of(proxy.host, proxy.port, name="trips"), create=False) as late,
    ):
        store.put(key, entries_of(1, [1]))
        raw.config_set("appendonly", "no")
        raw.save()
        store.put(key_batch([b"l" * 16]), entries_of(2, [2]))

        def lose_and_write() -> None:
            # The late one reaches no server until all is done.
            proxy.target = (spare.target[0], 1)
            spare.kill()
            spare.start()
            store.put(key_batch([b"m" * 16]), entries_of(3, [3]))
            proxy.target = spare.target

        proxy.once(SWAP_BUCKETS.sha.encode(), Fate.LOST_BEFORE, lose_and_write)
        late.put(key_batch([b"n" * 16]), entries_of(4, [4]))
        assert proxy.is_done
        found = get_all(store, [letter * 16 for letter in (b"k", b"l", b"m", b"n")])
        assert found == [entry(1, 1), 0, entry(3, 3), entry(4, 4)]
        assert store.stats().live_entries == 3
