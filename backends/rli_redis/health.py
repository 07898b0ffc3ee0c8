"""What a Redis server's settings mean for an index that is kept in it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from rli.errors import SettingsError
from rli.store import Finding, Verdict
from rli_redis.servers import Command, Servers, info_fields

_LOG = logging.getLogger(__name__)

_OLDEST_VERSION: Final = (6, 2)
_NEARLY_FULL: Final = 0.9
_MEBIBYTE: Final = 1 << 20
_ADVICE_ON_EVICTION: Final = (
    "set maxmemory-policy noeviction (or a volatile-… policy: the index's keys have no expiry), keep the index on its own "
    "server, or accept the loss of entries with allow_eviction=true in the URL"
)


@dataclass(frozen=True, slots=True)
class _Server:
    """What a server says of itself: the fields of INFO."""

    address: str
    info: dict[str, str]

    @property
    def name(self) -> str:
        return f"server={self.address}"

    @property
    def is_in_cluster(self) -> bool:
        return self.info.get("cluster_enabled") == "1"

    @property
    def policy(self) -> str:
        return self.info.get("maxmemory_policy", "noeviction")

    @property
    def may_evict(self) -> bool:
        """Whether keys without expiry may go when the memory is full."""
        return self.policy.startswith("allkeys-")

    def number(self, field: str) -> int:
        return int(self.info.get(field, "0"))


def require_safe_servers(servers: Servers, *, is_cluster: bool, allow_eviction: bool) -> None:
    """Raise ``SettingsError`` for servers that would not keep an index; log what else may lose a part of it.

    Args:
        servers: the servers.
        is_cluster: whether they are looked for in a cluster.
        allow_eviction: whether they may remove keys to make room.
    """
    for server in _all(servers):
        for finding in (_persistence(server), _replicas(server)):
            if finding.verdict != Verdict.OK:
                _LOG.info("%s: store=%s %s", finding.check, servers.name, finding.detail)
        if server.is_in_cluster and not is_cluster:
            raise SettingsError(
                f"the Redis server is a node of a Redis Cluster: store={servers.name} {server.name}",
                remedy="use a URL that begins with redis+cluster://",
            )
        if server.may_evict and not allow_eviction:
            raise SettingsError(
                "the Redis server may evict entries of the index, whose keys would then be inserted twice: "
                f"store={servers.name} {server.name} maxmemory_policy={server.policy}",
                remedy=_ADVICE_ON_EVICTION,
            )


def servers_health(servers: Servers) -> list[Finding]:
    """Findings about each server of an index."""
    return [finding for server in _all(servers) for finding in _look_at(server)]


def _look_at(server: _Server) -> Iterator[Finding]:
    yield _version(server)
    yield _role(server)
    yield _eviction(server)
    yield _memory(server)
    yield _persistence(server)
    yield _replicas(server)


def _version(server: _Server) -> Finding:
    text = server.info.get("valkey_version") or server.info.get("redis_version", "0")
    product = "Valkey" if "valkey_version" in server.info else "Redis"
    detail = f"{product} {text} {server.name}"
    if tuple(int(part) for part in text.split(".")[:2]) < _OLDEST_VERSION:
        return Finding(
            "version", Verdict.PROBLEM, f"older than the tested versions: {detail}", "use Redis 6.2 or newer"
        )
    return Finding("version", Verdict.OK, detail)


def _role(server: _Server) -> Finding:
    role = server.info.get("role", "?")
    if role != "master":
        return Finding("role", Verdict.PROBLEM, f"read-only: role={role} {server.name}", "name its master in the URL")
    return Finding("role", Verdict.OK, f"role={role} {server.name}")


def _eviction(server: _Server) -> Finding:
    detail = f"maxmemory_policy={server.policy} {server.name}"
    if server.may_evict:
        return Finding("eviction", Verdict.PROBLEM, f"entries may be evicted: {detail}", _ADVICE_ON_EVICTION)
    return Finding("eviction", Verdict.OK, f"the index's keys are never evicted: {detail}")


def _memory(server: _Server) -> Finding:
    used, limit = server.number("used_memory"), server.number("maxmemory") or server.number("total_system_memory")
    detail = f"used={used / _MEBIBYTE:,.0f} MiB limit={limit / _MEBIBYTE:,.0f} MiB {server.name}"
    if limit and used > _NEARLY_FULL * limit:
        return Finding("memory", Verdict.WARNING, f"nearly full: {detail}", "raise maxmemory, or add servers")
    return Finding("memory", Verdict.OK, detail)


def _persistence(server: _Server) -> Finding:
    if server.info.get("aof_enabled") == "1":
        return Finding(
            "persistence",
            Verdict.OK,
            f"append-only file: a crash loses no more than about the last second {server.name}",
        )
    if server.info.get("rdb_last_bgsave_status") == "err":
        return Finding(
            "persistence", Verdict.PROBLEM, f"the last snapshot failed {server.name}", "see the server's log"
        )
    return Finding(
        "persistence",
        Verdict.WARNING,
        f"no append-only file: a crash loses all writes since the last snapshot, or all if there is none {server.name}",
        "set appendonly yes; the next sync applies lost commits again, as long as the journals are there",
    )


def _replicas(server: _Server) -> Finding:
    count = server.number("connected_slaves")
    if not count:
        return Finding(
            "replicas", Verdict.WARNING, f"none: no failover {server.name}", "add a replica for high availability"
        )
    return Finding("replicas", Verdict.OK, f"replicas={count} {server.name}")


def _all(servers: Servers) -> Iterator[_Server]:
    for place in servers.places_of_nodes():
        info = info_fields(servers.execute(Command(place, ("INFO",))))
        yield _Server(servers.node_name(place), info)
