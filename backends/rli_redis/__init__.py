"""The store of rli in Redis: one server, several independent ones, or a Redis Cluster."""

from __future__ import annotations

from rli_redis.store import RedisStore, open_redis_store

__all__ = ["RedisStore", "open_redis_store"]
