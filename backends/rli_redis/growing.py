"""Growing segments: buckets are split before they become large, without anyone waiting for it.

A segment is grown by the process that has written to it. Where someone else changes it meanwhile, nothing is done: the next
one who writes will grow it.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Final

import numpy as np

from rli_redis.buckets import STAMP_WIDTH, Positions, Records, decode, encode, random_step, stamp_of
from rli_redis.keyspace import Names
from rli_redis.reading import BYTES_PER_COMMAND
from rli_redis.scripts import GROW_SEGMENT
from rli_redis.segment_set import WidthAndShard
from rli_redis.segment_states import SegmentStates
from rli_redis.segments import VERSION_WIDTH, Segment, addresses, hashes_of, outgrows, wanted_buckets
from rli_redis.servers import Argument, Command, Reply, Servers

_NEW_BUCKETS_PER_COMMAND: Final = 1000
_SEGMENTS_AT_ONCE: Final = 64


def grow(servers: Servers, names: Names, states: SegmentStates, least: Mapping[WidthAndShard, int]) -> None:
    """Give segments the buckets that suit their entries, as far as nobody else changes them.

    Args:
        servers: of the index.
        names: of its keys.
        states: of its segments.
        least: of each of the segments: the entries that it is to have room for, if it has fewer.
    """
    segments = list(least)
    while segments:
        growths = [
            _Growth(*name, segment, max(segment.entries, least[name]))
            for name, segment in zip(segments, states.present(segments), strict=True)
            if segment is not None and outgrows(max(segment.entries, least[name]), name[0], segment.buckets)
        ]
        # Some at a time: what was read of all of them is in memory until it is written.
        starts = range(0, len(growths), _SEGMENTS_AT_ONCE)
        steps = (_grow_some(servers, names, states, growths[start : start + _SEGMENTS_AT_ONCE]) for start in starts)
        segments = list(chain.from_iterable(steps))


def _grow_some(
    servers: Servers, names: Names, states: SegmentStates, growths: Sequence[_Growth]
) -> list[WidthAndShard]:
    """Grow segments by a step; returns those that may need another one."""
    replies = servers.exchange([growth.read(states) for growth in growths])
    splits = [
        ((growth.width, growth.shard), command)
        for growth, reply in zip(growths, replies, strict=True)
        if (command := growth.split(servers, names, states, reply)) is not None
    ]
    done = servers.exchange([command for _, command in splits])
    return [name for (name, _), reply in zip(splits, done, strict=True) if reply == 1]


class _Growth:
    """One step of growing a segment, to have room for some entries."""

    def __init__(self, width: int, shard: int, segment: Segment, entries: int) -> None:
        self.width = width
        self.shard = shard
        self.before = segment.buckets
        most = min(_NEW_BUCKETS_PER_COMMAND, max(1, BYTES_PER_COMMAND // segment.bucket_bytes(width)))
        self.after = min(wanted_buckets(entries, width), self.before + most)
        self.new = np.arange(self.before, self.after)
        self.sources = np.unique(addresses(self.new, self.before))

    def read(self, states: SegmentStates) -> Command:
        """Reads what is to be split."""
        return states.read_segment(self.width, self.shard, self.sources)

    def split(self, servers: Servers, names: Names, states: SegmentStates, reply: Reply) -> Command | None:
        """Writes the parts; None where the segment has grown since."""
        state, buckets = reply[0], reply[1:]
        # Another process has split these buckets, or the server went back to before it had the segment (P33). To give up loses
        # nothing: a segment works with any number of buckets, and its next reader finds out whether it was lost.
        if state is None or Segment.from_bytes(state).buckets != self.before:
            return None
        if None in buckets:
            raise states.lost(self.width, self.shard)
        numbers = np.concatenate([self.sources, self.new])
        # Each split bucket gets another stamp, so a writer that merged on top of the old content is refused, and places
        # its keys by the new number.
        stamps = [stamp_of(bucket) + random_step() for bucket in buckets] + [secrets.randbits(32)] * len(self.new)
        content = encode(self._content(buckets, numbers, names), stamps)
        keys = [names.segment(self.width, self.shard), *names.buckets(self.width, self.shard, numbers)]
        place = servers.place(names, self.shard)
        old_stamps = b"".join([bucket[:STAMP_WIDTH] for bucket in buckets])
        arguments: list[Argument] = [self.before, secrets.token_bytes(VERSION_WIDTH), old_stamps, *content]
        # What is small is sent for many segments at once: a batch makes all shards grow at about the same time.
        return Command.run(place, GROW_SEGMENT, keys, arguments, size=sum(map(len, content)) + sum(map(len, keys)))

    def _content(self, buckets: list[bytes], numbers: Positions, names: Names) -> Records:
        records = decode(buckets, self.width)
        # The sources are in order, and so are the new ones, whose numbers are all greater.
        hashes = hashes_of(records.keys, names.hash_key, names.prefix_width)
        positions = np.searchsorted(numbers, addresses(hashes, self.after))
        return Records.sorted_into(positions, len(numbers), records.keys, records.entries)
