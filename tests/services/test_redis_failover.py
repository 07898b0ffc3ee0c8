"""A replica takes the place of its master: an open store follows, and nobody has to open it again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from uuid import uuid4

import pytest
import redis

from rli.errors import StoreUnavailableError
from rli.store.contract import Store
from rli.store.registry import open_store
from rli.testing.batches import differences, entries_of, entry, get_all, key_batch, random_keys
from rli_redis.scripts import READ_CONTROL
from tests.support.checked_writer import CheckedWriter
from tests.support.docker import Service, free_ports, running_service
from tests.support.redis import replica_of, spare_server, url_of
from tests.support.tcp_proxy import Fate, tcp_proxy
from tests.support.waiting import eventually

pytestmark = pytest.mark.docker

KEYS = random_keys(2000, 16, seed=5)
SERVICE = "trips"


def put_all(store: Store, sequence: int) -> None:
    store.put(key_batch(KEYS), entries_of(sequence, range(len(KEYS))))


def expect_all(store: Store, sequence: int) -> None:
    assert differences(get_all(store, KEYS), [entry(sequence, number) for number in range(len(KEYS))]) == []


def await_replica(master: redis.Redis, replica: redis.Redis) -> None:
    """Wait until the replica has all that its master acknowledged."""

    def has_all() -> bool:
        offset = int(master.info("replication")["master_repl_offset"])
        return int(replica.info("replication")["slave_repl_offset"]) >= offset

    eventually(has_all, "the replica has all")


# An address behind which another server is ---------------------------------------------------------------------


def test_address_of_promoted_replica_is_followed(redis_server: Service) -> None:
    """As with a name in DNS; the old master lives, and takes no writes on the connections that are open."""
    with (
        spare_server(redis_server) as master,
        replica_of(master) as replica,
        master.client() as old,
        replica.client() as new,
        tcp_proxy(master.target) as proxy,
        open_store(url_of(proxy.host, proxy.port), create=True) as store,
        ThreadPoolExecutor(4) as threads,
    ):
        put_all(store, 1)
        # Several connections are pooled.
        list(threads.map(lambda _: expect_all(store, 1), range(4)))
        await_replica(old, new)
        new.replicaof("NO", "ONE")
        old.replicaof("127.0.0.1", replica.port)
        eventually(lambda: old.info("replication")["master_link_status"] == "up", "the old master follows")
        proxy.target = replica.target
        put_all(store, 2)
        assert store.compare_and_set("lease", None, b"mine")
        list(threads.map(lambda _: expect_all(store, 2), range(4)))
        with open_store(url_of(*replica.target, name=store.url.partition("name=")[2]), create=False) as direct:
            expect_all(direct, 2)


def test_absent_replicas_are_awaited(redis_server: Service, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    with (
        spare_server(redis_server) as server,
        server.client() as raw,
        open_store(server.url(), create=True) as store,
        ThreadPoolExecutor(1) as threads,
    ):
        put_all(store, 1)
        raw.config_set("min-replicas-to-write", 1)
        writing = threads.submit(put_all, store, 2)
        eventually(lambda: "NOREPLICAS" in caplog.text, "the store has met the refusal")
        raw.config_set("min-replicas-to-write", 0)
        writing.result()
        expect_all(store, 2)


@pytest.fixture
def silence() -> Iterator[Callable[[], None]]:
    """Waits until the test is over."""
    is_over = Event()

    def wait() -> None:
        is_over.wait()

    yield wait
    is_over.set()


def test_silent_connection_is_replaced(redis_server: Service, silence: Callable[[], None]) -> None:
    with (
        spare_server(redis_server) as server,
        tcp_proxy(server.target) as proxy,
        open_store(url_of(proxy.host, proxy.port, timeout=6), create=True) as store,
    ):
        assert store.compare_and_set("settings", None, b"value")
        proxy.once(READ_CONTROL.sha.encode(), Fate.ANSWER_LOST, silence)
        assert store.read_control("settings") == b"value"
        assert proxy.is_done


# Sentinels -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Watched:
    """Two servers of one container, and the sentinel that watches them."""

    service: Service
    servers: tuple[int, int]
    sentinel: int

    def url(self, **options: object) -> str:
        named = {"sentinel": SERVICE, "name": uuid4().hex} | options
        query = "&".join(f"{name}={value}" for name, value in named.items())
        # The first sentinel does not answer.
        return f"redis://127.0.0.1:1,127.0.0.1:{self.sentinel}/0?{query}"

    def client(self, port: int) -> redis.Redis:
        return redis.Redis(self.service.host, port)

    def start(self, port: int, *options: str) -> None:
        """Start a server and wait until it answers."""
        announced = "--replica-announce-ip 127.0.0.1 --repl-diskless-sync-delay 0 --protected-mode no --save ''"
        self.service.start("sh", "-c", f"exec redis-7.0 --port {port} --bind 0.0.0.0 {announced} {' '.join(options)}")
        with self.client(port) as raw:
            eventually(lambda: _answers(raw), "the server answers")

    def start_sentinel(self) -> None:
        """Start the sentinel and wait until it knows both servers."""
        settings = (
            f"port {self.sentinel}\nbind 0.0.0.0\nprotected-mode no\nsentinel announce-ip 127.0.0.1\n"
            f"sentinel monitor {SERVICE} 127.0.0.1 {self.servers[0]} 1\n"
            f"sentinel down-after-milliseconds {SERVICE} 1000\nsentinel failover-timeout {SERVICE} 3000\n"
        )
        self.service.run("sh", "-c", f"printf '{settings}' >/tmp/sentinel.conf")
        self.service.start("sh", "-c", "exec redis-7.0 /tmp/sentinel.conf --sentinel")
        with self.client(self.sentinel) as raw:
            eventually(lambda: _answers(raw), "the sentinel answers")
            eventually(lambda: len(raw.sentinel_slaves(SERVICE)) == 1, "the sentinel knows the replica")

    def master(self) -> int:
        """The port of the server that is master by what the sentinel says."""
        with self.client(self.sentinel) as raw:
            return int(raw.sentinel_get_master_addr_by_name(SERVICE)[1])

    def kill(self, port: int) -> None:
        with self.client(port) as raw:
            process = raw.info("server")["process_id"]
        self.service.run("sh", "-c", f"kill -KILL {process}")


def _answers(raw: redis.Redis) -> bool:
    try:
        return bool(raw.ping())
    except redis.ConnectionError:
        return False


@pytest.fixture
def watched() -> Iterator[Watched]:
    first, second, sentinel = free_ports(3)
    with running_service("redis", same_ports=[first, second, sentinel]) as service:
        watched = Watched(service, (first, second), sentinel)
        watched.start(first)
        watched.start(second, "--replicaof", "127.0.0.1", str(first))
        with watched.client(second) as replica:
            eventually(lambda: replica.info("replication")["master_link_status"] == "up", "the replica follows")
        watched.start_sentinel()
        yield watched


@pytest.mark.slow
def test_replica_promoted_by_sentinels_is_followed(watched: Watched, tmp_path: Path) -> None:
    """A table's writer and a store that were open before, with the master killed."""
    url = watched.url()
    writer = CheckedWriter(tmp_path, url)
    writer.write()
    with open_store(watched.url(), create=True) as store:
        put_all(store, 1)
        first = watched.master()
        second = next(port for port in watched.servers if port != first)
        with watched.client(first) as old, watched.client(second) as new:
            await_replica(old, new)
        watched.kill(first)
        put_all(store, 2)
        expect_all(store, 2)
        assert watched.master() == second
    writer.write()
    writer.require_right_tags()
    writer.require_all()


def test_unknown_sentinel_service_is_named(watched: Watched) -> None:
    with pytest.raises(StoreUnavailableError, match="No master found for 'other'"):
        open_store(watched.url(sentinel="other", timeout=1), create=True)
