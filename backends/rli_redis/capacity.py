"""What an index costs Redis: from the layout, checked against ``used_memory`` (25.4 bytes for a UUID)."""

from __future__ import annotations

from typing import Final

from rli.store import Capacity
from rli_redis.buckets import HEADER_WIDTH
from rli_redis.segments import entries_per_bucket, record_width

# Of each key: its entry in the server's table (24), its name (16), the object (16), and one and a half pointers.
_SERVER_BYTES_PER_BUCKET: Final = 68
_STRING_HEADER: Final = 6
# Allocations come in sizes that are an eighth apart on average.
_ROUNDING: Final = 1.06
_SERVER_BYTES: Final = 16 << 30
_GIBIBYTE: Final = 1 << 30
# Rewriting the append-only file, and snapshots, copy the pages that are changed meanwhile.
_HEADROOM: Final = 1.5


def estimate(entries: int, key_width: int) -> Capacity:
    """The cost of an index with fewer than 65,536 commits and file groups; with more, an entry takes 2 to 4 bytes more."""
    count = entries_per_bucket(key_width)
    value = HEADER_WIDTH + count * record_width(key_width)
    each = (_SERVER_BYTES_PER_BUCKET + _ROUNDING * (_STRING_HEADER + value)) / count
    servers = max(1, round(entries * each / _SERVER_BYTES + 0.5))
    memory = _HEADROOM * entries * each / servers / _GIBIBYTE
    advice = [
        f"maxmemory: at least {memory:,.1f} GiB for each master, which leaves room for rewriting the append-only file",
        "maxmemory-policy noeviction, appendonly yes, and a replica for each master",
    ]
    if servers > 1:
        advice.append(f"use redis+cluster or redis+shards with {servers} masters: one server works in one thread")
    return Capacity(each, "memory", servers, tuple(advice))
