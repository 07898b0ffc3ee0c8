"""One server, or several that know nothing of each other: shards go round them, control records are on the first."""

from __future__ import annotations

from typing import Any

from redis.backoff import NoBackoff
from redis.connection import Connection, ConnectionPool, SSLConnection, UnixDomainSocketConnection
from redis.retry import Retry

from rli_redis.errors import is_transient
from rli_redis.keyspace import Names
from rli_redis.servers import Servers
from rli_redis.url import Address


class IndependentServers(Servers):
    """The servers of an address that names each of them."""

    def __init__(self, address: Address) -> None:
        super().__init__(address.public_url, is_transient, address.options.timeout)
        self._pools = self._make_pools(address)

    def place(self, names: Names, shard: int | None = None) -> int:  # noqa: ARG002  (a server keeps all indexes alike)
        return 0 if shard is None else shard % len(self._pools)

    @property
    def is_single(self) -> bool:
        return len(self._pools) == 1

    def header_places(self) -> list[int]:
        return list(range(len(self._pools)))

    def places_of_nodes(self) -> list[int]:
        return self.header_places()

    def close(self) -> None:
        for pool in self._pools:
            pool.disconnect(inuse_connections=False)

    def _look_again(self, place: int, error: BaseException) -> None:  # noqa: ARG002
        # An address may lead to another server by now, as after a failover: new connections find it, idle ones do not.
        self._pools[place].disconnect(inuse_connections=False)

    def _pool(self, place: int) -> ConnectionPool:
        return self._pools[place]

    def _make_pools(self, address: Address) -> list[ConnectionPool]:
        options = connection_options(address)
        if address.socket_path is not None:
            return [ConnectionPool(UnixDomainSocketConnection, path=address.socket_path, **options)]
        kind = SSLConnection if address.is_encrypted else Connection
        return [ConnectionPool(kind, host=host, port=port, **options) for host, port in address.hosts]


def connection_options(address: Address) -> dict[str, Any]:
    """Arguments of connections that repeat nothing: that, and for how long, is decided by ``rli_redis.servers``."""
    return address.connection_options() | {"retry": Retry(NoBackoff(), 0)}
