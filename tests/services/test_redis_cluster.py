"""The Redis store in a cluster whose masters die and whose slots move, while it works."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import count
from threading import Event

import pytest
from redis.crc import key_slot

from rli.store.contract import Store
from rli.store.registry import open_store
from rli.testing.batches import differences, entries_of, entry, get_all, key_batch, random_keys, scanned
from rli.testing.processes import count_up
from rli_redis import RedisStore
from tests.support.docker import Service
from tests.support.redis import cluster_url, dropped_afterwards
from tests.support.redis_cluster import Cluster
from tests.support.soak import cases
from tests.support.waiting import eventually

pytestmark = [pytest.mark.docker, pytest.mark.slow]

SHARDS = 16
KEYS = random_keys(4000, 16, seed=1)
SHARD_OF = [key[0] % SHARDS for key in KEYS]
COMMITS = count(1)


@pytest.fixture
def url(redis_cluster: Service) -> Iterator[str]:
    with dropped_afterwards(cluster_url(redis_cluster, timeout=90)) as url:
        yield url


@pytest.fixture
def cluster(redis_cluster: Service, url: str) -> Iterator[Cluster]:
    """A cluster in order, and in order again before the index at the URL is dropped."""
    _ = url
    cluster = Cluster(redis_cluster)
    cluster.mend()
    yield cluster
    cluster.mend()


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with open_store(url, create=True) as store:
        yield store


def put_all(store: Store, sequence: int) -> None:
    store.put(key_batch(KEYS, SHARD_OF), entries_of(sequence, range(len(KEYS))))


def expect_all(store: Store, sequence: int) -> None:
    expected = [entry(sequence, number) for number in range(len(KEYS))]
    assert differences(get_all(store, KEYS, SHARD_OF), expected) == []


@contextmanager
def work_going_on(store: Store, *, others: int = 0, full_shard: int | None = None) -> Iterator[Callable[[], int]]:
    """Someone who writes, reads and scans all the time, and more and more keys; gives how many rounds are done.

    Others add so many entries meanwhile. A full shard gets no more keys.
    """
    is_over = Event()
    before = store.stats().live_entries
    rounds: list[int] = []

    def write() -> int:
        while True:
            sequence = next(COMMITS)
            put_all(store, sequence)
            expect_all(store, sequence)
            more = random_keys(500, 12, seed=sequence)
            growing = (sequence + (sequence % SHARDS == full_shard)) % SHARDS
            store.put(key_batch(more, growing), entries_of(1, range(500)))
            assert get_all(store, more, growing) == entries_of(1, range(500)).tolist()
            for shard in (sequence % SHARDS, (sequence + 1) % SHARDS):
                seen = scanned(store, [shard])
                assert {key for key, own in zip(KEYS, SHARD_OF, strict=True) if own == shard} <= {
                    key for _, key in seen
                }
            rounds.append(sequence)
            if is_over.is_set():
                return sequence

    with ThreadPoolExecutor(1) as threads:
        working: Future[int] = threads.submit(write)

        def done() -> int:
            if working.done():
                working.result()
            return len(rounds)

        try:
            yield done
        finally:
            is_over.set()
        last = working.result()
    expect_all(store, last)
    stats = store.stats()
    assert (stats.live_entries, stats.tombstones) == (before + others + 500 * len(rounds), 0)


def until_more_is_done(done: Callable[[], int]) -> None:
    already = done()
    eventually(lambda: done() > already + 1, "work goes on")


def slot_of(store: Store, shard: int) -> int:
    assert isinstance(store, RedisStore)
    return key_slot(store._names.shard_tag(shard))  # noqa: SLF001  (to move it)


def test_replica_replaces_killed_master(cluster: Cluster, store: Store) -> None:
    """The writer pauses while the master dies, so that the replica has all that was acknowledged: see the next test."""
    put_all(store, next(COMMITS))
    for shard in range(min(3, cases(1))):
        port = cluster.node_of_slot(slot_of(store, shard))
        eventually(partial(has_followers, cluster, port), "the replica has all")
        cluster.kill(port)
        # No waiting here: the store finds the new master by itself.
        with work_going_on(store) as done:
            until_more_is_done(done)
            assert port not in cluster.masters()
            assert len(cluster.masters()) == 3
            cluster.mend()
            until_more_is_done(done)


def has_followers(cluster: Cluster, port: int) -> bool:
    """Whether a replica of a master has got all that the master has written."""
    said = cluster.tell(port, "INFO", "replication")
    return "slave0" in said and said["slave0"]["offset"] == said["master_repl_offset"]


def test_lost_acknowledged_entries_can_be_repeated(cluster: Cluster, store: Store) -> None:
    """Replication is asynchronous. What is there is never wrong, and a repeated batch is whole."""
    put_all(store, next(COMMITS))
    port = cluster.node_of_slot(slot_of(store, 3))
    eventually(lambda: has_followers(cluster, port), "the replica has all")
    with ThreadPoolExecutor(1) as threads:
        killing = threads.submit(cluster.kill, port)
        first = last = next(COMMITS)
        while not killing.done() or port in cluster.masters():
            last = next(COMMITS)
            put_all(store, last)
        killing.result()
    found = get_all(store, KEYS, SHARD_OF)
    allowed = [{entry(sequence, number) for sequence in range(first - 1, last + 1)} for number in range(len(KEYS))]
    assert [number for number, one in enumerate(found) if one not in allowed[number]] == []
    put_all(store, last)
    expect_all(store, last)
    assert store.stats().live_entries == len(KEYS)


def test_ordered_master_change_is_followed(cluster: Cluster, store: Store) -> None:
    put_all(store, next(COMMITS))
    count_up(store, "counter", 1)
    with work_going_on(store) as done, ThreadPoolExecutor(1) as threads:
        counting = threads.submit(count_up, store, "counter", 200)
        for _ in range(cases(1)):
            cluster.fail_over_to(min(node.port for node in cluster.nodes() if node.is_replica))
            cluster.await_order()
            until_more_is_done(done)
        counting.result()
    assert store.read_control("counter") == b"201"


def test_slots_that_move_during_work(cluster: Cluster, store: Store) -> None:
    put_all(store, next(COMMITS))
    with work_going_on(store) as done:
        for _ in range(2):
            one, other = sorted(cluster.masters().items())[:2]
            for source, target in ((one, other), (other, one)):
                cluster.service.run(
                    *("redis-cli", "--cluster", "reshard", f"127.0.0.1:{source[0]}", "--cluster-yes"),
                    *("--cluster-from", source[1], "--cluster-to", target[1]),
                    *("--cluster-slots", "1500", "--cluster-pipeline", "1"),
                )
                until_more_is_done(done)
                cluster.await_order()


def test_half_moved_slot_is_served(cluster: Cluster, store: Store) -> None:
    """Half of a shard's keys are moved, then nothing happens for some time, then the rest follows."""
    put_all(store, next(COMMITS))
    slot = slot_of(store, 5)
    source = cluster.node_of_slot(slot)
    masters = cluster.masters()
    target = next(port for port in masters if port != source)
    cluster.tell(target, "CLUSTER SETSLOT", slot, "IMPORTING", masters[source])
    cluster.tell(source, "CLUSTER SETSLOT", slot, "MIGRATING", masters[target])
    half = cluster.tell(source, "CLUSTER COUNTKEYSINSLOT", slot) // 2
    assert half > 3
    move_keys(cluster, slot, half, source, target)
    refusals = tryagain_errors(cluster, source, target)
    # As long as two nodes have the slot, neither makes new keys in it: the shard must not grow.
    with work_going_on(store, others=1, full_shard=5) as done, ThreadPoolExecutor(1) as threads:
        making = threads.submit(store.put, key_batch([b"new width"], 5), entries_of(1, [1]))
        # The slot is neither here nor there: those who need several of its keys wait.
        eventually(lambda: tryagain_errors(cluster, source, target) > refusals + 3, "the store has tried again")
        assert done() == 0
        assert not making.done()
        move_keys(cluster, slot, 10_000, source, target)
        # All keys are there, but the slot is not given yet: the store asks the new node.
        until_more_is_done(done)
        assert not making.done()
        for port in (target, source):
            cluster.tell(port, "CLUSTER SETSLOT", slot, "NODE", masters[target])
        until_more_is_done(done)
        making.result()
    assert get_all(store, [b"new width"], 5) == [entry(1, 1)]


def move_keys(cluster: Cluster, slot: int, most: int, source: int, target: int) -> None:
    """Move so many keys of a slot from one node to another."""
    keys = cluster.tell(source, "CLUSTER GETKEYSINSLOT", slot, most)
    assert cluster.tell(source, "MIGRATE", "127.0.0.1", target, "", 0, 5000, "KEYS", *keys) == b"OK"


def tryagain_errors(cluster: Cluster, *ports: int) -> int:
    """How often nodes have answered that a command cannot be served while keys are moved."""
    said = [cluster.tell(port, "INFO", "errorstats") for port in ports]
    return sum(one.get("errorstat_TRYAGAIN", {"count": 0})["count"] for one in said)
