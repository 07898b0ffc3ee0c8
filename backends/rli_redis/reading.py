"""Reading the buckets that keys belong to, while segments may grow at any moment.

Which bucket a key is in depends on how many buckets its segment has. Readers remember that number and read the
segment's state together with its buckets, in one command, which a server answers atomically: where the number turns
out to be another one, the keys of that segment are looked up again.

Keys of many widths are read together: one command may have buckets of many segments, and the watermarks of their shards.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from rli.store import EncodedKeys
from rli_redis.buckets import NO_RECORDS, Positions
from rli_redis.keyspace import Names
from rli_redis.segment_set import WidthAndShard
from rli_redis.segment_states import SegmentStates
from rli_redis.segment_table import SegmentTable, SegmentTables, runs_of_places
from rli_redis.segments import BYTES_PER_STATE, addresses, hashes_of
from rli_redis.servers import Command, PackedArguments, Reply, Servers
from rli_redis.watermarks import watermarks_in

_BUCKETS_AT_ONCE: Final = 1000
BYTES_PER_COMMAND: Final = 1 << 19
"""About how many bytes of buckets one command reads or writes, so that a server is soon there for others."""

_NUMBER_BITS: Final = 32
_NUMBER_MASK: Final = (1 << _NUMBER_BITS) - 1


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


class Reader:
    """Reads the buckets of one index; may be shared by threads."""

    def __init__(self, servers: Servers, names: Names, states: SegmentStates, tables: SegmentTables) -> None:
        self._servers = servers
        self._names = names
        self._states = states
        self._tables = tables

    def pieces(self, batches: Sequence[EncodedKeys], applied: int = 0, *, for_writing: bool = False) -> Iterator[Piece]:
        """The buckets of the keys, piece by piece; keys whose segment is not there are in no piece.

        Args:
            batches: the keys.
            applied: the caller knows that all commits up to this sequence were applied.
            for_writing: segments are torn only where one does not fit into a command. After a part was written, the server
                must look at each bucket of the rest before it replaces it.

        Raises:
            IndexNotFoundError: the index was dropped.
            IndexNotReadyError: a server went back to before it had a segment, and to before ``applied``.
            CorruptIndexError: buckets or watermarks are missing.
        """
        sought = _Sought.of(batches, self._names, applied)
        waiting = np.arange(len(sought.hashes))
        while len(waiting):
            again: list[Positions] = [_NONE]
            sent: deque[_Request] = deque()
            replies = self._servers.exchange(_commands(self._requests(sought, waiting, for_writing=for_writing), sent))
            for first in replies:
                request = sent.popleft()
                rest = islice(replies, len(request.commands) - 1)
                pieces, moved = self._received(sought, request, [first, *rest])
                again.append(moved)
                yield from pieces
            waiting = np.concatenate(again)

    def _requests(self, sought: _Sought, waiting: Positions, *, for_writing: bool) -> Iterator[_Request]:
        groups = sought.groups[waiting]
        # The remembered number of buckets may be old. That costs a second look for these keys and is never believed
        # unchecked: the state comes in the same answer as the buckets.
        table = self._tables.table(sought.widths, sought.shard_bits, np.flatnonzero(np.bincount(groups)))
        seen = self._states.last_seen_of(table.segments, sought.applied)
        counts = seen["buckets"].astype(np.int64)
        rows = table.rows[groups]
        # Keys of segments that are not there are in no piece: a bucket number modulo zero buckets has no meaning.
        if not counts.all():
            is_there = waiting[counts[rows] > 0]
            if len(is_there):
                yield from self._requests(sought, is_there, for_writing=for_writing)
            return
        # One number decides the order: that of the segment, and that of the bucket.
        ranked = rows << _NUMBER_BITS | addresses(sought.hashes[waiting], counts, rows)
        order = np.argsort(ranked)
        waiting, ranked = waiting[order], ranked[order]
        firsts, bucket_of = runs(ranked)
        buckets = ranked[firsts]
        of_buckets, numbers = buckets >> _NUMBER_BITS, buckets & _NUMBER_MASK
        sizes = table.bucket_sizes(seen)[of_buckets]
        for start, end in _cuts(sizes, of_buckets if for_writing else None):
            first, last = firsts[start], firsts[end] if end < len(firsts) else len(order)
            # Each segment has keys, so those of some buckets are side by side, too.
            own = slice(int(of_buckets[start]), int(of_buckets[end - 1]) + 1)
            wanted = _Wanted(
                keys=waiting[first:last],
                bucket_of=bucket_of[first:last] - start,
                segments=of_buckets[start:end] - own.start,
                numbers=numbers[start:end],
                counts=counts[own],
            )
            yield _Request.of(table, own, wanted, int(sizes[start:end].sum()))

    def _received(self, sought: _Sought, request: _Request, replies: list[Reply]) -> tuple[list[Piece], Positions]:
        """The pieces that the answers have, and the positions of keys whose segment has grown meanwhile."""
        wanted = request.wanted
        stored_watermarks, states, buckets = request.taken_apart(replies)
        segments = self._states.seen(request.segments, states, sought.applied)
        watermarks = watermarks_in(stored_watermarks)[request.watermarks]
        counts = segments["buckets"]
        # A segment is made together with its watermark in one step, so one without the other was lost.
        for position in np.flatnonzero((counts > 0) & ~watermarks["is_there"]).tolist():
            raise self._states.lost(*request.segments[position])
        has_grown = counts != wanted.counts
        for position in _missing(buckets):
            segment = wanted.segments[position]
            # The buckets that the state counts were all written when it was. A missing one was evicted or removed by
            # somebody else.
            if not has_grown[segment]:
                raise self._states.lost(*request.segments[segment])
            # The server has lost its last changes, growth among them.
            buckets[position] = NO_RECORDS
        answer = _Answer(segments["version"], watermarks, buckets)
        if not has_grown.any():
            return list(_pieces(sought, request, None, answer)), _NONE
        # All keys of such a segment are read again, also those whose bucket was not split: growing is rare.
        moved = has_grown[wanted.segments][wanted.bucket_of]
        return list(_pieces(sought, request, np.flatnonzero(~moved), answer)), wanted.keys[moved]


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
    widths: tuple[int, ...]

    @classmethod
    def of(cls, batches: Sequence[EncodedKeys], names: Names, applied: int) -> _Sought:
        lengths = [len(keys) for keys in batches]
        shards = [keys.shards.astype(np.int64) for keys in batches]
        shard_bits = max((int(own.max(initial=0)) for own in shards), default=0).bit_length()
        return cls(
            applied=applied,
            hashes=np.concatenate(
                [_NONE, *(hashes_of(keys.keys, names.hash_key, names.prefix_width) for keys in batches)]
            ),
            shard_bits=shard_bits,
            groups=np.concatenate([_NONE, *(number << shard_bits | own for number, own in enumerate(shards))]),
            starts=np.cumsum([0, *lengths]).tolist(),
            widths=tuple(keys.width for keys in batches),
        )


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What is read together.

    Attributes:
        keys: shape (n,): positions of the keys that it is for, among all that are sought.
        bucket_of: shape (n,), in order: the bucket of each key, as a position among those that are read.
        segments: shape (buckets,), in order: which of its segments each bucket is of.
        numbers: shape (buckets,): its number there.
        counts: shape (segments,): how many buckets each is taken to have.
    """

    keys: Positions
    bucket_of: Positions
    segments: Positions
    numbers: Positions
    counts: Positions


@dataclass(frozen=True, slots=True)
class _Request:
    """Commands that read the watermarks of shards, then the states of segments, then buckets: one for each place.

    Attributes:
        wanted: what they read.
        segments: the segments.
        batches: shape (segments,): the batch that each is read for.
        shards: shape (segments,): the shard of each.
        watermarks: shape (segments,): which of the watermarks is that of each segment's shard.
        commands: the commands.
        parts: how many watermarks and how many states each of them reads.
    """

    wanted: _Wanted
    segments: list[WidthAndShard]
    batches: Positions
    shards: Positions
    watermarks: Positions
    commands: list[Command]
    parts: list[tuple[int, int]]

    @classmethod
    def of(cls, table: SegmentTable, own: slice, wanted: _Wanted, size: int) -> _Request:
        """What reads buckets of some segments of a table, given about how many bytes the buckets have."""
        packed, ends = table.prefixes.rows(own).packed(wanted.segments, wanted.numbers)
        places, states, watermark_of = table.places[own], table.states[own], table.watermark_of[own].tolist()
        # A cluster has a place for each shard: arrays are asked once for all of them.
        starts = np.searchsorted(wanted.segments, np.arange(len(places) + 1))
        bounds, byte_bounds = starts.tolist(), ends[starts].tolist()
        commands, parts = [], []
        for first, last in runs_of_places(places):
            watermarks = table.watermarks[watermark_of[first] : watermark_of[last - 1] + 1]
            count = bounds[last] - bounds[first]
            command = Command(
                places[first],
                ("MGET", *watermarks, *states[first:last]),
                PackedArguments(count, (packed[byte_bounds[first] : byte_bounds[last]],)),
                size=size * count // len(wanted.numbers) + BYTES_PER_STATE * (last - first),
            )
            commands.append(command)
            parts.append((len(watermarks), last - first))
        return cls(
            wanted,
            table.segments[own],
            table.batches[own],
            table.shards[own],
            table.watermark_of[own] - watermark_of[0],
            commands,
            parts,
        )

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
    watermarks: NDArray[np.void]
    buckets: list[bytes]


_NONE: Final = np.empty(0, dtype=np.int64)
_UNLIMITED: Final = (1 << 32) - 1


def _commands(requests: Iterable[_Request], sent: deque[_Request]) -> Iterator[Command]:
    """The commands of requests, each request noted before its commands."""
    for request in requests:
        sent.append(request)
        yield from request.commands


def _pieces(sought: _Sought, request: _Request, kept: Positions | None, answer: _Answer) -> Iterator[Piece]:
    """The segments of each batch among those of an answer, with some of the keys, or with all of them."""
    wanted = request.wanted
    keys, bucket_of = (wanted.keys, wanted.bucket_of) if kept is None else (wanted.keys[kept], wanted.bucket_of[kept])
    if len(sought.widths) == 1:
        if len(keys):
            yield _piece(request, answer, 0, keys, bucket_of)
        return
    for batch in set(request.batches.tolist()):
        is_own = request.batches[wanted.segments] == batch
        requests = np.flatnonzero(is_own[bucket_of])
        if len(requests):
            # Buckets that are out of date stay, so that positions keep their meaning; no key asks for them.
            own = np.flatnonzero(is_own)
            within = np.searchsorted(own, bucket_of[requests])
            yield _piece(request, answer, batch, keys[requests] - sought.starts[batch], within, own)


def _piece(  # noqa: PLR0917  (two callers, above)
    request: _Request, answer: _Answer, batch: int, keys: Positions, bucket_of: Positions, own: Positions | None = None
) -> Piece:
    """Those of an answer's buckets that are a batch's own, or all of them."""
    segments, numbers = request.wanted.segments, request.wanted.numbers
    buckets, watermarks = answer.buckets, answer.watermarks
    if own is not None:
        segments, numbers = segments[own], numbers[own]
        buckets = [buckets[position] for position in own.tolist()]
        watermarks = watermarks[request.batches == batch]
    return Piece(
        batch=batch,
        requests=keys,
        bucket_of=bucket_of,
        shards=request.shards[segments],
        numbers=numbers,
        buckets=buckets,
        versions=answer.versions[segments],
        floors=answer.watermarks["floor"][segments],
        applied=int(watermarks["applied"][watermarks["is_there"]].min(initial=_UNLIMITED)),
    )


def _missing(buckets: Sequence[bytes | None]) -> list[int]:
    return [] if all(buckets) else [position for position, bucket in enumerate(buckets) if bucket is None]


def runs(ordered: Positions) -> tuple[Positions, Positions]:
    """Where each run of equal numbers begins, and which run each number is of."""
    is_first = np.ones(len(ordered), dtype=bool)
    is_first[1:] = ordered[1:] != ordered[:-1]
    return np.flatnonzero(is_first), np.cumsum(is_first) - 1


def _cuts(sizes: Positions, segments: Positions | None) -> Iterator[tuple[int, int]]:
    """Ranges of buckets that are read together, given about how many bytes each has.

    Given their segments (in order), too, a range ends in the middle of a segment only where it has nothing of another one.
    """
    ends = np.cumsum(sizes)
    start = 0
    while start < len(sizes):
        fitting = int(np.searchsorted(ends, ends[start] - sizes[start] + BYTES_PER_COMMAND, "right"))
        end = min(max(fitting, start + 1), start + _BUCKETS_AT_ONCE, len(sizes))
        if segments is not None and end < len(sizes):
            last = int(np.searchsorted(segments, segments[end]))
            end = last if last > start else end
        yield start, end
        start = end
