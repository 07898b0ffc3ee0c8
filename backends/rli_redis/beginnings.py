"""Beginnings of keys that are sought, and the buckets that may have such keys: found for all of a look-up at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rli.store import EncodedKeys
from rli_redis.buckets import Positions
from rli_redis.keyspace import Names
from rli_redis.segments import prefix_addresses, prefix_hashes


@dataclass(frozen=True, slots=True)
class Asked:
    """Buckets of some segments that are asked for beginnings of keys.

    Attributes:
        numbers: shape (n,): the number of each bucket; each bucket once.
        segment_of: shape (n,), in order: the segment of each.
        beginnings: shape (m,): each beginning that is sought, once for each bucket that may have its keys.
        bucket_of: shape (m,): that bucket.
    """

    numbers: Positions
    segment_of: Positions
    beginnings: Positions
    bucket_of: Positions


@dataclass(frozen=True, slots=True)
class Beginnings:
    """Beginnings of keys, all of one width; those of a shard are side by side.

    Attributes:
        content: shape (n,).
        hashes: shape (n,): the low bits of the hashes of all keys that begin so; None if a beginning decides none.
        shards: in order, each once.
        bounds: shape (shards + 1,): where the beginnings of each shard start, and where the last ones end.
    """

    content: list[bytes]
    hashes: Positions | None
    shards: list[int]
    bounds: Positions

    @classmethod
    def of(cls, prefixes: EncodedKeys, names: Names) -> Beginnings:
        """The beginnings that a look-up seeks, in an index whose keys have some names."""
        own = prefixes.take(np.argsort(prefixes.shards, kind="stable"))
        shards, starts = np.unique(own.shards, return_index=True)
        decide = 0 < names.prefix_width <= own.width
        hashes = prefix_hashes(own.keys, names.hash_key, names.prefix_width) if decide else None
        return cls(own.to_bytes(), hashes, shards.tolist(), np.append(starts, len(own)))

    def of_shard(self, shard: int) -> Beginnings:
        """The beginnings that are sought in one shard."""
        position = self.shards.index(shard)
        own = slice(*self.bounds[position : position + 2].tolist())
        hashes = None if self.hashes is None else self.hashes[own]
        return Beginnings(self.content[own], hashes, [shard], self.bounds[position : position + 2] - own.start)

    def most_asked(self, of_shards: Positions, buckets: Positions) -> Positions:
        """How many buckets of each segment are asked, at most; arguments as of ``asked``."""
        segment_of, _, counts = self._spans(of_shards, buckets)[:3]
        return np.minimum(np.bincount(segment_of, counts, len(buckets)).astype(np.int64), buckets)

    def asked(self, of_shards: Positions, buckets: Positions) -> Asked:
        """The buckets of some segments that may have keys which begin so.

        Args:
            of_shards: shape (segments,): the position of each segment's shard in ``shards``.
            buckets: shape (segments,): how many each has.
        """
        segment_of, beginnings, counts, firsts, step = self._spans(of_shards, buckets)
        numbers = np.repeat(firsts, counts) + step * _within(counts)
        both, bucket_of = np.unique(np.repeat(segment_of << 32, counts) | numbers, return_inverse=True)
        return Asked(both & 0xFFFF_FFFF, both >> 32, np.repeat(beginnings, counts), bucket_of)

    def _spans(
        self, of_shards: Positions, buckets: Positions
    ) -> tuple[Positions, Positions, Positions, Positions, int]:
        """Each segment with each beginning that is sought in it: how many buckets may have such keys, the first one, and the step."""
        sought = np.diff(self.bounds)[of_shards]
        segment_of = np.repeat(np.arange(len(buckets)), sought)
        beginnings = np.repeat(self.bounds[of_shards], sought) + _within(sought)
        counts = buckets[segment_of]
        if self.hashes is None:
            return segment_of, beginnings, counts, np.zeros_like(counts), 1
        firsts, counts, step = prefix_addresses(self.hashes[beginnings], counts)
        return segment_of, beginnings, counts, firsts, step


def _within(counts: Positions) -> Positions:
    """For each run of so many positions, the numbers from 0 on."""
    return np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
