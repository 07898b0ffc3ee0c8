"""Reading the buckets that keys belong to, while segments may grow at any moment.

Which bucket a key is in depends on how many buckets its segment has. Readers remember that number and read the
segment's state together with its buckets, in one command, which a server answers atomically: where the number turns
out to be another one, the keys of that segment are looked up again.

Keys of many widths are read together: one command may have buckets of many segments, and the watermarks of their shards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from rli.store import EncodedKeys
from rli_redis.buckets import NO_RECORDS, Positions
from rli_redis.keyspace import Names, packed_buckets
from rli_redis.segment_set import WidthAndShard
from rli_redis.segment_states import SegmentStates
from rli_redis.segments import addresses, bucket_bytes, hashes_of, record_width
from rli_redis.servers import Command, PackedArguments, Reply, Servers
from rli_redis.watermarks import watermarks_in

_BUCKETS_AT_ONCE: Final = 1000
BYTES_PER_COMMAND: Final = 1 << 19
"""About how many bytes of buckets one command reads or writes, so that a server is soon there for others."""

_NUMBER_BITS: Final = 32
_BYTES_PER_STATE: Final = 100


@dataclass(frozen=True, slots=True)
class Piece:
    """Some buckets, all of one key width, and the keys of a batch that belong to them.

    Attributes:
        batch: which of the batches the keys are of.
        requests: shape (n,): positions of the keys in the batch.
        bucket_of: shape (n,): the bucket of each key, as a position in ``buckets``.
        shards: shape (buckets,): the shard of each bucket; those of a shard are side by side.
        numbers: shape (buckets,): its number in its segment.
        buckets: the buckets.
        versions: shape (buckets,): the version of each bucket's segment when the buckets were read.
        floors: shape (buckets,): the floor of each bucket's shard at that time.
        applied: up to which commit sequence all of these shards had all entries at that time.
    """

    batch: int
    requests: Positions
    bucket_of: Positions
    shards: Positions
    numbers: Positions
    buckets: list[bytes]
    versions: NDArray[np.void]
    floors: NDArray[np.uint32]
    applied: int


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


class Reader:
    """Reads the buckets of one index; may be shared by threads."""

    def __init__(self, servers: Servers, names: Names, states: SegmentStates) -> None:
        self._servers = servers
        self._names = names
        self._states = states
        self._keys: dict[WidthAndShard, SegmentKeys] = {}

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
            replies = self._servers.exchange(command for request in requests for command in request.commands)
            for request in requests:
                pieces, moved = self._received(sought, request, list(islice(replies, len(request.commands))))
                again.append(moved)
                yield from pieces
            waiting = np.concatenate(again)

    def _requests(self, sought: _Sought, waiting: Positions) -> Iterator[_Request]:
        groups, which = _distinct(sought.groups[waiting])
        segments = sought.segments(groups)
        keys = self.keys_of(segments)
        seen = self._states.last_seen_of(segments, sought.applied)
        counts = seen["buckets"].astype(np.int64)[which]
        if not counts.all():
            is_there = np.flatnonzero(counts)
            waiting, which, counts = waiting[is_there], which[is_there], counts[is_there]
        numbers = addresses(sought.hashes[waiting], counts)
        rank = _ranks([each.place for each in keys])
        # One number decides the order: that of the segment's place and of the segment, and that of the bucket.
        ranked = rank[which] << _NUMBER_BITS | numbers
        order = np.argsort(ranked)
        waiting, which, numbers = waiting[order], which[order], numbers[order]
        firsts, bucket_of = runs(ranked[order])
        of_buckets, numbers = which[firsts], numbers[firsts]
        sizes = _sizes(segments, seen)[of_buckets]
        for start, end in _cuts(sizes):
            first, last = firsts[start], firsts[end] if end < len(firsts) else len(order)
            starts, of_own = runs(of_buckets[start:end])
            own = of_buckets[start:end][starts]
            wanted = _Wanted(
                keys=waiting[first:last],
                bucket_of=bucket_of[first:last] - start,
                batches=groups[own] >> sought.shard_bits,
                shards=sought.shards_of(groups[own]),
                segments=of_own,
                numbers=numbers[start:end],
                counts=seen["buckets"][own],
            )
            chosen = own.tolist()
            yield _request(
                [segments[group] for group in chosen],
                [keys[group] for group in chosen],
                wanted,
                int(sizes[start:end].sum()),
            )

    def keys_of(self, segments: Sequence[WidthAndShard]) -> list[SegmentKeys]:
        """The keys of segments."""
        return [self._keys.get(segment) or self._make_keys(segment) for segment in segments]

    def _make_keys(self, segment: WidthAndShard) -> SegmentKeys:
        _, shard = segment
        made = self._keys[segment] = SegmentKeys(
            self._servers.place(self._names, shard),
            self._names.watermark(shard),
            self._names.segment(*segment),
            self._names.packed_bucket_prefix(*segment),
        )
        return made

    def _received(self, sought: _Sought, request: _Request, replies: list[Reply]) -> tuple[list[Piece], Positions]:
        """The pieces that the answers have, and the positions of keys whose segment has grown meanwhile."""
        wanted = request.wanted
        watermarks, states, buckets = request.taken_apart(replies)
        marks = watermarks_in(watermarks)
        segments = self._states.seen(request.segments, states, sought.applied)
        counts = segments["buckets"]
        for position in np.flatnonzero((counts > 0) & ~marks["is_there"][request.watermarks]).tolist():
            raise self._states.lost(*request.segments[position])
        has_grown = (counts != wanted.counts)[wanted.segments]
        for position in _missing(buckets):
            if not has_grown[position]:
                raise self._states.lost(*request.segments[wanted.segments[position]])
            # The server has lost its last changes, growth among them.
            buckets[position] = NO_RECORDS
        moved = has_grown[wanted.bucket_of]
        answer = _Answer(segments["version"], marks[request.watermarks], buckets)
        pieces = [self._piece(sought, wanted, batch, ~moved, answer) for batch in set(wanted.batches.tolist())]
        return [piece for piece in pieces if len(piece.requests)], wanted.keys[moved]

    def _piece(
        self, sought: _Sought, wanted: _Wanted, batch: int, is_kept: NDArray[np.bool_], answer: _Answer
    ) -> Piece:
        """The segments of one batch among those of an answer."""
        is_own = (wanted.batches == batch)[wanted.segments]
        # Buckets that are out of date stay, so that positions keep their meaning; no key asks for them.
        own = np.flatnonzero(is_own)
        requests = np.flatnonzero(is_own[wanted.bucket_of] & is_kept)
        segments = wanted.segments[own]
        marks = answer.marks[wanted.batches == batch]
        buckets = answer.buckets
        return Piece(
            batch=batch,
            requests=wanted.keys[requests] - sought.starts[batch],
            bucket_of=np.searchsorted(own, wanted.bucket_of[requests]),
            shards=wanted.shards[segments],
            numbers=wanted.numbers[own],
            buckets=buckets if len(own) == len(buckets) else [buckets[position] for position in own.tolist()],
            versions=answer.versions[segments],
            floors=answer.marks["floor"][segments],
            applied=int(marks["applied"][marks["is_there"]].min(initial=_UNLIMITED)),
        )


@dataclass(frozen=True, slots=True)
class _Sought:
    """The keys of some batches, one after the other.

    Attributes:
        applied: the caller knows that all commits up to this sequence were applied.
        hashes: shape (n,).
        shard_bits: of the greatest shard.
        groups: shape (n,): batch · 2^shard_bits + shard.
        starts: where each batch begins.
        widths: of the keys of each batch.
    """

    applied: int
    hashes: Positions
    shard_bits: int
    groups: Positions
    starts: list[int]
    widths: list[int]

    @classmethod
    def of(cls, batches: Sequence[EncodedKeys], hash_key: bytes, applied: int) -> _Sought:
        lengths = [len(keys) for keys in batches]
        shards = [keys.shards.astype(np.int64) for keys in batches]
        shard_bits = max((int(own.max(initial=0)) for own in shards), default=0).bit_length()
        return cls(
            applied=applied,
            hashes=np.concatenate([_NONE, *(hashes_of(keys.keys, hash_key) for keys in batches)]),
            shard_bits=shard_bits,
            groups=np.concatenate([_NONE, *(number << shard_bits | own for number, own in enumerate(shards))]),
            starts=np.cumsum([0, *lengths]).tolist(),
            widths=[keys.width for keys in batches],
        )

    def segments(self, groups: Positions) -> list[WidthAndShard]:
        """Width and shard of groups."""
        return [
            (self.widths[batch], shard)
            for batch, shard in zip((groups >> self.shard_bits).tolist(), self.shards_of(groups).tolist(), strict=True)
        ]

    def shards_of(self, groups: Positions) -> Positions:
        """The shards of groups."""
        return groups & ((1 << self.shard_bits) - 1)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What is read together.

    Attributes:
        keys: shape (n,): positions of the keys that it is for, among all that are sought.
        bucket_of: shape (n,), in order: the bucket of each key, as a position among those that are read.
        batches: shape (segments,): the batch of each of its segments.
        shards: shape (segments,): the shard of each.
        segments: shape (buckets,), in order: which of its segments each bucket is of.
        numbers: shape (buckets,): its number there.
        counts: shape (segments,): how many buckets each is taken to have.
    """

    keys: Positions
    bucket_of: Positions
    batches: Positions
    shards: Positions
    segments: Positions
    numbers: Positions
    counts: Positions


@dataclass(frozen=True, slots=True)
class _Request:
    """Commands that read the watermarks of shards, then the states of segments, then buckets: one for each place.

    Attributes:
        wanted: what they read.
        segments: the segments.
        watermarks: shape (segments,): which of the watermarks is that of each segment's shard.
        commands: the commands.
        parts: how many watermarks and how many states each of them reads.
    """

    wanted: _Wanted
    segments: list[WidthAndShard]
    watermarks: Positions
    commands: list[Command]
    parts: list[tuple[int, int]]

    def taken_apart(self, replies: list[Reply]) -> tuple[list[bytes | None], list[bytes | None], list[bytes]]:
        """The watermarks, states and buckets in the answers."""
        watermarks: list[bytes | None] = []
        states: list[bytes | None] = []
        buckets: list[bytes] = []
        for (shards, segments), reply in zip(self.parts, replies, strict=True):
            watermarks += reply[:shards]
            states += reply[shards : shards + segments]
            buckets += reply[shards + segments :]
        return watermarks, states, buckets


@dataclass(frozen=True, slots=True)
class _Answer:
    """What was read: the version of each segment, the watermark of its shard, and the buckets."""

    versions: NDArray[np.void]
    marks: NDArray[np.void]
    buckets: list[bytes]


_NONE: Final = np.empty(0, dtype=np.int64)
_UNLIMITED: Final = (1 << 32) - 1


def _request(segments: list[WidthAndShard], keys: list[SegmentKeys], wanted: _Wanted, size: int) -> _Request:
    packed, ends = packed_buckets([each.buckets for each in keys], wanted.segments, wanted.numbers)
    position_of: dict[bytes, int] = {}
    watermarks = [position_of.setdefault(each.watermark, len(position_of)) for each in keys]
    names = list(position_of)
    commands, parts = [], []
    for first, last in runs_of_places([each.place for each in keys]):
        of_shards = names[min(watermarks[first:last]) : max(watermarks[first:last]) + 1]
        start, end = np.searchsorted(wanted.segments, (first, last)).tolist()
        command = Command(
            keys[first].place,
            ("MGET", *of_shards, *[each.state for each in keys[first:last]]),
            PackedArguments(end - start, packed[ends[start] : ends[end]]),
            size=size * (end - start) // len(wanted.numbers) + _BYTES_PER_STATE * (last - first),
        )
        commands.append(command)
        parts.append((len(of_shards), last - first))
    return _Request(wanted, segments, np.array(watermarks, dtype=np.int64), commands, parts)


def _distinct(groups: Positions) -> tuple[Positions, Positions]:
    """The different numbers, all of them small, in order, and which of them each is."""
    found = np.flatnonzero(np.bincount(groups))
    position = np.empty(int(groups.max(initial=0)) + 1, dtype=np.int64)
    position[found] = np.arange(len(found))
    return found, position[groups]


def _ranks(places: list[int]) -> Positions:
    """The position of each segment in the order of their places."""
    ranks = np.empty(len(places), dtype=np.int64)
    ranks[np.argsort(np.array(places, dtype=np.int64), kind="stable")] = np.arange(len(places))
    return ranks


def _missing(buckets: Sequence[bytes | None]) -> list[int]:
    return [] if all(buckets) else [position for position, bucket in enumerate(buckets) if bucket is None]


def runs(ordered: Positions) -> tuple[Positions, Positions]:
    """Where each run of equal numbers begins, and which run each number is of."""
    is_first = np.ones(len(ordered), dtype=bool)
    is_first[1:] = ordered[1:] != ordered[:-1]
    return np.flatnonzero(is_first), np.cumsum(is_first) - 1


def runs_of_places(places: list[int]) -> Iterator[tuple[int, int]]:
    """Where each run of equal places begins and ends."""
    starts = [position for position, place in enumerate(places) if not position or place != places[position - 1]]
    return pairwise([*starts, len(places)])


def _sizes(segments: list[WidthAndShard], states: NDArray[np.void]) -> Positions:
    """About how many bytes a bucket of each segment has; more than it should where the segment is about to grow."""
    usual = {width: (bucket_bytes(width), record_width(width)) for width in {width for width, _ in segments}}
    least, record = np.array([usual[width] for width, _ in segments], dtype=np.int64).T
    return np.maximum(least, states["entries"].astype(np.int64) * record // np.maximum(states["buckets"], 1))


def _cuts(sizes: Positions) -> Iterator[tuple[int, int]]:
    """Ranges of buckets that are read together, given about how many bytes each has."""
    ends = np.cumsum(sizes)
    start = 0
    while start < len(sizes):
        fitting = int(np.searchsorted(ends, ends[start] - sizes[start] + BYTES_PER_COMMAND, "right"))
        end = min(max(fitting, start + 1), start + _BUCKETS_AT_ONCE, len(sizes))
        yield start, end
        start = end
