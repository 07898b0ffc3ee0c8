"""The entries of keys in the buckets that were read, and the next versions of buckets that a change makes.

Nothing here talks to a server: ``rli_redis.reading`` reads the buckets of a piece, ``rli_redis.writing`` swaps them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rli.store import (
    ABSENT,
    TOMBSTONE,
    EncodedKeys,
    Entries,
    file_groups,
    is_old_tombstone,
    sequences,
    supersedes,
)
from rli_redis.buckets import Positions, random_step
from rli_redis.packed import NextVersion, PackedBuckets
from rli_redis.reading import Piece


@dataclass(frozen=True, slots=True)
class StoredEntries:
    """The entries of a piece's keys.

    Attributes:
        packed: the piece's buckets.
        offsets: shape (n,): where the record of each key begins, -1 where there is none.
        entries: shape (n,): absent where there is none.
    """

    packed: PackedBuckets
    offsets: Positions
    entries: Entries

    @classmethod
    def of(cls, keys: EncodedKeys, piece: Piece) -> StoredEntries:
        """Find the keys of a piece, given the batch that they are of."""
        packed = PackedBuckets(piece.buckets, keys.width)
        offsets = packed.find(keys.keys[piece.requests], piece.bucket_of)
        return cls(packed, offsets, packed.entries_at(offsets, piece.bucket_of))


@dataclass(frozen=True, slots=True)
class Change:
    """New versions of some of a piece's buckets.

    Attributes:
        changed: the buckets that have one, as positions among the piece's.
        buckets: the new versions.
        stamps: of the versions before.
        more: shape (changed, 2): how many entries, and how many tombstones, each has more than the one before.
        requests: positions in the batch of the keys that were written, in the order of their buckets.
        bucket_of: the bucket of each of these keys, as a position among the piece's.
    """

    changed: Positions
    buckets: list[bytes]
    stamps: NDArray[np.uint32]
    more: Positions
    requests: Positions
    bucket_of: Positions


def merged(keys: EncodedKeys, entries: Entries, piece: Piece) -> Change:
    """The change that brings entries (shape (n,), of the whole batch) into a piece where they supersede the stored ones."""
    stored = StoredEntries.of(keys, piece)
    new = entries[piece.requests]
    is_above_floor = sequences(new) > piece.floors[piece.bucket_of]
    wins = np.flatnonzero(supersedes(new, stored.entries) & is_above_floor)
    requests, bucket_of, before = piece.requests[wins], piece.bucket_of[wins], stored.entries[wins]
    newer = entries[requests]
    following = stored.packed.changed(keys.keys[requests], newer, bucket_of, stored.offsets[wins], random_step())
    more_tombstones = _is_tombstone(newer).astype(np.int64) - _is_tombstone(before).astype(np.int64)
    count = len(piece.buckets)
    more = [
        np.bincount(bucket_of, weights=weights, minlength=count)[following.positions]
        for weights in (before == ABSENT, more_tombstones)
    ]
    return _change(following, np.stack(more, axis=1), requests, bucket_of)


def without_tombstones(keys: EncodedKeys, piece: Piece) -> Change:
    """The change that removes tombstones of the keys, up to the floors of their shards."""
    stored = StoredEntries.of(keys, piece)
    old = np.flatnonzero(is_old_tombstone(stored.entries, piece.floors[piece.bucket_of]))
    bucket_of = piece.bucket_of[old]
    following = stored.packed.without(bucket_of, stored.offsets[old], random_step())
    fewer = -np.bincount(bucket_of, minlength=len(piece.buckets))[following.positions]
    return _change(following, np.stack([fewer, fewer], axis=1), piece.requests[old], bucket_of)


def _change(following: NextVersion, more: NDArray[np.number], requests: Positions, bucket_of: Positions) -> Change:
    return Change(
        changed=following.positions,
        buckets=following.buckets,
        stamps=following.old_stamps,
        more=more.astype(np.int64),
        requests=requests,
        bucket_of=bucket_of,
    )


def _is_tombstone(entries: Entries) -> NDArray[np.bool_]:
    return (entries != ABSENT) & (file_groups(entries) == TOMBSTONE)
