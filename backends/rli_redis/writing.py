"""Writing entries: the buckets are read, merged here, and swapped on the server where nobody changed them meanwhile."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from rli.codec.encoded_keys import EncodedKeys
from rli.codec.entries import ABSENT, TOMBSTONE, Entries, file_groups, supersedes
from rli.errors import IndexNotFoundError
from rli.store.contract import APPLIED
from rli_redis.buckets import Positions, empty_bucket, random_step
from rli_redis.contents import remove_contents, remove_families
from rli_redis.control import ControlRecords
from rli_redis.families import VERSION_WIDTH, outgrows, wanted_buckets
from rli_redis.family_set import announce, confirm
from rli_redis.growing import grow
from rli_redis.names import Names
from rli_redis.packed import PackedBuckets
from rli_redis.presence import Presence
from rli_redis.reading import Piece, Reader
from rli_redis.scripts import CREATE_FAMILY, SWAP_BUCKETS
from rli_redis.servers import Command, Servers

_MAX_NEW_BUCKETS: Final = 2000


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

    def __init__(
        self, servers: Servers, names: Names, reader: Reader, presence: Presence, control: ControlRecords
    ) -> None:
        self._servers = servers
        self._names = names
        self._reader = reader
        self._presence = presence
        self._control = control
        self._confirmed: set[tuple[int, int]] = set()

    @property
    def confirmed(self) -> frozenset[tuple[int, int]]:
        """Width and shard of the families that this writer knows to be confirmed."""
        return frozenset(self._confirmed)

    def put(self, keys: EncodedKeys, entries: Entries) -> None:
        """Write each entry unless the stored one has the same or a greater sequence; keys are distinct."""
        inserted: Counter[int] = Counter()
        waiting = np.arange(len(keys))
        while len(waiting):
            some, newer = keys.take(waiting), entries[waiting]
            self._require_families(some, newer)
            waiting = waiting[self._put_once(some, newer, inserted)]
        self._grow(keys.width, inserted)

    def _grow(self, width: int, inserted: Counter[int]) -> None:
        """Grow the families that may need it after so many insertions into each shard."""
        shards = list(inserted)
        grow(
            self._servers,
            self._names,
            self._reader,
            width,
            [
                shard
                for shard, family in zip(shards, self._reader.last_seen(width, shards), strict=True)
                if family is not None and outgrows(family.entries + inserted[shard], width, family.buckets)
            ],
        )

    def _put_once(self, keys: EncodedKeys, entries: Entries, inserted: Counter[int]) -> Positions:
        """Write what can be; returns the positions of keys whose bucket was changed by someone else meanwhile."""
        sent: list[_Swap] = []
        is_read = np.zeros(len(keys), dtype=bool)

        def commands() -> Iterator[Command]:
            for piece in self._reader.pieces(keys):
                is_read[piece.requests] = True
                for swap in self._swaps(keys, entries, piece):
                    sent.append(swap)
                    inserted[swap.shard] += swap.more_entries
                    yield swap.command

        refused: list[Positions] = []
        for number, reply in enumerate(self._servers.exchange(commands())):
            swap = sent[number]
            if reply is None:
                # The family is gone: reading it again tells why.
                refused.append(swap.requests)
            elif reply:
                refused.append(swap.requests[np.isin(swap.slots, reply)])
        # The server went back to before the families of these were made.
        unread = np.flatnonzero(~is_read)
        self._confirmed -= {(keys.width, shard) for shard in np.unique(keys.shards[unread]).tolist()}
        return np.concatenate([*refused, unread])

    def _require_families(self, keys: EncodedKeys, entries: Entries) -> None:
        """Make the families that are not there, each with room for its keys, and see that all are confirmed."""
        width = keys.width
        shards, counts = np.unique(keys.shards, return_counts=True)
        unconfirmed = [
            (shard, count)
            for shard, count in zip(shards.tolist(), counts.tolist(), strict=True)
            if (width, shard) not in self._confirmed
        ]
        if not unconfirmed:
            return
        some = [shard for shard, _ in unconfirmed]
        found = self._reader.last_seen(width, some)
        missing = {shard: count for (shard, count), family in zip(unconfirmed, found, strict=True) if family is None}
        if missing:
            self._make_families(width, missing, entries)
        confirm(self._servers, self._names, width, some)
        try:
            self._presence.require(self._names)
        except IndexNotFoundError:
            # Who dropped the index may not have seen what was made here.
            remove_families(self._servers, self._names, [(width, shard) for shard in missing])
            remove_contents(self._servers, self._names)
            raise
        self._confirmed |= {(width, shard) for shard in some}

    def _make_families(self, width: int, counts: dict[int, int], entries: Entries) -> None:
        """Make families, each with room for so many entries."""
        # Read before they are made: no commit that is applied by now has a key of theirs.
        applied = int(self._control.read(APPLIED) or 0)
        announce(self._servers, self._names, width, counts)
        # A random stamp, so that nothing that was read of another index in this place fits a bucket of this one.
        bucket = empty_bucket(secrets.randbits(32), entries)
        commands = [
            self._making(width, shard, wanted_buckets(count, width), (bucket, applied))
            for shard, count in counts.items()
        ]
        for _ in self._servers.exchange(commands):
            pass

    def _making(self, width: int, shard: int, buckets: int, content: tuple[bytes, int]) -> Command:
        numbers = np.arange(min(buckets, _MAX_NEW_BUCKETS))
        names = [self._names.family(width, shard), *self._names.buckets(width, shard, numbers)]
        place = self._servers.place(self._names, shard)
        bucket, applied = content
        return Command.run(place, CREATE_FAMILY, names, [bucket, secrets.token_bytes(VERSION_WIDTH), applied])

    def _swaps(self, keys: EncodedKeys, entries: Entries, piece: Piece) -> Iterator[_Swap]:
        """What brings the entries into a piece's buckets, shard by shard."""
        merged = _merged(keys, entries, piece)
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
                self._swapping(keys.width, int(shards[start]), piece, merged, slice(start, end)),
                int(shards[start]),
                int(merged.changes[start:end, 0].sum()),
                merged.requests[own],
                slots[merged.slots[own]],
            )

    def _swapping(self, width: int, shard: int, piece: Piece, merged: _Merged, some: slice) -> Command:
        numbers = piece.numbers[merged.changed[some]]
        names = [self._names.family(width, shard), *self._names.buckets(width, shard, numbers)]
        changes = merged.changes[some]
        arguments = [
            piece.families[shard].version,
            secrets.token_bytes(VERSION_WIDTH),
            changes.sum(axis=0).astype(">i4").tobytes(),
            merged.stamps[some].tobytes(),
            changes.astype(">i4").tobytes(),
            *merged.buckets[some],
        ]
        place = self._servers.place(self._names, shard)
        return Command.run(place, SWAP_BUCKETS, names, arguments)


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
    wins = np.flatnonzero(supersedes(entries[piece.requests], stored))
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


def _is_tombstone(entries: Entries) -> NDArray[np.bool_]:
    return (entries != ABSENT) & (file_groups(entries) == TOMBSTONE)
