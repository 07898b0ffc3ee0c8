"""What an index costs Redis: computed from the format and from how Redis allocates, checked against ``used_memory``."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from rli.store import Capacity
from rli_redis.buckets import HEADER_WIDTH
from rli_redis.keyspace import bucket_name_bytes
from rli_redis.segments import record_width, wanted_buckets

SHARDS: Final = 64
"""Shards of an index unless its maker says otherwise: enough for a cluster's nodes, and names of buckets stay short."""

_NAME: Final = "default"
_LONGEST_FREE_NAME: Final = 15

# Allocations of jemalloc, as Debian builds it: multiples of 16 up to 128 bytes, then four sizes for each power of two.
_LEAST_STEP: Final = 16
_SIZES_PER_DOUBLING: Final = 4
# An entry of the server's table of keys, the object of the value, and one and a half pointers: the table has room for
# one to two times as many keys.
_SERVER_BYTES_PER_KEY: Final = 32 + 16 + 12
_SHORT_STRING: Final = 32
_STRING_HEADER: Final = 4
"""Of a string of 32 bytes to 64 kB, its end included; two bytes fewer below."""

_BYTES_PER_SEGMENT: Final = 560
"""Its state, the shard's watermark, and its members of the set of segments."""

_SERVER_BYTES: Final = 16 << 30
_GIBIBYTE: Final = 1 << 30
# Rewriting the append-only file, and snapshots, copy the pages that are changed meanwhile.
_HEADROOM: Final = 1.5


def estimate(entries: int, key_width: int) -> Capacity:
    """The cost of an index of 256 to 65,535 commits and as many file groups.

    With fewer of both, an entry takes up to 2 bytes less; with more, up to 4 bytes more.
    """
    each = bytes_per_entry(entries, key_width, _NAME)
    servers = max(1, round(entries * each / _SERVER_BYTES + 0.5))
    # In tenths, rounded up: a limit of 0.0 would be none.
    memory = math.ceil(10 * _HEADROOM * entries * each / servers / _GIBIBYTE) / 10
    longer = bytes_per_entry(entries, key_width, "n" * (_LONGEST_FREE_NAME + 1)) - each
    advice = [
        f"maxmemory: at least {memory:,.1f} GiB for each master, with room for rewriting the append-only file",
        "maxmemory-policy noeviction, appendonly yes, and a replica for each master",
        f"keep the index's name short: beyond {_LONGEST_FREE_NAME} characters, each 16 cost {longer:.1f} bytes an entry",
    ]
    if servers > 1:
        advice.append(f"use redis+cluster or redis+shards with {servers} masters: a server works in a single thread")
    return Capacity(each, "memory", servers, tuple(advice))


def bytes_per_entry(entries: int, key_width: int, name: str, number_width: int | None = None) -> float:
    """Bytes of memory an entry takes in an index of this name.

    Args:
        entries: of the index.
        key_width: bytes of an encoded key.
        name: of the index.
        number_width: bytes of a record behind its key; as many as ``estimate`` says where it is not given.
    """
    shards = min(SHARDS, entries)
    in_segment = entries / shards
    buckets = wanted_buckets(math.ceil(in_segment), key_width)
    record = record_width(key_width) if number_width is None else key_width + number_width
    bucket = _SERVER_BYTES_PER_KEY + _string(bucket_name_bytes(name, key_width))
    values = sum(number * _value(mean, record) for number, mean in _loads(in_segment, buckets))
    return shards * (buckets * bucket + values + _BYTES_PER_SEGMENT) / entries


def _loads(entries: float, buckets: int) -> list[tuple[int, float]]:
    """How many buckets of a segment have which mean number of entries: those that were not split yet have twice as many."""
    before = 1 << (buckets.bit_length() - 1)
    is_split = buckets - before
    return [(2 * is_split, entries / (2 * before)), (before - is_split, entries / before)]


def _value(mean: float, record: int) -> float:
    """Bytes that a bucket's content takes on average: a hash spreads the entries."""
    counts = np.arange(int(mean + 10 * math.sqrt(mean) + 10))
    logarithms = np.concatenate([[0.0], np.cumsum(np.log(counts[1:]))])
    share = np.exp(counts * math.log(mean) - mean - logarithms)
    return float(_allocated(_STRING_HEADER + HEADER_WIDTH + counts * record) @ share)


def _string(length: int) -> int:
    header = _STRING_HEADER if length >= _SHORT_STRING else _STRING_HEADER - 2
    return int(_allocated(np.array([header + length]))[0])


def _allocated(sizes: NDArray[np.integer]) -> NDArray[np.float64]:
    """What is allocated for so many bytes."""
    doubling = np.floor(np.log2(np.maximum(sizes - 1, 1)))
    step = np.maximum(2.0**doubling / _SIZES_PER_DOUBLING, _LEAST_STEP)
    return np.asarray(np.ceil(sizes / step) * step)
