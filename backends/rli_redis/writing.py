"""Writing entries: the buckets are read, merged here, and swapped on the server where nobody changed them meanwhile."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rli.errors import IndexNotFoundError
from rli.store import (
    ABSENT,
    APPLIED,
    TOMBSTONE,
    EncodedKeys,
    Entries,
    file_groups,
    is_old_tombstone,
    sequences,
    supersedes,
)
from rli_redis.buckets import Positions, empty_bucket, random_step
from rli_redis.contents import remove_control, remove_families
from rli_redis.control import ControlRecords
from rli_redis.epochs import Epochs
from rli_redis.growing import grow
from rli_redis.keyspace import Names
from rli_redis.lifecycle import Presence
from rli_redis.packed import PackedBuckets
from rli_redis.reading import Piece, Reader
from rli_redis.scripts import CREATE_FAMILY, SWAP_BUCKETS
from rli_redis.segment_set import WidthAndShard, confirm, note_making
from rli_redis.segments import VERSION_WIDTH, outgrows, wanted_buckets
from rli_redis.servers import Argument, Command, Servers
from rli_redis.watermarks import Mark

Batch: TypeAlias = tuple[EncodedKeys, Entries]

_OTHER_EPOCH: Final = -1
_MAX_NEW_BUCKETS: Final = 2000
# What is written before families are grown: it may all go into one bucket.
_BYTES_AT_ONCE: Final = 1 << 23


@dataclass(frozen=True, slots=True)
class _Swap:
    """New versions of buckets of one family, and the keys that they are for.

    Attributes:
        command: the script that puts them in place.
        shard: of the family.
        more_entries: how many entries the family will have more.
        requests: shape (n,): positions of the keys in the batch.
        slots: shape (n,): which of the command's buckets each key is in.
    """

    command: Command
    shard: int
    more_entries: int
    requests: Positions
    slots: Positions


class Writer:
    """Writes to the buckets of one index."""

    def __init__(  # noqa: PLR0917  (made in one place)
        self,
        servers: Servers,
        names: Names,
        reader: Reader,
        presence: Presence,
        control: ControlRecords,
        epochs: Epochs,
    ) -> None:
        self._servers = servers
        self._names = names
        self._reader = reader
        self._presence = presence
        self._control = control
        self._epochs = epochs
        self._confirmed: set[WidthAndShard] = set()

    def confirm_again(self) -> None:
        """Note the families that this writer knows: the server that keeps the set may have gone back to before.

        Their own servers may have gone back, too. A family that is gone with its server's past is made again.
        """
        self._confirmed = self._reader.still_there(self._confirmed)
        confirm(self._servers, self._names, self._confirmed)

    def put(self, batches: Sequence[Batch]) -> None:
        """Write each entry unless the stored one has the same or a greater sequence; keys of a batch are distinct.

        Raises:
            StoreUnavailableError: the server with the commit log may have lost the record that the entries are of.
        """
        greatest = max((int(sequences(entries).max()) for _, entries in batches if len(entries)), default=0)
        while not self._put_in(self._epochs.for_writing(greatest), batches):
            self._epochs.renew_for_writing()

    def _put_in(self, epoch: bytes, batches: Sequence[Batch]) -> bool:
        """Write entries in an epoch; False if a shard has another one."""
        for part in _parts(batches):
            inserted: Counter[WidthAndShard] = Counter()
            waiting = part
            while waiting:
                self._require_families(waiting, epoch)
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
            epoch = self._epochs.for_writing(0)
            sent: list[_Swap] = []

            def commands(
                keys: EncodedKeys = waiting, epoch: bytes = epoch, sent: list[_Swap] = sent
            ) -> Iterator[Command]:
                for piece in self._reader.pieces([keys]):
                    for swap in self._swaps_of(keys.width, _without_tombstones(keys, piece), piece, (0, epoch)):
                        sent.append(swap)
                        yield swap.command

            refused = [np.empty(0, dtype=np.int64)]
            for number, reply in enumerate(self._servers.exchange(commands())):
                swap = sent[number]
                if reply == _OTHER_EPOCH:
                    self._epochs.renew_for_writing()
                left = np.isin(swap.slots, reply) if isinstance(reply, list) else np.ones(len(swap.slots), dtype=bool)
                refused.append(swap.requests[left])
                removed += int((~left).sum())
            waiting = waiting.take(np.concatenate(refused))
        return removed

    def _grow(self, inserted: Counter[WidthAndShard]) -> None:
        """Grow the families that may need it after so many insertions into each."""
        families = list(inserted)
        grow(
            self._servers,
            self._names,
            self._reader,
            [
                name
                for name, family in zip(families, self._reader.last_seen(families), strict=True)
                if family is not None and outgrows(family.entries + inserted[name], name[0], family.buckets)
            ],
        )

    def _put_once(self, batches: Sequence[Batch], inserted: Counter[WidthAndShard], epoch: bytes) -> list[Batch] | None:
        """Write what can be; returns the keys whose bucket was changed by someone else meanwhile, with their entries.

        None if a shard has another epoch.
        """
        sent: list[tuple[int, _Swap]] = []
        is_read = [np.zeros(len(keys), dtype=bool) for keys, _ in batches]

        def commands() -> Iterator[Command]:
            for piece in self._reader.pieces([keys for keys, _ in batches]):
                is_read[piece.batch][piece.requests] = True
                keys, entries = batches[piece.batch]
                for swap in self._swaps(keys, entries, piece, epoch):
                    sent.append((piece.batch, swap))
                    inserted[keys.width, swap.shard] += swap.more_entries
                    yield swap.command

        refused: list[list[Positions]] = [[] for _ in batches]
        for number, reply in enumerate(self._servers.exchange(commands())):
            batch, swap = sent[number]
            if reply is None:
                # The family is gone: reading it again tells why.
                refused[batch].append(swap.requests)
            elif reply == _OTHER_EPOCH:
                return None
            elif reply:
                refused[batch].append(swap.requests[np.isin(swap.slots, reply)])
        again: list[Batch] = []
        for (keys, entries), was_read, some in zip(batches, is_read, refused, strict=True):
            # The server went back to before the families of these were made.
            unread = np.flatnonzero(~was_read)
            self._confirmed -= {(keys.width, shard) for shard in np.unique(keys.shards[unread]).tolist()}
            if len(left := np.concatenate([*some, unread])):
                again.append((keys.take(left), entries[left]))
        return again

    def _require_families(self, batches: Sequence[Batch], epoch: bytes) -> None:
        """Make the families that are not there, each with room for its keys, and see that all are confirmed."""
        counts = {
            (keys.width, shard): (count, entries)
            for keys, entries in batches
            for shard, count in zip(
                *(each.tolist() for each in np.unique(keys.shards, return_counts=True)), strict=True
            )
        }
        unconfirmed = [family for family in counts if family not in self._confirmed]
        if not unconfirmed:
            return
        found = self._reader.last_seen(unconfirmed)
        missing = {name: counts[name] for name, family in zip(unconfirmed, found, strict=True) if family is None}
        if missing:
            self._make_families(missing, epoch)
        confirm(self._servers, self._names, unconfirmed)
        try:
            self._presence.require(self._names)
        except IndexNotFoundError:
            # Who dropped the index may not have seen what was made here.
            remove_families(self._servers, self._names, list(missing))
            remove_control(self._servers, self._names)
            raise
        self._confirmed |= set(unconfirmed)

    def _make_families(self, counts: dict[WidthAndShard, tuple[int, Entries]], epoch: bytes) -> None:
        """Make families, each with room for so many entries, such as these."""
        # Read before they are made: no commit that is applied by now has a key of theirs.
        applied = int(self._control.read(APPLIED) or 0)
        # A random stamp, so that nothing that was read of another index in this place fits a bucket of this one.
        stamp = secrets.randbits(32)
        commands = (
            self._making(family, wanted_buckets(count, family[0]), empty_bucket(stamp, entries), (applied, epoch))
            for family, (count, entries) in counts.items()
        )
        replies = list(self._servers.exchange(commands))
        marks = {
            family: Mark.from_bytes(mark) for family, mark in zip(counts, replies, strict=True) if mark is not None
        }
        note_making(self._servers, self._names, {name: (mark.applied, mark.greatest) for name, mark in marks.items()})

    def _making(self, family: WidthAndShard, buckets: int, bucket: bytes, mark: tuple[int, bytes]) -> Command:
        numbers = np.arange(min(buckets, _MAX_NEW_BUCKETS))
        _, shard = family
        names = [self._names.family(*family), self._names.mark(shard), *self._names.buckets(*family, numbers)]
        arguments: list[Argument] = [bucket, secrets.token_bytes(VERSION_WIDTH), *mark]
        return Command.run(self._servers.place(self._names, shard), CREATE_FAMILY, names, arguments)

    def _swaps(self, keys: EncodedKeys, entries: Entries, piece: Piece, epoch: bytes) -> Iterator[_Swap]:
        """What brings the entries into a piece's buckets, shard by shard."""
        yield from self._swaps_of(
            keys.width, _merged(keys, entries, piece), piece, (int(sequences(entries).max()), epoch)
        )

    def _swaps_of(self, width: int, merged: _Merged, piece: Piece, mark: tuple[int, bytes]) -> Iterator[_Swap]:
        """What puts new versions of buckets in place, shard by shard."""
        if not len(merged.changed):
            return
        shards = piece.shards[merged.changed]
        bounds = [0, *(np.flatnonzero(np.diff(shards)) + 1).tolist(), len(shards)]
        slots = np.full(len(piece.buckets), -1, dtype=np.int64)
        for start, end in pairwise(bounds):
            changed = merged.changed[start:end]
            slots[:] = -1
            slots[changed] = np.arange(len(changed))
            own = np.flatnonzero(slots[merged.slots] >= 0)
            yield _Swap(
                self._swapping((width, int(shards[start])), piece, merged, slice(start, end), mark),
                int(shards[start]),
                int(merged.changes[start:end, 0].sum()),
                merged.requests[own],
                slots[merged.slots[own]],
            )

    def _swapping(
        self, family: WidthAndShard, piece: Piece, merged: _Merged, some: slice, mark: tuple[int, bytes]
    ) -> Command:
        _, shard = family
        numbers = piece.numbers[merged.changed[some]]
        names = [self._names.family(*family), self._names.mark(shard), *self._names.buckets(*family, numbers)]
        changes = merged.changes[some]
        arguments: list[Argument] = [
            piece.families[shard].version,
            secrets.token_bytes(VERSION_WIDTH),
            changes.sum(axis=0).astype(">i4").tobytes(),
            merged.stamps[some].tobytes(),
            changes.astype(">i4").tobytes(),
            *mark,
            *merged.buckets[some],
        ]
        return Command.run(self._servers.place(self._names, shard), SWAP_BUCKETS, names, arguments)


@dataclass(frozen=True, slots=True)
class _Merged:
    """New versions of some of a piece's buckets.

    Attributes:
        changed: which of the piece's buckets have one.
        buckets: the new versions.
        stamps: of the versions before.
        changes: shape (changed, 2): how many entries, and how many tombstones, each has more than the one before.
        requests: positions in the batch of the keys that were written.
        slots: which of the piece's buckets each of them is in.
    """

    changed: Positions
    buckets: list[bytes]
    stamps: NDArray[np.uint32]
    changes: Positions
    requests: Positions
    slots: Positions


def _merged(keys: EncodedKeys, entries: Entries, piece: Piece) -> _Merged:
    packed = PackedBuckets(piece.buckets, keys.width)
    places = packed.find(keys.keys[piece.requests], piece.slots)
    stored = packed.entries_at(places, piece.slots)
    new = entries[piece.requests]
    wins = np.flatnonzero(supersedes(new, stored) & (sequences(new) > _floors(piece, piece.slots)))
    requests, slots, stored = piece.requests[wins], piece.slots[wins], stored[wins]
    newer = entries[requests]
    next_version = packed.changed(keys.keys[requests], newer, slots, places[wins], random_step())
    more_tombstones = _is_tombstone(newer).astype(np.int64) - _is_tombstone(stored).astype(np.int64)
    count = len(piece.buckets)
    changes = [
        np.bincount(slots, weights=weights, minlength=count)[next_version.slots]
        for weights in (stored == ABSENT, more_tombstones)
    ]
    return _Merged(
        changed=next_version.slots,
        buckets=next_version.buckets,
        stamps=next_version.old_stamps,
        changes=np.stack(changes, axis=1).astype(np.int64),
        requests=requests,
        slots=slots,
    )


def _without_tombstones(keys: EncodedKeys, piece: Piece) -> _Merged:
    """New versions of the buckets that have tombstones of some keys, up to the floors of their shards."""
    packed = PackedBuckets(piece.buckets, keys.width)
    places = packed.find(keys.keys[piece.requests], piece.slots)
    stored = packed.entries_at(places, piece.slots)
    old = np.flatnonzero(is_old_tombstone(stored, _floors(piece, piece.slots)))
    slots = piece.slots[old]
    next_version = packed.without(slots, places[old], random_step())
    fewer = -np.bincount(slots, minlength=len(piece.buckets))[next_version.slots]
    return _Merged(
        changed=next_version.slots,
        buckets=next_version.buckets,
        stamps=next_version.old_stamps,
        changes=np.stack([fewer, fewer], axis=1).astype(np.int64),
        requests=piece.requests[old],
        slots=slots,
    )


def _floors(piece: Piece, slots: Positions) -> NDArray[np.uint32]:
    """The floor of the shard of each slot."""
    shards, of_slot = np.unique(piece.shards, return_inverse=True)
    floors = np.array([piece.marks[shard].floor for shard in shards.tolist()], dtype=np.uint32)
    return floors[of_slot[slots]]


def _is_tombstone(entries: Entries) -> NDArray[np.bool_]:
    return (entries != ABSENT) & (file_groups(entries) == TOMBSTONE)


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
