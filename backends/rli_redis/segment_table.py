"""Segments with all that commands about them need, computed once.

A thousand random keys are in all shards of an index. Naming 64 segments in Python, one after the other, for each look-up would
take it as long as finding the thousand keys does.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from rli_redis.buckets import Positions
from rli_redis.keyspace import BucketPrefixes, Names
from rli_redis.segment_set import WidthAndShard
from rli_redis.segments import bucket_bytes, present_bytes, record_width
from rli_redis.servers import Servers

_TABLES: Final = 16
_LARGEST: Final = 1 << 16
"""Groups that a kept table may number: half a megabyte."""


@dataclass(frozen=True, slots=True)
class SegmentKeys:
    """The keys of a segment, and of its shard's watermark.

    Attributes:
        place: of all of them.
        watermark: the key of the watermark.
        state: the key of the segment's state.
        buckets: how those of buckets begin, in the form in which they are sent.
    """

    place: int
    watermark: bytes
    state: bytes
    buckets: bytes


@dataclass(frozen=True, slots=True)
class SegmentTable:
    """Segments in the order of their places; those of a shard are side by side.

    Attributes:
        segments: width and shard of each.
        batches: shape (n,): the batch that each is asked for.
        shards: shape (n,): the shard of each.
        places: the place of each.
        states: the key of the state of each.
        watermarks: the keys of their shards' watermarks, in the same order, each once.
        watermark_of: shape (n,): which of these belongs to each.
        prefixes: how the keys of their buckets begin.
        usual: shape (n,): about how many bytes a bucket has, at most.
        record: shape (n,): bytes of a record.
        rows: shape (greatest group + 1,): the row of each group of keys (``rli_redis.reading``).
    """

    segments: list[WidthAndShard]
    batches: Positions
    shards: Positions
    places: list[int]
    states: list[bytes]
    watermarks: list[bytes]
    watermark_of: Positions
    prefixes: BucketPrefixes
    usual: Positions
    record: Positions
    rows: Positions

    def bucket_sizes(self, states: NDArray[np.void]) -> Positions:
        """About how many bytes a bucket of each has (``present_bytes``), given their states."""
        return present_bytes(states["entries"].astype(np.int64), states["buckets"], self.usual, self.record)


class SegmentTables:
    """The keys of one index's segments; may be shared by threads."""

    def __init__(self, servers: Servers, names: Names) -> None:
        self._servers = servers
        self._names = names
        self._keys: dict[WidthAndShard, SegmentKeys] = {}
        self._tables: dict[tuple[tuple[int, ...], int, bytes], SegmentTable] = {}

    def keys_of(self, segments: Sequence[WidthAndShard]) -> list[SegmentKeys]:
        """The keys of segments."""
        return [self._keys.get(segment) or self._make_keys(segment) for segment in segments]

    def table(self, widths: tuple[int, ...], shard_bits: int, groups: Positions) -> SegmentTable:
        """The segments of some groups of keys: batch · 2^shard_bits + shard, in order; each batch has a key width."""
        asked = widths, shard_bits, groups.tobytes()
        table = self._tables.get(asked)
        if table is None:
            table = self._make_table(widths, shard_bits, groups)
            if len(self._tables) >= _TABLES:
                self._tables.clear()
            if len(table.rows) <= _LARGEST:
                self._tables[asked] = table
        return table

    def _make_table(self, widths: tuple[int, ...], shard_bits: int, groups: Positions) -> SegmentTable:
        batches, shards = groups >> shard_bits, groups & ((1 << shard_bits) - 1)
        segments = list(zip([widths[batch] for batch in batches.tolist()], shards.tolist(), strict=True))
        keys = self.keys_of(segments)
        order = np.lexsort((batches, shards, np.array([each.place for each in keys], dtype=np.int64)))
        segments, keys = ([of_groups[group] for group in order.tolist()] for of_groups in (segments, keys))
        position_of: dict[bytes, int] = {}
        watermark_of = [position_of.setdefault(each.watermark, len(position_of)) for each in keys]
        rows = np.zeros(int(groups.max(initial=0)) + 1, dtype=np.int64)
        rows[groups[order]] = np.arange(len(groups))
        return SegmentTable(
            segments=segments,
            batches=batches[order],
            shards=shards[order],
            places=[each.place for each in keys],
            states=[each.state for each in keys],
            watermarks=list(position_of),
            watermark_of=np.array(watermark_of, dtype=np.int64),
            prefixes=BucketPrefixes.of([each.buckets for each in keys]),
            usual=np.array([bucket_bytes(width) for width, _ in segments], dtype=np.int64),
            record=np.array([record_width(width) for width, _ in segments], dtype=np.int64),
            rows=rows,
        )

    def _make_keys(self, segment: WidthAndShard) -> SegmentKeys:
        _, shard = segment
        made = self._keys[segment] = SegmentKeys(
            self._servers.place(self._names, shard),
            self._names.watermark(shard),
            self._names.segment(*segment),
            self._names.packed_bucket_prefix(*segment),
        )
        return made


def runs_of_places(places: list[int]) -> Iterator[tuple[int, int]]:
    """Where each run of equal places begins and ends; places are in order."""
    start = 0
    while start < len(places):
        end = bisect_right(places, places[start], start)
        yield start, end
        start = end
