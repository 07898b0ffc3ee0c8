"""What tests of the Redis store need of Redis itself: servers that may be killed, nodes of a cluster, all keys."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import redis

from rli.errors import IndexNotFoundError
from rli.store.registry import open_store
from tests.support.docker import Service
from tests.support.services import REDIS_PORT, SPARE_REDIS_PORTS

_DEADLINE_SECONDS = 60.0


def redis_url(service: Service, *, database: int = 0, **options: object) -> str:
    """The URL of an index that nobody else uses, unless a name is among the options."""
    return url_of(service.host, service.ports[REDIS_PORT], database=database, **options)


def url_of(host: str, port: int, *, database: int = 0, **options: object) -> str:
    """The same behind any address."""
    named = {"name": uuid4().hex} | options
    return f"redis://{host}:{port}/{database}?" + "&".join(f"{name}={value}" for name, value in named.items())


def cluster_url(service: Service, **options: object) -> str:
    """The URL of an index in a cluster, that nobody else uses."""
    named = {"name": uuid4().hex} | options
    nodes = ",".join(service.address(port) for port in service.ports)
    return f"redis+cluster://{nodes}?" + "&".join(f"{name}={value}" for name, value in named.items())


@contextmanager
def dropped_afterwards(url: str) -> Iterator[str]:
    """A URL whose index is removed in the end, should there be one."""
    try:
        yield url
    finally:
        with suppress(IndexNotFoundError), open_store(url, create=False) as store:
            store.drop()


def client_of(service: Service, port: int = REDIS_PORT) -> redis.Redis:
    """Redis without rli."""
    return redis.Redis(service.host, service.ports[port])


def all_keys(*clients: redis.Redis) -> set[bytes]:
    """Every key of the clients' databases."""
    return {key for client in clients for key in client.scan_iter(count=1000)}


def eventually(is_true: Callable[[], object], what: str) -> None:
    """Wait until something is true; fail the test where it is not within a minute."""
    deadline = time.monotonic() + _DEADLINE_SECONDS
    while not is_true():
        assert time.monotonic() < deadline, f"has not come about: {what}"
        time.sleep(0.05)


@dataclass(frozen=True, slots=True)
class SpareServer:
    """A Redis server with settings of its own in the container of another one.

    Attributes:
        service: the container.
        port: of the server, in the container.
        folder: where it keeps its files, in the container.
    """

    service: Service
    port: int
    folder: str

    @property
    def target(self) -> tuple[str, int]:
        """Where it is reached."""
        return self.service.host, self.service.ports[self.port]

    def url(self, **options: Any) -> str:
        """The URL of an index in it."""
        return url_of(*self.target, **options)

    def client(self, **options: Any) -> redis.Redis:
        """The server without rli."""
        host, port = self.target
        return redis.Redis(host, port, **options)

    def start(self, *options: str) -> None:
        """Start the server and wait until it takes connections."""
        command = f"cd {self.folder} && echo $$ >pid && exec redis-7.0 --port {self.port} --bind 0.0.0.0 "
        settings = ("--protected-mode", "no", "--save", "''", *options)
        self.service.start("sh", "-c", command + " ".join(settings))
        self.service.run(
            "timeout",
            "60",
            "sh",
            "-c",
            f"until redis-cli -p {self.port} ping 2>&1 | grep -v refused; do sleep .05; done",
        )

    def kill(self) -> None:
        """Kill the server, and wait until it is gone."""
        self.service.run(
            "sh", "-c", f"cd {self.folder} && kill -KILL $(cat pid) && while kill -0 $(cat pid); do :; done"
        )


@contextmanager
def spare_server(service: Service, *options: str, number: int = 0) -> Iterator[SpareServer]:
    """A server that was started with options of redis-server; killed in the end, if it runs."""
    folder = f"/tmp/spare-{uuid4().hex}"  # noqa: S108  (in the container)
    service.run("mkdir", folder)
    server = SpareServer(service, SPARE_REDIS_PORTS[number], folder)
    server.start(*options)
    try:
        yield server
    finally:
        service.run("sh", "-c", f"kill -KILL $(cat {folder}/pid); rm -r {folder}")


@contextmanager
def replica_of(master: SpareServer, *options: str) -> Iterator[SpareServer]:
    """A second server, which follows the first one."""
    with ExitStack() as stack:
        replica = stack.enter_context(
            spare_server(master.service, "--replicaof", "127.0.0.1", str(master.port), *options, number=1)
        )
        client = replica.client()
        eventually(lambda: client.info("replication")["master_link_status"] == "up", "the replica follows")
        yield replica


@dataclass(frozen=True, slots=True)
class Cluster:
    """The nodes of a Redis Cluster, each a process in one container."""

    service: Service

    def nodes(self) -> list[dict[str, Any]]:
        """What the nodes that answer say of all of them, once they agree: id, port, flags, and slots."""
        for port in self.service.ports:
            try:
                text = self.cli(port, "cluster", "nodes")
            except AssertionError:
                continue
            fields = [line.split() for line in text.splitlines()]
            return [
                {
                    "id": one[0],
                    "port": int(one[1].partition("@")[0].rpartition(":")[2]),
                    "flags": one[2].split(","),
                    "master": one[3],
                    "slots": one[8:],
                }
                for one in fields
            ]
        raise AssertionError("no node answers")

    def cli(self, port: int, *command: str) -> str:
        """The output of redis-cli at a node."""
        return self.service.run("redis-cli", "-p", str(port), *command)

    def masters(self) -> dict[int, str]:
        """Port and id of each master that is alive and has slots."""
        return {
            node["port"]: node["id"]
            for node in self.nodes()
            if "master" in node["flags"] and "fail" not in node["flags"] and node["slots"]
        }

    def node_of_slot(self, slot: int) -> int:
        """The port of the master that has a slot."""
        for node in self.nodes():
            for item in node["slots"]:
                first, _, last = item.partition("-")
                if not item.startswith("[") and int(first) <= slot <= int(last or first):
                    port: int = node["port"]
                    return port
        raise AssertionError(f"nobody has the slot: slot={slot}")

    def kill(self, port: int) -> None:
        """Kill a node."""
        self.service.run(
            "sh", "-c", f"kill -KILL $(redis-cli -p {port} info server | tr -d '\\r' | sed -n s/process_id://p)"
        )

    def start(self, port: int) -> None:
        """Start a node that was killed; it finds its place in the cluster by itself."""
        options = "--bind 0.0.0.0 --protected-mode no --appendonly yes --save '' --cluster-enabled yes"
        self.service.start(
            "sh",
            "-c",
            f"cd {port} && exec redis-7.0 --port {port} {options} --cluster-node-timeout 1500 "
            "--cluster-announce-ip 127.0.0.1",
        )

    def start_the_dead(self) -> None:
        """Start every node that does not run."""
        for port in self.service.ports:
            code, _ = self.service.container.exec(["redis-cli", "-p", str(port), "ping"])
            if code != 0:
                self.start(port)

    def await_health(self) -> None:
        """Wait until the cluster is as its health check wants it."""
        eventually(self._is_ready, "the cluster is whole")

    def _is_ready(self) -> bool:
        code, _ = self.service.container.exec(["is-ready"])
        return bool(code == 0)
