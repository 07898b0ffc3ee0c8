"""Finding the entries whose keys begin alike: the buckets that may have them are read, those of many shards in one command.

In an index with a prefix width, a beginning tells the few buckets of a shard that may have its keys (``rli_redis.segments``). In others,
any bucket may have them, and all are read. Python decodes only the buckets that hold the bytes of a prefix.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rli.store import EncodedKeys, Entries, keys_that_begin
from rli_redis.buckets import decode
from rli_redis.control import ControlRecords
from rli_redis.keyspace import BucketPrefixes, Names
from rli_redis.lifecycle import Presence
from rli_redis.reading import BYTES_PER_COMMAND
from rli_redis.scanning import scan_segment
from rli_redis.segment_set import WidthAndShard, count_members
from rli_redis.segment_states import SegmentStates
from rli_redis.segment_table import SegmentKeys, SegmentTables
from rli_redis.segments import (
    BYTES_PER_STATE,
    bucket_bytes,
    prefix_addresses,
    prefix_hashes,
    present_bytes,
    record_width,
)
from rli_redis.servers import Command, PackedArguments, Reply, Servers
from rli_redis.watermarks import watermarks_in

_BUCKETS_AT_ONCE: Final = 4_096
_LARGEST_SEGMENT: Final = 1 << 22
"""Bytes of a segment of which several buckets are read in one command: any of them may be the large ones."""
_SEGMENTS_AT_ONCE: Final = 1 << 24
"""The same of all segments of a command."""
_FOUND_AT_ONCE: Final = 1 << 16

Found = Iterator[tuple[EncodedKeys, Entries]]


@dataclass(frozen=True, slots=True)
class _Part:
    """What is read of a segment.

    Attributes:
        segment: width and shard.
        keys: what it is called.
        buckets: how many it is taken to have.
        numbers: of the buckets that are read.
        size: about how many bytes these buckets have, if all buckets of the segment are alike.
        most: about how many bytes these buckets have at most.
    """

    segment: WidthAndShard
    keys: SegmentKeys
    buckets: int
    numbers: Sequence[int]
    size: int
    most: int

    @property
    def is_small(self) -> bool:
        """Whether one command may read it, along with others."""
        return (
            self.most <= _LARGEST_SEGMENT and self.size <= BYTES_PER_COMMAND and len(self.numbers) <= _BUCKETS_AT_ONCE
        )


@dataclass(frozen=True, slots=True)
class _Sought:
    """What is sought in a shard.

    Attributes:
        prefixes: the beginnings of keys.
        hashes: the low bits of the hashes of these keys, for each prefix; None if a prefix decides none.
    """

    prefixes: list[bytes]
    hashes: list[int] | None

    def addresses(self, buckets: int) -> Sequence[int]:
        """The buckets of a segment that may have such keys, given how many it has."""
        if self.hashes is None:
            return range(buckets)
        if len(self.hashes) == 1:
            return prefix_addresses(self.hashes[0], buckets)
        return sorted(set(chain.from_iterable(prefix_addresses(each, buckets) for each in self.hashes)))


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
        self._known: tuple[tuple[int, str, int], Mapping[int, list[int]]] | None = None

    def find(self, prefixes: EncodedKeys, applied: int) -> Found:
        """As ``Store.find``.

        Raises:
            IndexNotFoundError: the index was dropped.
            IndexNotReadyError: a server went back to before ``applied``.
            CorruptIndexError: buckets or watermarks are missing.
        """
        sought = self._by_shard(prefixes)
        known = self._known_segments()
        segments = [(width, shard) for shard in sought for width in known.get(shard, ()) if width >= prefixes.width]
        small, large = list[_Part](), list[WidthAndShard]()
        for part in self._parts(segments, sought, applied):
            if part.is_small:
                small.append(part)
            else:
                large.append(part.segment)
        lots = list(_lots(small))
        replies = self._servers.exchange(map(_command, lots))
        for lot, reply in zip(lots, replies, strict=True):
            found, grown = self._received(lot, reply, applied, prefixes, sought)
            yield from found
            large += grown
        for segment in large:
            yield from self._scanned(segment, applied, sought[segment[1]])

    def _by_shard(self, prefixes: EncodedKeys) -> Mapping[int, _Sought]:
        width = self._names.prefix_width
        are_placed = 0 < width <= prefixes.width
        hashes = prefix_hashes(prefixes.keys, self._names.hash_key, width).tolist() if are_placed else None
        positions = defaultdict[int, list[int]](list)
        for position, shard in enumerate(prefixes.shards.tolist()):
            positions[shard].append(position)
        content = prefixes.to_bytes()
        return {
            shard: _Sought([content[each] for each in some], hashes and [hashes[each] for each in some])
            for shard, some in positions.items()
        }

    def _known_segments(self) -> Mapping[int, list[int]]:
        """Widths of all segments that there may be, by shard; read anew where they are more, or where their server went back."""
        # In this order: a list that is read after its length was asked has at least these members, unless its server went back
        # meanwhile, which then shows at the next look, since its life was asked before.
        life, setbacks = self._servers.incarnation(self._servers.place(self._names)), self._control.setbacks
        now = count_members(self._servers, self._names), life, setbacks
        known = self._known
        if known is None or known[0] != now:
            widths = defaultdict[int, list[int]](list)
            for width, shard in self._states.known():
                widths[shard].append(width)
            self._known = known = now, widths
        return known[1]

    def _parts(self, segments: Sequence[WidthAndShard], sought: Mapping[int, _Sought], applied: int) -> Iterator[_Part]:
        """Those of some segments that are there; the others were never made, or went with the past of their server."""
        states = self._states.last_seen_of(segments, applied)
        widths = np.array([width for width, _ in segments], dtype=np.int64)
        buckets = states["buckets"].astype(np.int64)
        usual, record = (
            np.array([of(width) for width in widths.tolist()], np.int64) for of in (bucket_bytes, record_width)
        )
        sizes = present_bytes(states["entries"].astype(np.int64), buckets, usual, record).tolist()
        keys = self._tables.keys_of(segments)
        for segment, own, count, size in zip(segments, keys, buckets.tolist(), sizes, strict=True):
            if count:
                numbers = sought[segment[1]].addresses(count)
                yield _Part(segment, own, count, numbers, size * len(numbers), size * count)

    def _received(
        self, lot: list[_Part], reply: Reply, applied: int, prefixes: EncodedKeys, sought: Mapping[int, _Sought]
    ) -> tuple[list[tuple[EncodedKeys, Entries]], list[WidthAndShard]]:
        """What an answer has, and the segments that have grown since their buckets were counted."""
        count, segments = len(lot), [part.segment for part in lot]
        states = self._states.seen(segments, reply[count : 2 * count], applied)["buckets"].tolist()
        self._require_applied(segments, [bool(state) for state in states], reply[:count], applied)
        chosen = defaultdict[int, list[tuple[int, bytes]]](list)
        grown = list[WidthAndShard]()
        end = 2 * count
        for part, now in zip(lot, states, strict=True):
            buckets, end = reply[end : end + len(part.numbers)], end + len(part.numbers)
            width, shard = part.segment
            if now == part.buckets:
                if None in buckets:
                    raise self._states.lost(*part.segment)
                chosen[width] += [(shard, bucket) for bucket in _holding(sought[shard].prefixes, buckets)]
            elif now:
                grown.append(part.segment)
        return [_decoded(width, some, prefixes) for width, some in chosen.items() if some], grown

    def _scanned(self, segment: WidthAndShard, applied: int, sought: _Sought) -> Found:
        """What a large or growing segment has."""
        wanted = np.array(sought.prefixes, dtype=f"V{len(sought.prefixes[0])}")
        for keys, entries in scan_segment(self._servers, self._states, segment, _FOUND_AT_ONCE, sought.addresses):
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


def _lots(parts: Sequence[_Part]) -> Iterator[list[_Part]]:
    """Segments that one command reads."""
    by_place = defaultdict[int, list[_Part]](list)
    for part in parts:
        by_place[part.keys.place].append(part)
    for some in by_place.values():
        lot, size, most, buckets = list[_Part](), 0, 0, 0
        for part in some:
            size, most, buckets = size + part.size, most + part.most, buckets + len(part.numbers)
            if lot and (size > BYTES_PER_COMMAND or most > _SEGMENTS_AT_ONCE or buckets > _BUCKETS_AT_ONCE):
                yield lot
                lot, size, most, buckets = [], part.size, part.most, len(part.numbers)
            lot.append(part)
        yield lot


def _command(lot: Sequence[_Part]) -> Command:
    """Reads watermarks, states and buckets of some segments of a place at one moment."""
    segment_of = np.repeat(np.arange(len(lot)), [len(part.numbers) for part in lot])
    numbers = np.fromiter(chain.from_iterable(part.numbers for part in lot), np.int64, len(segment_of))
    packed, _ = BucketPrefixes.of([part.keys.buckets for part in lot]).packed(segment_of, numbers)
    names = chain((part.keys.watermark for part in lot), (part.keys.state for part in lot))
    size = sum(part.size + 2 * BYTES_PER_STATE for part in lot)
    return Command(lot[0].keys.place, ("MGET", *names), PackedArguments(len(numbers), (packed,)), size=size)


def _holding(sought: Sequence[bytes], buckets: Sequence[bytes]) -> Sequence[bytes]:
    """The buckets that may have a key that begins with one of some prefixes."""
    if len(sought) == 1:
        [prefix] = sought
        return [bucket for bucket in buckets if prefix in bucket]
    return [bucket for bucket in buckets if any(prefix in bucket for prefix in sought)]


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
