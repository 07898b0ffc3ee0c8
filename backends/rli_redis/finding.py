"""Finding the entries whose keys begin alike: the buckets that may have them are read, those of many shards in one command.

In an index with a prefix width, a beginning tells the few buckets of a shard that may have its keys (``rli_redis.segments``). In others,
any bucket may have them, and all are read. Python decodes only the buckets that hold the bytes of a prefix.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from operator import add, gt
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rli.store import EncodedKeys, Entries, keys_that_begin
from rli_redis.beginnings import Asked, Beginnings
from rli_redis.buckets import Positions, decode
from rli_redis.control import ControlRecords
from rli_redis.keyspace import BucketPrefixes, Names
from rli_redis.lifecycle import Presence
from rli_redis.reading import BYTES_PER_COMMAND
from rli_redis.scanning import scan_segment
from rli_redis.segment_set import WidthAndShard, counting
from rli_redis.segment_states import SegmentStates
from rli_redis.segment_table import SegmentKeys, SegmentTables
from rli_redis.segments import (
    BYTES_PER_STATE,
    bucket_bytes,
    present_bytes,
    record_width,
)
from rli_redis.servers import Command, PackedArguments, Reply, Servers, incarnation_commands, incarnation_in
from rli_redis.watermarks import watermarks_in

_BUCKETS_AT_ONCE: Final = 4_096
_LARGEST_SEGMENT: Final = 1 << 22
"""Bytes of a segment of which several buckets are read in one command: any of them may be the large ones."""
_SEGMENTS_AT_ONCE: Final = 1 << 24
"""The same of all segments of a command."""
_FOUND_AT_ONCE: Final = 1 << 16

Found = Iterator[tuple[EncodedKeys, Entries]]


@dataclass(frozen=True, slots=True)
class _Segments:
    """Segments, in the order of their places.

    Attributes:
        names: width and shard of each.
        keys: what each is called.
        of_shards: shape (n,): the position of each segment's shard among the shards that are sought.
        buckets: shape (n,): how many each is taken to have.
        sizes: shape (n,): about how many bytes a bucket of each has, if all its buckets are alike.
    """

    names: list[WidthAndShard]
    keys: list[SegmentKeys]
    of_shards: Positions
    buckets: Positions
    sizes: Positions

    def take(self, positions: Positions) -> _Segments:
        """Some of them."""
        chosen = positions.tolist()
        return _Segments(
            [self.names[each] for each in chosen],
            [self.keys[each] for each in chosen],
            self.of_shards[positions],
            self.buckets[positions],
            self.sizes[positions],
        )


@dataclass(frozen=True, slots=True)
class _Lot:
    """What one command reads.

    Attributes:
        segments: of one place.
        asked: their buckets that are read.
        size: about how many bytes these have.
    """

    segments: _Segments
    asked: Asked
    size: int

    def command(self) -> Command:
        """Reads watermarks, states and buckets at one moment."""
        keys = self.segments.keys
        packed, _ = BucketPrefixes.of([each.buckets for each in keys]).packed(self.asked.segment_of, self.asked.numbers)
        names = chain((each.watermark for each in keys), (each.state for each in keys))
        size = self.size + 2 * BYTES_PER_STATE * len(keys)
        return Command(keys[0].place, ("MGET", *names), PackedArguments(len(self.asked.numbers), (packed,)), size=size)


@dataclass(frozen=True, slots=True)
class _Listing:
    """What segments there may be.

    Attributes:
        incarnation: of the server with the list, asked before its length.
        setbacks: how often lost changes of control records had been noticed by then.
        length: of the list, asked before it was read.
        widths: of all segments of each shard.
    """

    incarnation: str
    setbacks: int
    length: int
    widths: Mapping[int, list[int]]


class Finder:
    """Finds entries by the beginning of their keys; may be shared by threads.

    Args:
        servers: of the index.
        names: of its keys.
        presence: raises errors of lost parts.
        states: of its segments.
        tables: name the keys of segments.
        control: notices a server that went back.
        note_floor: is told the floors that were met.
    """

    def __init__(  # noqa: PLR0917  (made in one place)
        self,
        servers: Servers,
        names: Names,
        presence: Presence,
        states: SegmentStates,
        tables: SegmentTables,
        control: ControlRecords,
        note_floor: Callable[[int], None],
    ) -> None:
        self._servers = servers
        self._names = names
        self._presence = presence
        self._states = states
        self._tables = tables
        self._control = control
        self._note_floor = note_floor
        self._known: _Listing | None = None

    def find(self, prefixes: EncodedKeys, applied: int) -> Found:
        """As ``Store.find``.

        Raises:
            IndexNotFoundError: the index was dropped.
            IndexNotReadyError: a server went back to before ``applied``.
            CorruptIndexError: buckets or watermarks are missing.
        """
        sought = Beginnings.of(prefixes, self._names)
        known = self._known or self._listed()
        while True:
            lots, large = self._planned(prefixes.width, known, sought, applied)
            # The length of the list comes in the same answer as the buckets: a longer one may have segments that were not asked.
            replies = self._servers.exchange(chain(self._looking(), (lot.command() for lot in lots)))
            if self._is_still(known, replies):
                break
            replies.close()
            known = self._listed()
        for lot, reply in zip(lots, replies, strict=True):
            found, grown = self._received(lot, reply, applied, prefixes, sought)
            yield from found
            large += grown
        for segment in large:
            yield from self._scanned(segment, applied, sought.of_shard(segment[1]))

    def _planned(
        self, width: int, known: _Listing, sought: Beginnings, applied: int
    ) -> tuple[list[_Lot], list[WidthAndShard]]:
        """What is read together, and the segments that are read one by one."""
        segments = self._present(width, known, sought, applied)
        counts = sought.most_asked(segments.of_shards, segments.buckets)
        is_small = (
            (segments.buckets * segments.sizes <= _LARGEST_SEGMENT)
            & (counts * segments.sizes <= BYTES_PER_COMMAND)
            & (counts <= _BUCKETS_AT_ONCE)
        )
        large = [segments.names[each] for each in np.flatnonzero(~is_small).tolist()]
        small = segments if not large else segments.take(np.flatnonzero(is_small))
        return list(_lots(small, counts[is_small], sought)), large

    def _looking(self) -> list[Command]:
        """The commands whose answers tell whether a listing is out of date."""
        # If the connection is lost in between, the server that answers last tells its incarnation.
        return [counting(self._servers, self._names), *incarnation_commands(self._servers.place(self._names))]

    def _is_still(self, known: _Listing, replies: Iterator[Reply]) -> bool:
        """Whether a listing has all segments, given answers that begin with those to ``_looking``."""
        now = int(next(replies)), incarnation_in(islice(replies, 2)), self._control.setbacks
        return now == (known.length, known.incarnation, known.setbacks)

    def _listed(self) -> _Listing:
        """The list as it is read now."""
        # One after the other, and in this order: a list that is read after its length was asked has at least these members, unless
        # its server went back meanwhile. That shows at the next look, because its incarnation was asked before.
        incarnation = self._servers.incarnation(self._servers.place(self._names))
        setbacks = self._control.setbacks
        length = int(self._servers.execute(counting(self._servers, self._names)))
        widths = defaultdict[int, list[int]](list)
        for width, shard in self._states.known():
            widths[shard].append(width)
        self._known = known = _Listing(incarnation, setbacks, length, widths)
        return known

    def _present(self, width: int, known: _Listing, sought: Beginnings, applied: int) -> _Segments:
        """The segments that may have what is sought; the others were never made, or went with the past of their server."""
        found = [
            ((each, shard), position)
            for position, shard in enumerate(sought.shards)
            for each in known.widths.get(shard, ())
            if each >= width
        ]
        names = [name for name, _ in found]
        states = self._states.last_seen_of(names, applied)
        buckets = states["buckets"].astype(np.int64)
        sizes_of = {each: (bucket_bytes(each), record_width(each)) for each in {each for each, _ in names}}
        usual, record = np.array([sizes_of[each] for each, _ in names], np.int64).reshape(-1, 2).T
        sizes = present_bytes(states["entries"].astype(np.int64), buckets, usual, record)
        of_shards = np.array([position for _, position in found], np.int64)
        segments = _Segments(names, self._tables.keys_of(names), of_shards, buckets, np.asarray(sizes))
        places = np.array([each.place for each in segments.keys], np.int64)
        order = np.argsort(places, kind="stable")
        is_there = buckets[order] > 0
        is_as_wanted = is_there.all() and (order[1:] > order[:-1]).all()
        return segments if is_as_wanted else segments.take(order[is_there])

    def _received(
        self, lot: _Lot, reply: Reply, applied: int, prefixes: EncodedKeys, sought: Beginnings
    ) -> tuple[list[tuple[EncodedKeys, Entries]], list[WidthAndShard]]:
        """What an answer has, and the segments that have grown since their buckets were counted."""
        names, count = lot.segments.names, len(lot.segments.names)
        buckets = reply[2 * count :]
        now = self._states.seen(names, reply[count : 2 * count], applied)["buckets"].astype(np.int64)
        self._require_applied(names, (now > 0).tolist(), reply[:count], applied)
        is_same = now == lot.segments.buckets
        # Of a segment that has grown, or that is gone, nothing counts.
        counts = is_same[lot.asked.segment_of].tolist()
        of_segments = lot.asked.segment_of.tolist()
        if None in buckets:
            for bucket, is_counted, segment in zip(buckets, counts, of_segments, strict=True):
                if bucket is None and is_counted:
                    raise self._states.lost(*names[segment])
        both = zip(lot.asked.beginnings.tolist(), lot.asked.bucket_of.tolist(), strict=True)
        holding = {at for beginning, at in both if counts[at] and sought.content[beginning] in buckets[at]}
        chosen = defaultdict[int, list[tuple[int, bytes]]](list)
        for at in sorted(holding):
            width, shard = names[of_segments[at]]
            chosen[width].append((shard, buckets[at]))
        grown = [names[each] for each in np.flatnonzero(~is_same & (now > 0)).tolist()]
        return [_decoded(width, some, prefixes) for width, some in chosen.items()], grown

    def _scanned(self, segment: WidthAndShard, applied: int, sought: Beginnings) -> Found:
        """What a large or growing segment has."""
        wanted = np.array(sought.content, dtype=f"V{len(sought.content[0])}")

        def chosen(buckets: int) -> Positions:
            return sought.asked(np.zeros(1, np.int64), np.array([buckets])).numbers

        for keys, entries in scan_segment(self._servers, self._states, segment, _FOUND_AT_ONCE, chosen):
            is_wanted = keys_that_begin(keys, wanted)
            if is_wanted.any():
                yield keys.take(is_wanted), entries[is_wanted]
        [names] = self._tables.keys_of([segment])
        watermark = self._servers.execute(Command(names.place, ("MGET", names.watermark), size=BYTES_PER_STATE))
        # Behind the buckets: a server that has lost entries has lost its watermark with them.
        self._require_applied([segment], [True], watermark, applied)

    def _require_applied(
        self, segments: Sequence[WidthAndShard], are_there: Sequence[bool], stored: Sequence[bytes | None], applied: int
    ) -> None:
        watermarks = watermarks_in(stored)
        for segment, is_there, has_watermark in zip(segments, are_there, watermarks["is_there"], strict=True):
            # A segment is made together with its watermark in one step, so one without the other was lost.
            if is_there and not has_watermark:
                raise self._states.lost(*segment)
        present = watermarks[watermarks["is_there"]]
        if len(present) and (least := int(present["applied"].min())) < applied:
            raise self._presence.went_back(applied, least)
        self._note_floor(int(present["floor"].max(initial=0)))


def _lots(segments: _Segments, counts: Positions, sought: Beginnings) -> Iterator[_Lot]:
    """Segments that are read together; ``counts`` tells how many buckets of each are asked, at most."""
    sizes = (counts * segments.sizes).tolist()
    limits = BYTES_PER_COMMAND, _SEGMENTS_AT_ONCE, _BUCKETS_AT_ONCE
    parts = zip(sizes, (segments.buckets * segments.sizes).tolist(), counts.tolist(), strict=True)
    start, sums = 0, (0, 0, 0)
    for end, (keys, part) in enumerate(zip(segments.keys, parts, strict=True)):
        now = tuple(map(add, sums, part))
        if end > start and (keys.place != segments.keys[start].place or any(map(gt, now, limits))):
            yield _lot(segments.take(np.arange(start, end)), sought, sums[0])
            start, now = end, part
        sums = now
    if segments.keys:
        yield _lot(segments.take(np.arange(start, len(segments.keys))) if start else segments, sought, sums[0])


def _lot(segments: _Segments, sought: Beginnings, size: int) -> _Lot:
    return _Lot(segments, sought.asked(segments.of_shards, segments.buckets), size)


def _decoded(width: int, chosen: Sequence[tuple[int, bytes]], prefixes: EncodedKeys) -> tuple[EncodedKeys, Entries]:
    """The entries in some buckets, each given with its shard, whose keys begin with a prefix that is sought there."""
    records = decode([bucket for _, bucket in chosen], width)
    shards = np.array([shard for shard, _ in chosen], dtype=np.uint16)[records.buckets]
    keys = np.ascontiguousarray(records.keys)
    beginnings = keys.view(np.uint8).reshape(len(keys), width)[:, : prefixes.width]
    is_wanted = pc.is_in(_in_shards(beginnings, shards), value_set=_in_shards(_bytes_of(prefixes), prefixes.shards))
    positions = np.flatnonzero(is_wanted.to_numpy(zero_copy_only=False))
    return EncodedKeys(keys[positions], shards[positions]), records.entries[positions]


def _bytes_of(keys: EncodedKeys) -> NDArray[np.uint8]:
    return np.ascontiguousarray(keys.keys).view(np.uint8).reshape(len(keys), keys.width)


def _in_shards(beginnings: NDArray[np.uint8], shards: NDArray[np.uint16]) -> pa.Array:
    """Each beginning together with its shard, as one binary value."""
    joined = np.hstack([beginnings, shards.astype("<u2").view(np.uint8).reshape(-1, 2)])
    return pa.Array.from_buffers(pa.binary(joined.shape[1]), len(joined), [None, pa.py_buffer(joined.tobytes())])
