"""What tests of the Redis store need of Redis itself: servers that may be killed, URLs, all keys."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

import redis

from rli.errors import IndexNotFoundError
from rli.store.registry import open_store
from tests.support.docker import Service, running_service
from tests.support.services import REDIS_PORT, SPARE_REDIS_PORTS
from tests.support.waiting import eventually


def redis_url(service: Service, *, database: int = 0, **options: object) -> str:
    """The URL of an index that nobody else uses, unless a name is among the options."""
    return url_of(service.host, service.ports[REDIS_PORT], database=database, **options)


READERS_RIGHTS: Final = (
    "+select +client|setname +info +get +mget +scard +smembers +smismember +memory|usage "
    "+eval +evalsha +hget +hmget +hlen +lindex +zcard +zrangebylex"
)
WRITERS_RIGHTS: Final = (
    "+scan +hsetnx +sadd +unlink "
    "+del +exists +getrange +hdel +hincrby +hset +llen +lpos +lpush +ltrim +mset +rename +set +setnx +zadd +zrem"
)
CLUSTER_RIGHTS: Final = "+command +cluster|slots"


def keys_of(name: str) -> list[str]:
    """The keys of one index, as an ACL names them."""
    return [f"~{{rli{name}/*", f"~{{rli}}index:{name}"]


def rights_of(name: str) -> list[str]:
    """All that docs/stores/redis.md says a user of one index needs."""
    return [*keys_of(name), *f"{READERS_RIGHTS} {WRITERS_RIGHTS} {CLUSTER_RIGHTS}".split()]


def give_rights(user: str, rights: list[str], *servers: redis.Redis) -> None:
    """Make a user with the password ``s3cret``, or give one more rights."""
    for server in servers:
        server.execute_command("ACL", "SETUSER", user, "on", ">s3cret", *rights)


def as_user(url: str, user: str) -> str:
    """The URL with a user and the password."""
    return url.replace("://", f"://{user}:s3cret@", 1)


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
def running_redis() -> Iterator[str]:
    """Host and port of a server that lives as long as the context."""
    with running_service("redis", ports=[REDIS_PORT]) as service:
        yield service.address(REDIS_PORT)


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
