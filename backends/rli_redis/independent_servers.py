"""One server, or several that know nothing of each other: shards go round them, control records are on the first."""

from __future__ import annotations

from redis.backoff import NoBackoff
from redis.connection import Connection, ConnectionPool, SSLConnection, UnixDomainSocketConnection
from redis.retry import Retry

from rli_redis.address import Address
from rli_redis.errors import is_transient
from rli_redis.names import Names
from rli_redis.servers import Servers


class IndependentServers(Servers):
    """The servers of an address that names each of them."""

    def __init__(self, address: Address) -> None:
        super().__init__(address.public_url, is_transient, address.options.timeout)
        self._pools = _pools(address)

    def place(self, names: Names, shard: int | None = None) -> int:  # noqa: ARG002  (a server keeps all indexes alike)
        return 0 if shard is None else shard % len(self._pools)

    def header_places(self) -> list[int]:
        return list(range(len(self._pools)))

    def places_of_nodes(self) -> list[int]:
        return self.header_places()

    def close(self) -> None:
        for pool in self._pools:
            pool.disconnect(inuse_connections=False)

    def _look_again(self, error: BaseException) -> None:
        pass  # where everything is stands in the URL

    def _pool(self, place: int) -> ConnectionPool:
        return self._pools[place]


def _pools(address: Address) -> list[ConnectionPool]:
    # What is repeated, and for how long, is decided in one place: rli_redis.servers.
    options = address.connection_options() | {"retry": Retry(NoBackoff(), 0)}
    if address.socket_path is not None:
        return [ConnectionPool(UnixDomainSocketConnection, path=address.socket_path, **options)]
    kind = SSLConnection if address.is_encrypted else Connection
    return [ConnectionPool(kind, host=host, port=port, **options) for host, port in address.hosts]
