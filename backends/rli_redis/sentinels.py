"""One server whose place a replica takes when it dies: sentinels know which of them is the master at present."""

from __future__ import annotations

from typing import Final

from redis.connection import ConnectionPool
from redis.sentinel import Sentinel, SentinelConnectionPool

from rli_redis.independent_servers import IndependentServers, connection_options
from rli_redis.url import Address

# Of the options of a connection, those that a sentinel is asked with, too.
_OPTIONS_OF_SENTINELS: Final = ("socket_", "ssl_", "retry", "client_name")


class SentinelServers(IndependentServers):
    """The master that the sentinels of an address name; each new connection asks them."""

    def _name_of(self, pool: ConnectionPool) -> str:  # noqa: ARG002  (there is one)
        host, port = self._sentinels.discover_master(self._service)
        return f"{host}:{port}"

    def _make_pools(self, address: Address) -> list[ConnectionPool]:
        options = connection_options(address)
        asked_with = {name: value for name, value in options.items() if name.startswith(_OPTIONS_OF_SENTINELS)}
        self._service = address.options.sentinel or ""
        password = address.sentinel_password and address.sentinel_password.get_secret_value()
        self._sentinels = Sentinel(
            address.hosts, sentinel_kwargs=asked_with | {"ssl": address.is_encrypted, "password": password}
        )
        return [SentinelConnectionPool(self._service, self._sentinels, ssl=address.is_encrypted, **options)]
