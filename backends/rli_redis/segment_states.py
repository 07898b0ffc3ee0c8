"""The states of segments: which there are, and whether one that is missing was lost or never made.

Which bucket a key is in depends on how many buckets its segment has. ``SegmentStates`` remembers what it last saw of each
segment; a reader that goes by it checks it with the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from rli.errors import CorruptIndexError
from rli_redis.buckets import Positions
from rli_redis.keyspace import Names
from rli_redis.lifecycle import Presence
from rli_redis.placing import by_place
from rli_redis.segment_set import WidthAndShard, confirmed_segments, known_segments, makings
from rli_redis.segments import BYTES_PER_STATE, Segment, bucket_bytes, states_in
from rli_redis.servers import Command, Servers
from rli_redis.watermarks import Watermark


class SegmentStates:
    """The segments of one index. Shared by threads: what it remembers is checked with each answer."""

    def __init__(self, servers: Servers, names: Names, presence: Presence) -> None:
        self._servers = servers
        self._names = names
        self._presence = presence
        self._stored: dict[WidthAndShard, bytes] = {}

    def present(self, segments: Sequence[WidthAndShard], applied: int = 0) -> list[Segment | None]:
        """The present state of segments; None where one is not there yet, or not any more on a server that went back.

        Raises:
            IndexNotFoundError: the index was dropped.
            IndexNotReadyError: a server went back to before it had a segment, and to before ``applied``.
            CorruptIndexError: a segment was there, and is not any more.
        """
        found = self._read_states(segments)
        if missing := [segment for segment in segments if segment not in found]:
            self._require_never_made(missing, applied)
        self._stored |= found
        return _segments([found.get(segment) for segment in segments])

    def all_present(self) -> list[tuple[int, int, Segment]]:
        """Width, shard and present state of every segment, in order; raises like ``present``."""
        known = self.known()
        return [
            (width, shard, segment)
            for (width, shard), segment in zip(known, self.present(known), strict=True)
            if segment is not None
        ]

    def last_seen(self, segments: Sequence[WidthAndShard], applied: int = 0) -> list[Segment | None]:
        """Segments as they were when they were last read; those that never were are read now."""
        return _segments(self._last_stored(segments, applied))

    def last_seen_of(self, segments: Sequence[WidthAndShard], applied: int = 0) -> NDArray[np.void]:
        """The same as ``states_in`` gives it."""
        return states_in(self._last_stored(segments, applied))

    def _last_stored(self, segments: Sequence[WidthAndShard], applied: int) -> list[bytes | None]:
        # By functions of C: there are often as many segments as shards, for a few keys each.
        stored = list(map(self._stored.get, segments))
        if all(stored):
            return stored
        self.present([segment for segment, state in zip(segments, stored, strict=True) if state is None], applied)
        return list(map(self._stored.get, segments))

    def still_there(self, segments: Iterable[WidthAndShard]) -> set[WidthAndShard]:
        """Which segments are there now; the others, whose server went back to before them, are forgotten."""
        asked = set(segments)
        found = self._read_states(asked)
        for gone in asked - found.keys():
            self._stored.pop(gone, None)
        self._stored |= found
        return set(found)

    def seen(self, segments: Sequence[WidthAndShard], states: Sequence[bytes | None], applied: int) -> NDArray[np.void]:
        """Remember the states of segments; forget one that its server went back to before, or raise if it was lost.

        Returns:
            What ``states_in`` makes of them.
        """
        seen = states_in(states)
        there = {segment: state for segment, state in zip(segments, states, strict=True) if state is not None}
        self._stored |= there
        for segment in () if len(there) == len(segments) else segments:
            if segment not in there:
                self._require_never_made([segment], applied)
                self._stored.pop(segment, None)
        return seen

    def read_segment(self, width: int, shard: int, numbers: Positions) -> Command:
        """The command that reads a segment's state and some of its buckets, atomically."""
        keys = [self._names.segment(width, shard), *self._names.buckets(width, shard, numbers)]
        size = BYTES_PER_STATE + sum(map(len, keys)) + len(numbers) * bucket_bytes(width)
        return Command(self._place(shard), ("MGET", *keys), size=size)

    def known(self) -> list[WidthAndShard]:
        """Width and shard of each segment that may have entries, in order."""
        known = known_segments(self._servers, self._names)
        if known is None:
            raise self._lost_list()
        return known

    def lost(self, width: int, shard: int) -> CorruptIndexError:
        """The error for a segment that lacks something; raises ``IndexNotFoundError`` if the index was dropped."""
        return self._presence.lost(self._names, f"entries of shard {shard} with keys of {width} bytes")

    def _lost_list(self) -> CorruptIndexError:
        return self._presence.lost(self._names, "the list of its parts")

    def _read_states(self, segments: Iterable[WidthAndShard]) -> dict[WidthAndShard, bytes]:
        parts = list(by_place(segments, lambda segment: self._place(segment[1])))
        replies = self._servers.exchange(
            [
                Command(
                    place,
                    ("MGET", *(self._names.segment(*segment) for segment in some)),
                    size=BYTES_PER_STATE * len(some),
                )
                for place, some in parts
            ]
        )
        return {
            segment: state
            for (_, some), states in zip(parts, replies, strict=True)
            for segment, state in zip(some, states, strict=True)
            if state is not None
        }

    def _require_never_made(self, segments: list[WidthAndShard], applied: int) -> None:
        """Raise if segments that were not there just now have been there before, unless their server went back."""
        self._presence.require(self._names)
        # First the segments, then the list. A segment that is made in between is in the list, and so it is read once
        # more below.
        confirmed = confirmed_segments(self._servers, self._names, segments)
        if confirmed is None:
            raise self._lost_list()
        if not confirmed:
            return
        made = makings(self._servers, self._names)
        # Before the second look: if a watermark has passed the making of a segment that was made again, the look finds
        # the segment.
        watermarks = self._watermarks_of({shard for _, shard in confirmed})
        # Unless they were made a moment ago.
        found = self._read_states(confirmed)
        for segment in confirmed:
            if segment not in found:
                self._require_gone_back(segment, watermarks.get(segment[1]), made.get(segment), applied)

    def _require_gone_back(
        self, segment: WidthAndShard, watermark: Watermark | None, made: tuple[int, int] | None, applied: int
    ) -> None:
        """Raise unless a shard's watermark is one of before a segment was made, and counts all that is applied."""
        # A watermark that is beyond the making has seen the segment. So the server kept its past, and lost the segment
        # alone (P33).
        if watermark is None or made is None or watermark.applied > made[0] or watermark.greatest > made[1]:
            raise self.lost(*segment)
        if watermark.applied < applied:
            raise self._presence.went_back(applied, watermark.applied)

    def _watermarks_of(self, shards: Iterable[int]) -> dict[int, Watermark]:
        parts = list(by_place(shards, self._place))
        replies = self._servers.exchange(
            [
                Command(place, ("MGET", *map(self._names.watermark, some)), size=BYTES_PER_STATE * len(some))
                for place, some in parts
            ]
        )
        return {
            shard: Watermark.from_bytes(watermark)
            for (_, some), watermarks in zip(parts, replies, strict=True)
            for shard, watermark in zip(some, watermarks, strict=True)
            if watermark is not None
        }

    def _place(self, shard: int) -> int:
        return self._servers.place(self._names, shard)


def _segments(states: Sequence[bytes | None]) -> list[Segment | None]:
    return [None if state is None else Segment.from_bytes(state) for state in states]
