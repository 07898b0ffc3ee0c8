"""Reading a shard from end to end while its segments grow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from rli.errors import StoreUnavailableError
from rli.store import EncodedKeys, Entries
from rli_redis.buckets import Positions, decode
from rli_redis.reading import BYTES_PER_COMMAND
from rli_redis.segment_set import WidthAndShard
from rli_redis.segment_states import SegmentStates
from rli_redis.segments import Segment, addresses
from rli_redis.servers import Servers

_BUCKETS_AT_ONCE: Final = 200


def scan(servers: Servers, states: SegmentStates, shard: int, batch_size: int) -> Iterator[tuple[EncodedKeys, Entries]]:
    """All entries of a shard; one that is there all the time is given exactly once.

    The buckets that there are at the start are taken in turn. Where one has been split since, it is read together
    with the buckets that took its entries, in one command.
    """
    for width, own_shard in states.known():
        if own_shard == shard:
            yield from scan_segment(servers, states, (width, shard), batch_size)


def scan_segment(
    servers: Servers,
    states: SegmentStates,
    width_and_shard: WidthAndShard,
    batch_size: int,
    chosen: Callable[[int], Positions] = np.arange,
) -> Iterator[tuple[EncodedKeys, Entries]]:
    """The same of one segment, or of some of its buckets: ``chosen`` tells the numbers of those, given how many there are."""
    width, shard = width_and_shard
    segment = states.present([(width, shard)])[0]
    if segment is None:
        return
    numbers = chosen(segment.buckets)
    # Some buckets may have nearly all entries.
    largest = segment.bucket_bytes(width) * segment.buckets // max(1, len(numbers))
    count = min(_BUCKETS_AT_ONCE, max(1, BYTES_PER_COMMAND // largest))
    for start in range(0, len(numbers), count):
        some = numbers[start : start + count]
        records = decode(_read(servers, states, (width, shard), some, segment.buckets), width)
        for first in range(0, len(records.keys), batch_size):
            keys = np.ascontiguousarray(records.keys[first : first + batch_size])
            shards = np.full(len(keys), shard, dtype=np.uint16)
            yield EncodedKeys(keys, shards), records.entries[first : first + batch_size]


def _read(
    servers: Servers, states: SegmentStates, segment: tuple[int, int], some: Positions, at_start: int
) -> list[bytes]:
    """Some of the buckets that there were at the start, and all that have been split off them."""
    now = at_start
    while True:
        newer = np.arange(at_start, now)
        numbers = np.concatenate([some, newer[np.isin(addresses(newer, at_start), some)]])
        state, *buckets = servers.execute(states.read_segment(*segment, numbers))
        if state is None:
            raise states.lost(*segment)
        before, now = now, Segment.from_bytes(state).buckets
        if now < at_start:
            raise StoreUnavailableError(
                f"the server has lost its last changes during a scan: store={servers.name}", remedy="scan again"
            )
        if now == before:
            if None in buckets:
                raise states.lost(*segment)
            return buckets
