"""Reading the buckets that keys belong to, while segments may grow at any moment.

Which bucket a key is in depends on how many buckets its segment has. Readers remember that number and read the
segment's state together with its buckets, in one command, which a server answers atomically: where the number turns
out to be another one, the keys of that segment are looked up again.

Keys of many widths are read together: one command may have buckets of many segments, and the watermarks of their shards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from rli.store import EncodedKeys
from rli_redis.buckets import NO_RECORDS, Positions
from rli_redis.keyspace import Names
from rli_redis.segment_set import WidthAndShard
from rli_redis.segment_states import SegmentStates
from rli_redis.segments import Segment, addresses, hashes_of
from rli_redis.servers import Command, PackedArguments, Reply, Servers
from rli_redis.watermarks import Watermark

_BUCKETS_PER_COMMAND: Final = 1000
BYTES_PER_COMMAND: Final = 1 << 19
"""About how many bytes of buckets one command reads or writes, so that a server is soon there for others."""

_NUMBER_BITS: Final = 32
_SHARD_BITS: Final = 16


@dataclass(frozen=True, slots=True)
class Piece:
    """Some buckets, all of one place and one key width, and the keys of a batch that belong to them.

    Attributes:
        batch: which of the batches the keys are of.
        requests: shape (n,): positions of the keys in the batch.
        bucket_of: shape (n,): the bucket of each key, as a position in ``buckets``.
        shards: shape (buckets,): the shard of each bucket, in order.
        numbers: shape (buckets,): its number in its segment.
        buckets: the buckets.
        segments: the state of each shard's segment when the buckets were read.
        watermarks: the watermark of each shard at that time.
    """

    batch: int
    requests: Positions
    bucket_of: Positions
    shards: Positions
    numbers: Positions
    buckets: list[bytes]
    segments: dict[int, Segment]
    watermarks: dict[int, Watermark]


class Reader:
    """Reads the buckets of one index; may be shared by threads."""

    def __init__(self, servers: Servers, names: Names, states: SegmentStates) -> None:
        self._servers = servers
        self._names = names
        self._states = states

    def pieces(self, batches: Sequence[EncodedKeys], applied: int = 0) -> Iterator[Piece]:
        """The buckets of the keys, piece by piece; keys whose segment is not there are in no piece.

        Raises:
            IndexNotFoundError: the index was dropped.
            IndexNotReadyError: a server went back to before it had a segment, and to before ``applied``.
            CorruptIndexError: buckets or watermarks are missing.
        """
        sought = _Sought.of(batches, self._names.hash_key, applied)
        waiting = np.arange(len(sought.hashes))
        while len(waiting):
            again: list[Positions] = [_NONE]
            requests = list(self._requests(sought, waiting))
            replies = self._servers.exchange([request.command for request in requests])
            for request, reply in zip(requests, replies, strict=True):
                pieces, moved = self._received(sought, request, reply)
                again.append(moved)
                yield from pieces
            waiting = np.concatenate(again)

    def _requests(self, sought: _Sought, waiting: Positions) -> Iterator[_Request]:
        groups, which = np.unique(sought.groups[waiting], return_inverse=True)
        segments = sought.segments(groups)
        seen = self._states.last_seen(segments, sought.applied)
        counts = np.array([0 if segment is None else segment.buckets for segment in seen], np.int64)
        is_there = np.flatnonzero(counts[which])
        waiting, which = waiting[is_there], which[is_there]
        numbers = addresses(sought.hashes[waiting], counts[which])
        places = _of_each([shard for _, shard in segments], lambda shard: self._servers.place(self._names, shard))
        # One number decides the order: that of the segment's place, of the segment, and of the bucket.
        rank = np.empty(len(groups), dtype=np.int64)
        rank[np.lexsort((groups, places))] = np.arange(len(groups))
        ranked = rank[which] << _NUMBER_BITS | numbers
        order = np.argsort(ranked)
        waiting, which, numbers, ranked = waiting[order], which[order], numbers[order], ranked[order]
        is_first = np.ones(len(order), dtype=bool)
        is_first[1:] = np.diff(ranked) != 0
        firsts = np.flatnonzero(is_first)
        bucket_of = np.cumsum(is_first) - 1
        sizes = np.array(
            [
                0 if segment is None else segment.bucket_bytes(width)
                for (width, _), segment in zip(segments, seen, strict=True)
            ],
            dtype=np.int64,
        )
        of_buckets = which[firsts]
        for start, end in _cuts(places[of_buckets], sizes[of_buckets]):
            first, last = firsts[start], firsts[end] if end < len(firsts) else len(order)
            own, of_own = np.unique(of_buckets[start:end], return_inverse=True)
            yield self._request(
                [segments[group] for group in own.tolist()],
                _Wanted(
                    keys=waiting[first:last],
                    bucket_of=bucket_of[first:last] - start,
                    batches=groups[own] >> _SHARD_BITS,
                    segments=of_own,
                    numbers=numbers[firsts[start:end]],
                    counts=counts[own],
                ),
            )

    def _request(self, segments: list[WidthAndShard], wanted: _Wanted) -> _Request:
        shards = sorted({shard for _, shard in segments})
        bounds = np.searchsorted(wanted.segments, np.arange(len(segments) + 1)).tolist()
        buckets = b"".join(
            self._names.packed_buckets(*segment, wanted.numbers[start:end])
            for segment, (start, end) in zip(segments, pairwise(bounds), strict=True)
        )
        watermarks = map(self._names.watermark, shards)
        states = (self._names.segment(*segment) for segment in segments)
        command = Command(
            self._servers.place(self._names, shards[0]),
            ("MGET", *watermarks, *states),
            PackedArguments(len(wanted.numbers), buckets),
        )
        return _Request(wanted, segments, shards, command)

    def _received(self, sought: _Sought, request: _Request, reply: Reply) -> tuple[list[Piece], Positions]:
        """The pieces that an answer has, and the positions of keys whose segment has grown meanwhile."""
        wanted, first = request.wanted, len(request.shards) + len(request.segments)
        states, buckets = reply[len(request.shards) : first], reply[first:]
        segments = [
            self._states.seen(segment, state, sought.applied)
            for segment, state in zip(request.segments, states, strict=True)
        ]
        is_same = [
            segment is not None and segment.buckets == count
            for segment, count in zip(segments, wanted.counts.tolist(), strict=True)
        ]
        watermarks = {
            shard: Watermark.from_bytes(watermark)
            for shard, watermark in zip(request.shards, reply, strict=False)
            if watermark is not None
        }
        for (width, shard), segment in zip(request.segments, segments, strict=True):
            if segment is not None and shard not in watermarks:
                raise self._states.lost(width, shard)
        has_grown = ~np.array(is_same)[wanted.segments]
        for position in [position for position, bucket in enumerate(buckets) if bucket is None]:
            if not has_grown[position]:
                raise self._states.lost(*request.segments[wanted.segments[position]])
            # The server has lost its last changes, growth among them.
            buckets[position] = NO_RECORDS
        moved = has_grown[wanted.bucket_of]
        pieces = [
            self._piece(sought, request, (start, end), ~moved, _Answer(segments, watermarks, buckets))
            for start, end in _runs(wanted.batches)
        ]
        return [piece for piece in pieces if len(piece.requests)], wanted.keys[moved]

    def _piece(
        self, sought: _Sought, request: _Request, run: tuple[int, int], is_kept: NDArray[np.bool_], answer: _Answer
    ) -> Piece:
        """The segments of one batch among those of an answer; ``run`` are the first and the one behind the last."""
        wanted = request.wanted
        first, last = np.searchsorted(wanted.segments, run).tolist()
        # Buckets that are out of date stay, so that positions keep their meaning; no key asks for them.
        own = np.flatnonzero((wanted.bucket_of >= first) & (wanted.bucket_of < last) & is_kept)
        batch = int(wanted.batches[run[0]])
        segments = {
            shard: segment
            for (_, shard), segment in zip(request.segments[slice(*run)], answer.segments[slice(*run)], strict=True)
        }
        return Piece(
            batch=batch,
            requests=wanted.keys[own] - sought.starts[batch],
            bucket_of=wanted.bucket_of[own] - first,
            shards=np.array(list(segments), dtype=np.int64)[wanted.segments[first:last] - run[0]],
            numbers=wanted.numbers[first:last],
            buckets=answer.buckets[first:last],
            segments={shard: segment for shard, segment in segments.items() if segment is not None},
            watermarks={shard: answer.watermarks[shard] for shard in segments if shard in answer.watermarks},
        )


@dataclass(frozen=True, slots=True)
class _Sought:
    """The keys of some batches, one after the other.

    Attributes:
        applied: the caller knows that all commits up to this sequence were applied.
        hashes: shape (n,).
        groups: shape (n,): batch · 65536 + shard.
        starts: where each batch begins.
        widths: of the keys of each batch.
    """

    applied: int
    hashes: Positions
    groups: Positions
    starts: list[int]
    widths: list[int]

    @classmethod
    def of(cls, batches: Sequence[EncodedKeys], hash_key: bytes, applied: int) -> _Sought:
        lengths = [len(keys) for keys in batches]
        return cls(
            applied=applied,
            hashes=np.concatenate([_NONE, *(hashes_of(keys.keys, hash_key) for keys in batches)]),
            groups=np.concatenate(
                [_NONE, *(number << _SHARD_BITS | keys.shards.astype(np.int64) for number, keys in enumerate(batches))]
            ),
            starts=np.cumsum([0, *lengths]).tolist(),
            widths=[keys.width for keys in batches],
        )

    def segments(self, groups: Positions) -> list[WidthAndShard]:
        """Width and shard of groups."""
        return [
            (self.widths[batch], shard)
            for batch, shard in zip(
                (groups >> _SHARD_BITS).tolist(), (groups & ((1 << _SHARD_BITS) - 1)).tolist(), strict=True
            )
        ]


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What one command reads.

    Attributes:
        keys: shape (n,): positions of the keys that it is for, among all that are sought.
        bucket_of: shape (n,), in order: the bucket of each key, as a position among those of the command.
        batches: shape (segments,): the batch of each of its segments.
        segments: shape (buckets,), in order: which of its segments each bucket is of.
        numbers: shape (buckets,): its number there.
        counts: shape (segments,): how many buckets each is taken to have.
    """

    keys: Positions
    bucket_of: Positions
    batches: Positions
    segments: Positions
    numbers: Positions
    counts: Positions


@dataclass(frozen=True, slots=True)
class _Request:
    """A command that reads the watermarks of shards, then the states of segments, then buckets."""

    wanted: _Wanted
    segments: list[WidthAndShard]
    shards: list[int]
    command: Command


@dataclass(frozen=True, slots=True)
class _Answer:
    segments: list[Segment | None]
    watermarks: dict[int, Watermark]
    buckets: list[bytes]


_NONE: Final = np.empty(0, dtype=np.int64)


def _of_each(numbers: list[int], function: Callable[[int], int]) -> Positions:
    """What a function makes of numbers, called once for each that occurs: shape (n,)."""
    values = {number: function(number) for number in set(numbers)}
    return np.array([values[number] for number in numbers], dtype=np.int64)


def _runs(batches: Positions) -> list[tuple[int, int]]:
    """Where each run of one batch begins and ends."""
    bounds = [0, *(np.flatnonzero(np.diff(batches)) + 1).tolist(), len(batches)]
    return list(pairwise(bounds))


def _cuts(places: Positions, sizes: Positions) -> Iterator[tuple[int, int]]:
    """Ranges of buckets that suit a command, all of one place, given about how many bytes each has."""
    bounds = [0, *(np.flatnonzero(np.diff(places)) + 1).tolist(), len(places)]
    ends = np.cumsum(sizes)
    for first, last in pairwise(bounds):
        start = first
        while start < last:
            fitting = int(np.searchsorted(ends, ends[start] - sizes[start] + BYTES_PER_COMMAND, "right"))
            end = min(max(fitting, start + 1), start + _BUCKETS_PER_COMMAND, last)
            yield start, end
            start = end
