"""Reading the buckets that keys belong to, while families may grow at any moment.

Which bucket a key is in depends on how many buckets its family has. Readers remember that number and read the
family's state together with its buckets, in one command, which a server answers atomically: where the number turns
out to be another one, the keys of that family are looked up again.

Keys of many widths are read together: one command may have buckets of many families, and the marks of their shards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from rli.errors import CorruptIndexError
from rli.store import EncodedKeys
from rli_redis.buckets import NO_RECORDS, Positions
from rli_redis.keyspace import Names
from rli_redis.lifecycle import Presence
from rli_redis.placing import by_place
from rli_redis.segment_set import WidthAndShard, confirmed_families, known_families, makings
from rli_redis.segments import Family, addresses, hashes_of
from rli_redis.servers import Command, PackedArguments, Reply, Servers
from rli_redis.watermarks import Mark

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
        slots: shape (n,): which of ``buckets`` each key belongs to.
        shards: shape (buckets,): the shard of each bucket, in order.
        numbers: shape (buckets,): its number in its family.
        buckets: the buckets.
        families: the state of each shard's family when the buckets were read.
        marks: the mark of each shard at that time.
    """

    batch: int
    requests: Positions
    slots: Positions
    shards: Positions
    numbers: Positions
    buckets: list[bytes]
    families: dict[int, Family]
    marks: dict[int, Mark]


class Reader:
    """Reads the buckets of one index. Shared by threads: what it remembers is checked with each answer."""

    def __init__(self, servers: Servers, names: Names, presence: Presence) -> None:
        self._servers = servers
        self._names = names
        self._presence = presence
        self._families: dict[WidthAndShard, Family] = {}

    def pieces(self, batches: Sequence[EncodedKeys], applied: int = 0) -> Iterator[Piece]:
        """The buckets of the keys, piece by piece; keys whose family is not there are in no piece.

        Raises:
            IndexNotFoundError: the index was dropped.
            IndexNotReadyError: a server went back to before it had a family, and to before ``applied``.
            CorruptIndexError: buckets or marks are missing.
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

    def families(self, families: Sequence[WidthAndShard], applied: int = 0) -> list[Family | None]:
        """The present state of families; None where one is not there yet, or not any more on a server that went back.

        Raises:
            IndexNotFoundError: the index was dropped.
            IndexNotReadyError: a server went back to before it had a family, and to before ``applied``.
            CorruptIndexError: a family was there, and is not any more.
        """
        found = self._read_states(families)
        if missing := [family for family in families if family not in found]:
            self._require_never_made(missing, applied)
        self._families |= found
        return [found.get(family) for family in families]

    def all_families(self) -> list[tuple[int, int, Family]]:
        """Width, shard and present state of every family, in order; raises like ``families``."""
        known = self.known_families()
        return [
            (width, shard, family)
            for (width, shard), family in zip(known, self.families(known), strict=True)
            if family is not None
        ]

    def last_seen(self, families: Sequence[WidthAndShard], applied: int = 0) -> list[Family | None]:
        """Families as they were when they were last read; those that never were are read now."""
        if unknown := [family for family in families if family not in self._families]:
            self.families(unknown, applied)
        return [self._families.get(family) for family in families]

    def still_there(self, families: Iterable[WidthAndShard]) -> set[WidthAndShard]:
        """Which families are there now; the others, whose server went back to before them, are forgotten."""
        asked = set(families)
        found = self._read_states(asked)
        for gone in asked - found.keys():
            self._families.pop(gone, None)
        self._families |= found
        return set(found)

    def read_family(self, width: int, shard: int, numbers: Positions) -> Command:
        """The command that reads a family's state and some of its buckets, atomically."""
        keys = [self._names.family(width, shard), *self._names.buckets(width, shard, numbers)]
        return Command(self._place(shard), ("MGET", *keys))

    def known_families(self) -> list[WidthAndShard]:
        """Width and shard of each family that may have entries, in order."""
        known = known_families(self._servers, self._names)
        if known is None:
            raise self._lost_list()
        return known

    def lost(self, width: int, shard: int) -> CorruptIndexError:
        """The error for a family that lacks something; raises ``IndexNotFoundError`` if the index was dropped."""
        return self._presence.lost(self._names, f"entries of shard {shard} with keys of {width} bytes")

    def _lost_list(self) -> CorruptIndexError:
        return self._presence.lost(self._names, "the list of its parts")

    def _read_states(self, families: Iterable[WidthAndShard]) -> dict[WidthAndShard, Family]:
        parts = list(by_place(families, lambda family: self._place(family[1])))
        replies = self._servers.exchange(
            [Command(place, ("MGET", *(self._names.family(*family) for family in some))) for place, some in parts]
        )
        return {
            family: Family.from_bytes(state)
            for (_, some), states in zip(parts, replies, strict=True)
            for family, state in zip(some, states, strict=True)
            if state is not None
        }

    def _require_never_made(self, families: list[WidthAndShard], applied: int) -> None:
        """Raise if families that were not there just now have been there before, unless their server went back."""
        self._presence.require(self._names)
        confirmed = confirmed_families(self._servers, self._names, families)
        if confirmed is None:
            raise self._lost_list()
        if not confirmed:
            return
        made = makings(self._servers, self._names)
        marks = self._marks_of({shard for _, shard in confirmed})
        # Unless they were made a moment ago.
        found = self._read_states(confirmed)
        for family in confirmed:
            if family not in found:
                self._require_gone_back(family, marks.get(family[1]), made.get(family), applied)

    def _require_gone_back(
        self, family: WidthAndShard, mark: Mark | None, made: tuple[int, int] | None, applied: int
    ) -> None:
        """Raise unless a shard's mark is one of before a family was made, and counts all that is applied."""
        if mark is None or made is None or mark.applied > made[0] or mark.greatest > made[1]:
            raise self.lost(*family)
        if mark.applied < applied:
            raise self._presence.went_back(applied, mark.applied)

    def _marks_of(self, shards: Iterable[int]) -> dict[int, Mark]:
        parts = list(by_place(shards, self._place))
        replies = self._servers.exchange(
            [Command(place, ("MGET", *map(self._names.mark, some))) for place, some in parts]
        )
        return {
            shard: Mark.from_bytes(mark)
            for (_, some), marks in zip(parts, replies, strict=True)
            for shard, mark in zip(some, marks, strict=True)
            if mark is not None
        }

    def _place(self, shard: int) -> int:
        return self._servers.place(self._names, shard)

    def _requests(self, sought: _Sought, waiting: Positions) -> Iterator[_Request]:
        groups, which = np.unique(sought.groups[waiting], return_inverse=True)
        families = sought.families(groups)
        seen = self.last_seen(families, sought.applied)
        counts = np.array([0 if family is None else family.buckets for family in seen], np.int64)
        is_there = np.flatnonzero(counts[which])
        waiting, which = waiting[is_there], which[is_there]
        numbers = addresses(sought.hashes[waiting], counts[which])
        places = _of_each([shard for _, shard in families], self._place)
        # One number decides the order: that of the family's place, of the family, and of the bucket.
        rank = np.empty(len(groups), dtype=np.int64)
        rank[np.lexsort((groups, places))] = np.arange(len(groups))
        ranked = rank[which] << _NUMBER_BITS | numbers
        order = np.argsort(ranked)
        waiting, which, numbers, ranked = waiting[order], which[order], numbers[order], ranked[order]
        is_first = np.ones(len(order), dtype=bool)
        is_first[1:] = np.diff(ranked) != 0
        firsts = np.flatnonzero(is_first)
        slots = np.cumsum(is_first) - 1
        sizes = np.array(
            [
                0 if family is None else family.bucket_bytes(width)
                for (width, _), family in zip(families, seen, strict=True)
            ],
            dtype=np.int64,
        )
        of_buckets = which[firsts]
        for start, end in _cuts(places[of_buckets], sizes[of_buckets]):
            first, last = firsts[start], firsts[end] if end < len(firsts) else len(order)
            own, of_own = np.unique(of_buckets[start:end], return_inverse=True)
            yield self._request(
                [families[group] for group in own.tolist()],
                _Wanted(
                    keys=waiting[first:last],
                    slots=slots[first:last] - start,
                    batches=groups[own] >> _SHARD_BITS,
                    families=of_own,
                    numbers=numbers[firsts[start:end]],
                    counts=counts[own],
                ),
            )

    def _request(self, families: list[WidthAndShard], wanted: _Wanted) -> _Request:
        shards = sorted({shard for _, shard in families})
        bounds = np.searchsorted(wanted.families, np.arange(len(families) + 1)).tolist()
        buckets = b"".join(
            self._names.packed_buckets(*family, wanted.numbers[start:end])
            for family, (start, end) in zip(families, pairwise(bounds), strict=True)
        )
        marks = map(self._names.mark, shards)
        states = (self._names.family(*family) for family in families)
        command = Command(
            self._place(shards[0]), ("MGET", *marks, *states), PackedArguments(len(wanted.numbers), buckets)
        )
        return _Request(wanted, families, shards, command)

    def _received(self, sought: _Sought, request: _Request, reply: Reply) -> tuple[list[Piece], Positions]:
        """The pieces that an answer has, and the positions of keys whose family has grown meanwhile."""
        wanted, first = request.wanted, len(request.shards) + len(request.families)
        states, buckets = reply[len(request.shards) : first], reply[first:]
        families = [
            self._seen(family, state, sought.applied) for family, state in zip(request.families, states, strict=True)
        ]
        is_same = [
            family is not None and family.buckets == count
            for family, count in zip(families, wanted.counts.tolist(), strict=True)
        ]
        marks = {
            shard: Mark.from_bytes(mark) for shard, mark in zip(request.shards, reply, strict=False) if mark is not None
        }
        for (width, shard), family in zip(request.families, families, strict=True):
            if family is not None and shard not in marks:
                raise self.lost(width, shard)
        has_grown = ~np.array(is_same)[wanted.families]
        for place in [place for place, bucket in enumerate(buckets) if bucket is None]:
            if not has_grown[place]:
                raise self.lost(*request.families[wanted.families[place]])
            # The server has lost its last changes, growth among them.
            buckets[place] = NO_RECORDS
        moved = has_grown[wanted.slots]
        pieces = [
            self._piece(sought, request, (start, end), ~moved, _Answer(families, marks, buckets))
            for start, end in _runs(wanted.batches)
        ]
        return [piece for piece in pieces if len(piece.requests)], wanted.keys[moved]

    def _seen(self, name: WidthAndShard, state: bytes | None, applied: int) -> Family | None:
        """Remember the state of a family; forget one that its server went back to before, or raise if it was lost."""
        if state is None:
            self._require_never_made([name], applied)
            self._families.pop(name, None)
            return None
        family = self._families[name] = Family.from_bytes(state)
        return family

    def _piece(
        self, sought: _Sought, request: _Request, run: tuple[int, int], is_kept: NDArray[np.bool_], answer: _Answer
    ) -> Piece:
        """The families of one batch among those of an answer; ``run`` are the first and the one behind the last."""
        wanted = request.wanted
        first, last = np.searchsorted(wanted.families, run).tolist()
        # The buckets stay, so that slots keep their meaning; no key asks for those that are out of date.
        own = np.flatnonzero((wanted.slots >= first) & (wanted.slots < last) & is_kept)
        batch = int(wanted.batches[run[0]])
        families = {
            shard: family
            for (_, shard), family in zip(request.families[slice(*run)], answer.families[slice(*run)], strict=True)
        }
        return Piece(
            batch=batch,
            requests=wanted.keys[own] - sought.starts[batch],
            slots=wanted.slots[own] - first,
            shards=np.array(list(families), dtype=np.int64)[wanted.families[first:last] - run[0]],
            numbers=wanted.numbers[first:last],
            buckets=answer.buckets[first:last],
            families={shard: family for shard, family in families.items() if family is not None},
            marks={shard: answer.marks[shard] for shard in families if shard in answer.marks},
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

    def families(self, groups: Positions) -> list[WidthAndShard]:
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
        slots: shape (n,), in order: which of the buckets each belongs to.
        batches: shape (families,): the batch of each of its families.
        families: shape (buckets,), in order: which of its families each bucket is of.
        numbers: shape (buckets,): its number there.
        counts: shape (families,): how many buckets each is taken to have.
    """

    keys: Positions
    slots: Positions
    batches: Positions
    families: Positions
    numbers: Positions
    counts: Positions


@dataclass(frozen=True, slots=True)
class _Request:
    """A command that reads the marks of shards, then the states of families, then buckets."""

    wanted: _Wanted
    families: list[WidthAndShard]
    shards: list[int]
    command: Command


@dataclass(frozen=True, slots=True)
class _Answer:
    families: list[Family | None]
    marks: dict[int, Mark]
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
