"""A Redis Cluster: a shard is in one slot, and slots move between nodes while we work."""

from __future__ import annotations

from threading import Lock

from redis.backoff import NoBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.connection import ConnectionPool
from redis.crc import key_slot
from redis.exceptions import AskError, NoScriptError, TryAgainError
from redis.retry import Retry

from rli_redis.errors import is_transient_in_cluster, translated_errors
from rli_redis.keyspace import HEADER_TAG, Names
from rli_redis.servers import Command, Reply, Servers, ask
from rli_redis.url import Address


class ClusterServers(Servers):
    """The nodes of a cluster; a place is a slot."""

    def __init__(self, address: Address) -> None:
        super().__init__(address.public_url, is_transient_in_cluster, address.options.timeout)
        self._address = address
        self._client: RedisCluster | None = None
        self._unlisted: dict[tuple[str, int], ClusterNode] = {}
        self._lock = Lock()

    def place(self, names: Names, shard: int | None = None) -> int:
        return key_slot(names.tag if shard is None else names.shard_tag(shard))

    def header_places(self) -> list[int]:
        return [key_slot(HEADER_TAG)]

    def places_of_nodes(self) -> list[int]:
        with translated_errors(self.name):
            slots = self._retries.run(self._cluster).nodes_manager.slots_cache
        return list({nodes[0].name: slot for slot, nodes in slots.items()}.values())

    def close(self) -> None:
        client, self._client = self._client, None
        for node in [*(client.get_nodes() if client is not None else ()), *self._unlisted.values()]:
            if node.redis_connection is not None:
                node.redis_connection.connection_pool.disconnect(inuse_connections=False)

    def _pool(self, place: int) -> ConnectionPool:
        client = self._cluster()
        node = client.nodes_manager.get_node_from_slot(place)
        return client.get_redis_connection(node).connection_pool

    def _look_again(self, place: int, error: BaseException) -> None:  # noqa: ARG002  (all places move together)
        # A slot that is on its way still belongs to the node that says so.
        if type(error) not in (AskError, TryAgainError):
            self._cluster().nodes_manager.initialize()

    def _ask(self, pool: ConnectionPool, command: Command) -> Reply:
        try:
            return super()._ask(pool, command)
        except AskError as moved:
            if type(moved) is not AskError:
                raise
            target = self._pool_of(moved.host, moved.port)
            try:
                return ask(target, command.packed(), asking=True)
            except NoScriptError:
                return ask(target, command.packed_in_full(), asking=True)

    def _pool_of(self, host: str, port: int) -> ConnectionPool:
        client = self._cluster()
        with self._lock:
            # A node that has no slots yet is in no list that the others give.
            node = client.get_node(host=host, port=port) or self._unlisted.setdefault(
                (host, port), ClusterNode(host, port)
            )
        return client.get_redis_connection(node).connection_pool

    def _cluster(self) -> RedisCluster:
        with self._lock:
            if self._client is None:
                self._client = RedisCluster(
                    startup_nodes=[ClusterNode(host, port) for host, port in self._address.hosts],
                    require_full_coverage=False,
                    retry=Retry(NoBackoff(), 0),
                    **self._address.connection_options(),
                )
            return self._client
