"""Writing entries: the buckets are read, merged here, and swapped on the server where nobody changed them meanwhile."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from rli.errors import IndexNotFoundError
from rli.store import (
    APPLIED,
    EncodedKeys,
    Entries,
    sequences,
)
from rli_redis.buckets import Positions, empty_bucket
from rli_redis.contents import remove_control, remove_segments
from rli_redis.control import ControlRecords
from rli_redis.entries import Change, merged, without_tombstones
from rli_redis.epochs import Epochs
from rli_redis.growing import grow
from rli_redis.keyspace import BucketPrefixes, Names
from rli_redis.lifecycle import Presence
from rli_redis.reading import Piece, Reader, runs
from rli_redis.scripts import CREATE_SEGMENT, SWAP_BUCKETS
from rli_redis.segment_set import WidthAndShard, confirm, note_making
from rli_redis.segment_states import SegmentStates
from rli_redis.segment_table import SegmentTables, runs_of_places
from rli_redis.segments import BYTES_PER_STATE, VERSION_WIDTH, outgrows, wanted_buckets
from rli_redis.servers import Argument, Command, PackedArguments, Servers
from rli_redis.watermarks import Watermark

Batch: TypeAlias = tuple[EncodedKeys, Entries]

_OTHER_EPOCH: Final = -1
_OF_SEGMENTS: Final = np.dtype([("version", f"V{VERSION_WIDTH}"), ("buckets", ">u4"), ("more", ">i4", 2)])
_MAX_NEW_BUCKETS: Final = 2000
# Keys that are written before segments are grown: a bucket is written once for all of its keys among them.
_BYTES_AT_ONCE: Final = 1 << 25


@dataclass(frozen=True, slots=True)
class _Swap:
    """What a command does that puts new versions of buckets of segments in place: its versions are not kept.

    Attributes:
        more_entries: how many entries each segment will have more.
        requests: shape (n,): positions of the keys in the batch.
        bucket_of: shape (n,): the bucket of each key, as a position among the command's.
    """

    more_entries: dict[WidthAndShard, int]
    requests: Positions
    bucket_of: Positions


class Writer:
    """Writes to the buckets of one index."""

    def __init__(  # noqa: PLR0917  (made in one place)
        self,
        servers: Servers,
        names: Names,
        reader: Reader,
        tables: SegmentTables,
        states: SegmentStates,
        presence: Presence,
        control: ControlRecords,
        epochs: Epochs,
    ) -> None:
        self._servers = servers
        self._names = names
        self._reader = reader
        self._tables = tables
        self._states = states
        self._presence = presence
        self._control = control
        self._epochs = epochs
        self._confirmed: set[WidthAndShard] = set()

    def confirm_again(self) -> bool:
        """Note the segments that this writer knows: the server that keeps the set may have gone back to before.

        Their own servers may have gone back, too. A segment that is gone with its server's past is made again.

        Returns:
            False if the server with the set has gone back once more meanwhile.
        """
        self._confirmed = self._states.still_there(self._confirmed)
        return confirm(self._servers, self._names, self._confirmed, self._epochs.known)

    def put(self, batches: Sequence[Batch]) -> None:
        """Write each entry unless the stored one has the same or a greater sequence; keys of a batch are distinct.

        Raises:
            StoreRestartedError: the server with the commit log may have lost the record that the entries are of.
        """
        greatest = max((int(sequences(entries).max()) for _, entries in batches if len(entries)), default=0)
        # A repeat writes all entries again, those that went in before included: an entry replaces none of its own
        # sequence.
        while not self._put_in(self._epochs.for_writing(greatest), batches):
            self._epochs.renew_for_writing()

    def _put_in(self, epoch: bytes, batches: Sequence[Batch]) -> bool:
        """Write entries in an epoch; False if a shard has another one."""
        counts = _counts_of(batches)
        for part in _parts(batches):
            inserted: Counter[WidthAndShard] = Counter()
            waiting = part
            while waiting:
                # In each round: a server that went back may have lost segments that were there a moment ago.
                if not self._has_segments(counts, waiting, epoch):
                    return False
                self._make_room(counts)
                # Two writers of one bucket: the server takes the first, and the second reads again, merges on top of
                # it, and sends again. No lock is held in between, and each round lets somebody get on.
                left = self._put_once(waiting, inserted, epoch)
                if left is None:
                    return False
                waiting = left
            self._grow(inserted)
        return True

    def remove_tombstones(self, keys: EncodedKeys) -> int:
        """Remove the entries of some keys (distinct) that are tombstones up to their shards' floors; how many."""
        removed = 0
        waiting = keys
        while len(waiting):
            left, count = self._remove_once(waiting)
            waiting = waiting.take(left)
            removed += count
        return removed

    def _remove_once(self, keys: EncodedKeys) -> tuple[Positions, int]:
        """Remove what can be; the positions of keys whose bucket was changed meanwhile, and how many entries went."""
        epoch = self._epochs.for_writing(0)
        sent: list[_Swap] = []

        def commands() -> Iterator[Command]:
            for piece in self._reader.pieces([keys], for_writing=True):
                for command, swap in self._swaps_of(keys.width, without_tombstones(keys, piece), piece, (0, epoch)):
                    sent.append(swap)
                    yield command

        refused, removed = [np.empty(0, dtype=np.int64)], 0
        for number, reply in enumerate(self._servers.exchange(commands())):
            swap = sent[number]
            if reply == _OTHER_EPOCH:
                self._epochs.renew_for_writing()
            is_left = (
                np.isin(swap.bucket_of, reply) if isinstance(reply, list) else np.ones(len(swap.bucket_of), dtype=bool)
            )
            refused.append(swap.requests[is_left])
            removed += int((~is_left).sum())
        return np.concatenate(refused), removed

    def _make_room(self, counts: Mapping[WidthAndShard, int]) -> None:
        """Grow the segments that get more keys than they have entries, given how many each gets.

        Without it their few buckets would become large, and all their entries be written once more by the splits.
        """
        small = {
            name: counts[name]
            for name, entries, buckets in self._seen(counts)
            if counts[name] > entries and outgrows(counts[name], name[0], buckets)
        }
        grow(self._servers, self._names, self._states, small)

    def _grow(self, inserted: Counter[WidthAndShard]) -> None:
        """Grow the segments that may need it after so many insertions into each."""
        outgrown = (
            name
            for name, entries, buckets in self._seen(inserted)
            if outgrows(entries + inserted[name], name[0], buckets)
        )
        grow(self._servers, self._names, self._states, dict.fromkeys(outgrown, 0))

    def _seen(self, segments: Iterable[WidthAndShard]) -> Iterator[tuple[WidthAndShard, int, int]]:
        """How many entries and buckets each segment had when it was seen last; nothing of one that was not there."""
        names = list(segments)
        states = self._states.last_seen_of(names)
        for name, entries, buckets in zip(names, states["entries"].tolist(), states["buckets"].tolist(), strict=True):
            if buckets:
                yield name, entries, buckets

    def _put_once(self, batches: Sequence[Batch], inserted: Counter[WidthAndShard], epoch: bytes) -> list[Batch] | None:
        """Write what can be; returns the keys whose bucket was changed by someone else meanwhile, with their entries.

        None if a shard has another epoch.
        """
        sent: list[tuple[int, _Swap]] = []
        is_read = [np.zeros(len(keys), dtype=bool) for keys, _ in batches]

        def commands() -> Iterator[Command]:
            for piece in self._reader.pieces([keys for keys, _ in batches], for_writing=True):
                is_read[piece.batch][piece.requests] = True
                keys, entries = batches[piece.batch]
                for command, swap in self._swaps(keys, entries, piece, epoch):
                    sent.append((piece.batch, swap))
                    inserted.update(swap.more_entries)
                    yield command

        refused: list[list[Positions]] = [[] for _ in batches]
        for number, reply in enumerate(self._servers.exchange(commands())):
            batch, swap = sent[number]
            if reply is None:
                # The segment is gone: reading it again tells why.
                refused[batch].append(swap.requests)
            elif reply == _OTHER_EPOCH:
                return None
            elif reply:
                refused[batch].append(swap.requests[np.isin(swap.bucket_of, reply)])
        again: list[Batch] = []
        for (keys, entries), was_read, some in zip(batches, is_read, refused, strict=True):
            # The server went back to before the segments of these were made.
            unread = np.flatnonzero(~was_read)
            self._confirmed -= {(keys.width, shard) for shard in np.unique(keys.shards[unread]).tolist()}
            if len(left := np.concatenate([*some, unread])):
                again.append((keys.take(left), entries[left]))
        return again

    def _has_segments(self, counts: Mapping[WidthAndShard, int], batches: Sequence[Batch], epoch: bytes) -> bool:
        """Make the segments that are not there, and see that all are confirmed.

        Args:
            counts: how many keys each segment gets.
            batches: some of these keys, with their entries.
            epoch: of the index.

        Returns:
            False if the server with the list of segments has another epoch.
        """
        unconfirmed = [segment for segment in counts if segment not in self._confirmed]
        if not unconfirmed:
            return True
        found = self._states.last_seen(unconfirmed)
        missing = {name: counts[name] for name, segment in zip(unconfirmed, found, strict=True) if segment is None}
        if missing and not self._make_segments(missing, np.concatenate([entries for _, entries in batches]), epoch):
            return False
        # Confirmed before the first entry: a confirmed segment that is missing was lost, or its server went back (P33),
        # and an unconfirmed one is empty.
        if not confirm(self._servers, self._names, unconfirmed, epoch):
            return False
        try:
            # Asked after the making: a drop lists the segments, and may have listed them before this one was there.
            # Either the drop sees the segment, or this call sees the drop.
            self._presence.require(self._names)
        except IndexNotFoundError:
            # Who dropped the index may not have seen what was made here.
            remove_segments(self._servers, self._names, list(missing))
            remove_control(self._servers, self._names)
            raise
        self._confirmed |= set(unconfirmed)
        return True

    def _make_segments(self, counts: Mapping[WidthAndShard, int], expected: Entries, epoch: bytes) -> bool:
        """Make segments with room for so many entries each, such as those expected; False if a server has another epoch."""
        # Read before they are made: no commit that is applied by now has a key of theirs.
        applied = int(self._control.read(APPLIED) or 0)
        # A random stamp, so that nothing that was read of another index in this place fits a bucket of this one.
        empty = empty_bucket(secrets.randbits(32), expected)
        commands = (
            self._making(segment, wanted_buckets(count, segment[0]), empty, (applied, epoch))
            for segment, count in counts.items()
        )
        # A lost answer repeats the making, and the repeat finds the segment made. Its watermark is then not noted by
        # this process, but a watermark that is not noted only makes a later loss an error instead of a repair.
        replies = list(self._servers.exchange(commands))
        if _OTHER_EPOCH in replies:
            return False
        watermarks = {
            segment: Watermark.from_bytes(watermark)
            for segment, watermark in zip(counts, replies, strict=True)
            if watermark is not None
        }
        made = {name: (watermark.applied, watermark.greatest) for name, watermark in watermarks.items()}
        return note_making(self._servers, self._names, made, epoch)

    def _making(self, segment: WidthAndShard, buckets: int, bucket: bytes, watermark: tuple[int, bytes]) -> Command:
        numbers = np.arange(min(buckets, _MAX_NEW_BUCKETS))
        _, shard = segment
        names = [self._names.segment(*segment), self._names.watermark(shard), *self._names.buckets(*segment, numbers)]
        arguments: list[Argument] = [
            bucket,
            secrets.token_bytes(VERSION_WIDTH),
            *watermark,
            self._epoch_of_server(watermark[1]),
        ]
        size = sum(map(len, names)) + BYTES_PER_STATE
        return Command.run(self._servers.place(self._names, shard), CREATE_SEGMENT, names, arguments, size=size)

    def _epoch_of_server(self, epoch: bytes) -> bytes:
        """The epoch that the server of a command has to have: only one that keeps all knows by itself."""
        return epoch if self._servers.is_single else b""

    def _swaps(
        self, keys: EncodedKeys, entries: Entries, piece: Piece, epoch: bytes
    ) -> Iterator[tuple[Command, _Swap]]:
        """What brings the entries into a piece's buckets."""
        yield from self._swaps_of(
            keys.width, merged(keys, entries, piece), piece, (int(sequences(entries).max()), epoch)
        )

    def _swaps_of(
        self, width: int, change: Change, piece: Piece, watermark: tuple[int, bytes]
    ) -> Iterator[tuple[Command, _Swap]]:
        """What puts new versions of buckets in place, place by place."""
        shards = piece.shards[change.changed]
        starts, segment_of = runs(shards)
        bounds = [*starts.tolist(), len(shards)]
        segments = [(width, shard) for shard in shards[starts].tolist()]
        keys = self._tables.keys_of(segments)
        of_segments = np.empty(len(segments), dtype=_OF_SEGMENTS)
        # Versions and stamps of the reading that was merged. Newer ones would let this swap overwrite entries that it
        # never saw.
        of_segments["version"] = piece.versions[change.changed[starts]]
        of_segments["buckets"] = np.diff(bounds)
        of_segments["more"] = np.add.reduceat(change.more, starts) if len(starts) else 0
        prefixes = BucketPrefixes.of([each.buckets for each in keys])
        # The keys are in the order of their buckets.
        bucket_of = np.searchsorted(change.changed, change.bucket_of)
        for first, last in runs_of_places([each.place for each in keys]):
            start, end = bounds[first], bounds[last]
            own = slice(*np.searchsorted(bucket_of, (start, end)).tolist())
            more = of_segments["more"][first:last, 0].tolist()
            names, _ = prefixes.packed(segment_of[start:end], piece.numbers[change.changed[start:end]])
            arguments: list[Argument] = [
                of_segments[first:last].tobytes(),
                secrets.token_bytes(VERSION_WIDTH),
                change.stamps[start:end].tobytes(),
                change.more[start:end].astype(">i4").tobytes(),
                *watermark,
                self._epoch_of_server(watermark[1]),
                *change.buckets[start:end],
            ]
            command = Command.run(
                keys[first].place,
                SWAP_BUCKETS,
                [name for each in keys[first:last] for name in (each.state, each.watermark)],
                arguments,
                more_keys=PackedArguments(end - start, (names,)),
                size=sum(map(len, change.buckets[start:end])),
            )
            yield (
                command,
                _Swap(
                    dict(zip(segments[first:last], more, strict=True)),
                    change.requests[own],
                    bucket_of[own] - start,
                ),
            )


def _counts_of(batches: Sequence[Batch]) -> dict[WidthAndShard, int]:
    """The keys that each segment gets at least. Batches may share keys, so of several batches the largest counts."""
    counts: dict[WidthAndShard, int] = {}
    for keys, _ in batches:
        of_shards = np.bincount(keys.shards)
        shards = np.flatnonzero(of_shards)
        for shard, count in zip(shards.tolist(), of_shards[shards].tolist(), strict=True):
            counts[keys.width, shard] = max(count, counts.get((keys.width, shard), 0))
    return counts


def _parts(batches: Sequence[Batch]) -> Iterator[list[Batch]]:
    """The same keys and entries, in parts of a bounded size."""
    part: list[Batch] = []
    room = _BYTES_AT_ONCE
    for keys, entries in batches:
        count = max(1, _BYTES_AT_ONCE // max(1, keys.width))
        for start in range(0, len(keys), count):
            some = np.arange(start, min(start + count, len(keys)))
            if part and room < len(some) * keys.width:
                yield part
                part, room = [], _BYTES_AT_ONCE
            part.append((keys, entries) if len(some) == len(keys) else (keys.take(some), entries[some]))
            room -= len(some) * keys.width
    if part:
        yield part
