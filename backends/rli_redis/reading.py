"""Reading the buckets that keys belong to, while families may grow at any moment.

Which bucket a key is in depends on how many buckets its family has. Readers remember that number and read the
family's state together with its buckets, in one command, which a server answers atomically: where the number turns
out to be another one, the keys of that family are looked up again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from rli.codec.encoded_keys import EncodedKeys
from rli.errors import CorruptIndexError
from rli_redis.buckets import NO_RECORDS, Positions
from rli_redis.families import Family, addresses, hashes_of
from rli_redis.family_set import announced_families, confirmed_families
from rli_redis.names import Names
from rli_redis.presence import Presence
from rli_redis.servers import Command, PackedArguments, Reply, Servers

_BUCKETS_PER_COMMAND: Final = 1000
_BYTES_PER_COMMAND: Final = 1 << 19
_NUMBER_BITS: Final = 32


@dataclass(frozen=True, slots=True)
class Piece:
    """Some buckets, all of one place, and the keys of a batch that belong to them.

    Attributes:
        requests: shape (n,): positions of the keys in the batch.
        slots: shape (n,): which of ``buckets`` each key belongs to.
        shards: shape (buckets,): the shard of each bucket, in order.
        numbers: shape (buckets,): its number in its family.
        buckets: the buckets.
        families: the state of each shard's family when the buckets were read.
    """

    requests: Positions
    slots: Positions
    shards: Positions
    numbers: Positions
    buckets: list[bytes]
    families: dict[int, Family]


class Reader:
    """Reads the buckets of one index. Shared by threads: what it remembers is checked with each answer."""

    def __init__(self, servers: Servers, names: Names, presence: Presence) -> None:
        self._servers = servers
        self._names = names
        self._presence = presence
        self._families: dict[tuple[int, int], Family] = {}

    def pieces(self, keys: EncodedKeys) -> Iterator[Piece]:
        """The buckets of the keys, piece by piece; keys whose family is not there are in no piece.

        Raises:
            IndexNotFoundError: the index was dropped.
            CorruptIndexError: buckets are missing.
        """
        hashes = hashes_of(keys.keys)
        shards = keys.shards.astype(np.int64)
        waiting = np.arange(len(keys))
        while len(waiting):
            again: list[Positions] = []
            requests = list(self._requests(keys.width, waiting, shards, hashes))
            replies = self._servers.exchange([request.command for request in requests])
            for request, reply in zip(requests, replies, strict=True):
                piece, moved = self._received(keys.width, request, reply)
                again.append(moved)
                if len(piece.requests):
                    yield piece
            waiting = np.concatenate([*again, np.empty(0, dtype=np.int64)])

    def families(self, width: int, shards: list[int]) -> list[Family | None]:
        """The present state of families of one width; None where a family is not there yet.

        Raises:
            IndexNotFoundError: the index was dropped.
            CorruptIndexError: a family was there, and is not any more.
        """
        commands = [self._state(width, shard) for shard in shards]
        found = [None if reply is None else Family.from_bytes(reply) for reply in self._servers.exchange(commands)]
        missing = [shard for shard, family in zip(shards, found, strict=True) if family is None]
        if missing:
            self._require_never_made(width, missing)
        for shard, family in zip(shards, found, strict=True):
            if family is not None:
                self._families[width, shard] = family
        return found

    def all_families(self) -> list[tuple[int, int, Family]]:
        """Width, shard and present state of every family, in order; raises like ``families``."""
        return [
            (width, shard, family)
            for width, known in groupby(self.known_families(), itemgetter(0))
            for shards in [[shard for _, shard in known]]
            for shard, family in zip(shards, self.families(width, shards), strict=True)
            if family is not None
        ]

    def last_seen(self, width: int, shards: list[int]) -> list[Family | None]:
        """Families as they were when they were last read; those that never were are read now."""
        unknown = [shard for shard in shards if (width, shard) not in self._families]
        if unknown:
            self.families(width, unknown)
        return [self._families.get((width, shard)) for shard in shards]

    def read_family(self, width: int, shard: int, numbers: Positions) -> Command:
        """The command that reads a family's state and some of its buckets, atomically."""
        keys = [self._names.family(width, shard), *self._names.buckets(width, shard, numbers)]
        return Command(self._servers.place(self._names, shard), ("MGET", *keys))

    def known_families(self) -> list[tuple[int, int]]:
        """Width and shard of each family that there is or soon will be, in order."""
        known = announced_families(self._servers, self._names)
        if known is None:
            raise self.lost_list()
        return known

    def lost(self, width: int, shard: int) -> CorruptIndexError:
        """The error for a family that lacks something; raises ``IndexNotFoundError`` if the index was dropped."""
        return self._presence.lost(self._names, f"entries of shard {shard} with keys of {width} bytes")

    def lost_list(self) -> CorruptIndexError:
        """The error for a set of families that is gone; raises ``IndexNotFoundError`` if the index was dropped."""
        return self._presence.lost(self._names, "the list of its parts")

    def _require_never_made(self, width: int, shards: list[int]) -> None:
        """Raise if families that were not there just now have been there before."""
        self._presence.require(self._names)
        confirmed = confirmed_families(self._servers, self._names, width, shards)
        if confirmed is None:
            raise self.lost_list()
        for shard in confirmed:
            # Unless it was made a moment ago.
            if self._servers.execute(self._state(width, shard)) is None:
                raise self.lost(width, shard)

    def _state(self, width: int, shard: int) -> Command:
        return Command(self._servers.place(self._names, shard), ("GET", self._names.family(width, shard)))

    def _requests(self, width: int, waiting: Positions, shards: Positions, hashes: Positions) -> Iterator[_Request]:
        own_shards = np.flatnonzero(np.bincount(shards[waiting]))
        which = np.searchsorted(own_shards, shards[waiting])
        families = self.last_seen(width, own_shards.tolist())
        counts = np.array([0 if family is None else family.buckets for family in families], dtype=np.int64)
        places = np.array([self._servers.place(self._names, shard) for shard in own_shards.tolist()])
        is_there = np.flatnonzero(counts[which])
        waiting, which = waiting[is_there], which[is_there]
        numbers = addresses(hashes[waiting], counts[which])
        # One number decides the order: that of the shard's place, of the shard, and of the bucket.
        rank = np.empty(len(own_shards), dtype=np.int64)
        rank[np.lexsort((own_shards, places))] = np.arange(len(own_shards))
        ranked = rank[which] << _NUMBER_BITS | numbers
        order = np.argsort(ranked)
        waiting, which, numbers, ranked = waiting[order], which[order], numbers[order], ranked[order]
        is_first = np.ones(len(order), dtype=bool)
        is_first[1:] = np.diff(ranked) != 0
        firsts = np.flatnonzero(is_first)
        slots = np.cumsum(is_first) - 1
        for start, end in _cuts(places[which[firsts]], max(1, min(_BUCKETS_PER_COMMAND, _BYTES_PER_COMMAND // width))):
            first, last = firsts[start], firsts[end] if end < len(firsts) else len(order)
            chosen = firsts[start:end]
            yield self._request(
                width,
                _Wanted(
                    requests=waiting[first:last],
                    slots=slots[first:last] - start,
                    shards=own_shards[which[chosen]],
                    numbers=numbers[chosen],
                ),
                counts[which[chosen]],
            )

    def _request(self, width: int, wanted: _Wanted, counts: Positions) -> _Request:
        shards, firsts = np.unique(wanted.shards, return_index=True)
        bounds = [*firsts.tolist(), len(wanted.shards)]
        # The shards of a piece are in the order of their numbers, because those of one place are.
        states = [self._names.family(width, shard) for shard in shards.tolist()]
        buckets = b"".join(
            self._names.packed_buckets(width, shard, wanted.numbers[start:end])
            for shard, (start, end) in zip(shards.tolist(), pairwise(bounds), strict=True)
        )
        command = Command(
            self._servers.place(self._names, int(shards[0])),
            ("MGET", *states),
            PackedArguments(len(wanted.numbers), buckets),
        )
        return _Request(wanted, shards, counts[firsts], command)

    def _received(self, width: int, request: _Request, reply: Reply) -> tuple[Piece, Positions]:
        """The piece that an answer has, and the positions of keys whose family has grown meanwhile."""
        states, buckets = reply[: len(request.families)], reply[len(request.families) :]
        wanted = request.wanted
        has_grown = np.zeros(len(wanted.shards), dtype=bool)
        families: dict[int, Family] = {}
        for shard, count, state in zip(request.families.tolist(), request.bucket_counts.tolist(), states, strict=True):
            if state is None:
                # A family that the server went back to before is forgotten here too; one that it has lost is an error.
                self._require_never_made(width, [shard])
                self._families.pop((width, shard), None)
                has_grown |= wanted.shards == shard
                continue
            family = families[shard] = self._families[width, shard] = Family.from_bytes(state)
            if family.buckets != count:
                has_grown |= wanted.shards == shard
        for place in [place for place, bucket in enumerate(buckets) if bucket is None]:
            if not has_grown[place]:
                raise self.lost(width, int(wanted.shards[place]))
            # The server has lost its last changes, growth among them.
            buckets[place] = NO_RECORDS
        if not has_grown.any():
            return Piece(wanted.requests, wanted.slots, wanted.shards, wanted.numbers, buckets, families), _NONE
        moved = has_grown[wanted.slots]
        # The buckets stay, so that slots keep their meaning; no key asks for those that are out of date.
        kept, slots = wanted.requests[~moved], wanted.slots[~moved]
        return Piece(kept, slots, wanted.shards, wanted.numbers, buckets, families), wanted.requests[moved]


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A piece without its buckets."""

    requests: Positions
    slots: Positions
    shards: Positions
    numbers: Positions


@dataclass(frozen=True, slots=True)
class _Request:
    """A command for a piece, and the families whose states it reads before the buckets."""

    wanted: _Wanted
    families: NDArray[np.int64]
    bucket_counts: Positions
    command: Command


_NONE: Final = np.empty(0, dtype=np.int64)


def _cuts(places: Positions, most: int) -> Iterator[tuple[int, int]]:
    """Ranges of at most so many buckets, all of one place."""
    bounds = [0, *(np.flatnonzero(np.diff(places)) + 1).tolist(), len(places)]
    for first, last in pairwise(bounds):
        for start in range(first, last, most):
            yield start, min(start + most, last)
