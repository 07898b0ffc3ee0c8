"""Segments: the entries of one key width in one shard, spread over buckets by linear hashing.

A segment with ``buckets`` buckets keeps a key in the bucket ``hash mod 2^(level+1)``, or ``hash mod 2^level`` where
that bucket is not there yet, level being the whole part of log2(buckets). So the number of buckets grows by one at a
time: the new bucket takes its part of just one other. (Litwin, *Linear hashing*, VLDB 1980.)

Every bucket of a segment is stored, empty ones too: one that is missing was lost by the server.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from rli.codec.encoded_keys import as_words
from rli.errors import CorruptIndexError
from rli_redis.buckets import HEADER_WIDTH, Positions

_HASH_SEED: Final = 0x6275_636B
_MULTIPLIERS: Final = (np.uint64(0xFF51_AFD7_ED55_8CCD), np.uint64(0xC4CE_B9FE_1A85_EC53))
_FINALIZER: Final = ((np.uint32(16), np.uint32(0x85EB_CA6B)), (np.uint32(13), np.uint32(0xC2B2_AE35)))
_HALF: Final = np.uint64(32)
_LOW_HALF: Final = np.uint64(0xFFFF_FFFF)
_STATE: Final = np.dtype([("version", "V8"), ("buckets", ">u4"), ("entries", ">u8"), ("tombstones", ">u8")])
# In format 2 a watermark of the segment followed. A process of that format may still make such a segment during the upgrade.
_OLD_STATE_BYTES: Final = _STATE.itemsize + 4

_NO_STATE: Final = bytes(_STATE.itemsize)

VERSION_WIDTH: Final = 8

BYTES_PER_STATE: Final = 100
"""About how many bytes the state of a segment, or the watermark of a shard, takes on its way, with its name."""

HASH_KEY_WIDTH: Final = 16

MAX_PREFIX_WIDTH: Final = 255

_PREFIX_BITS: Final = 6
"""The first bytes of a key decide so many low bits of its hash. So a look-up by these bytes reads one bucket of 64. If nearly all
keys begin alike, their buckets are less than 128 times as large as others would be: 127 buckets have just one of some beginning."""

_PREFIX_MASK: Final = (1 << _PREFIX_BITS) - 1

# With 12 entries of UUIDs (16 + 4 bytes) in a bucket, an entry costs 29.2 bytes in all; with 16 27.1, with 20 26.2, with
# 24 25.6. Larger buckets save little memory, and sparse reads and writes pay for every byte of them.
_BUCKET_BYTES: Final = 365
_NUMBERS_BYTES: Final = 4
# Growing a segment a little with each batch would cost each batch a script for each shard.
_GROWTH: Final = 1.05


@dataclass(frozen=True, slots=True)
class Segment:
    """The state of a segment.

    Attributes:
        version: 8 random bytes, others after each change of the segment's buckets. A count would come to the same
            number twice where a server loses its last changes.
        buckets: how many there are, at least 1.
        entries: all of them, tombstones included.
        tombstones: how many of the entries are tombstones.
    """

    version: bytes
    buckets: int
    entries: int
    tombstones: int

    @classmethod
    def from_bytes(cls, stored: bytes) -> Segment:
        """Read what the scripts wrote."""
        values = states_in([stored])[0]
        return cls(values["version"].tobytes(), *(int(values[name]) for name in ("buckets", "entries", "tombstones")))

    def bucket_bytes(self, key_width: int) -> int:
        """About how many bytes a bucket has (``present_bytes``)."""
        return int(present_bytes(self.entries, self.buckets, bucket_bytes(key_width), record_width(key_width)))


def states_in(stored: Sequence[bytes | None]) -> NDArray[np.void]:
    """The states of segments: shape (n,) with the attributes of ``Segment`` as fields, no buckets where there is none.

    Raises:
        CorruptIndexError: the scripts have not written these bytes.
    """
    whole = [_NO_STATE if state is None else state for state in stored]
    for length in set(map(len, whole)) - {_STATE.itemsize}:
        if length != _OLD_STATE_BYTES:
            raise CorruptIndexError(
                f"the state of a part of the index has a wrong length: bytes={length}",
                remedy="bootstrap the index again",
            )
        whole = [state[: _STATE.itemsize] for state in whole]
    return np.frombuffer(b"".join(whole), dtype=_STATE)


def hashes_of(keys: NDArray[np.void], hash_key: bytes, prefix_width: int = 0) -> Positions:
    """What decides a key's bucket, independent of the hash that decides its shard: 32 bits of the key, mixed.

    Where keys are found by how they begin, the lowest bits are those of the beginning (``prefix_hashes``), and the 32 bits
    of the key follow. Linear hashing goes by the low bits first.
    """
    hashes = _hashes_of_whole(keys, hash_key)
    return hashes << _PREFIX_BITS | prefix_hashes(keys, hash_key, prefix_width) if prefix_width else hashes


def prefix_hashes(keys: NDArray[np.void], hash_key: bytes, prefix_width: int) -> Positions:
    """The lowest bits of the hashes of all keys that begin as these do."""
    key_width = keys.dtype.itemsize
    width = min(prefix_width, key_width)
    beginnings = np.ascontiguousarray(keys).view(np.uint8).reshape(len(keys), key_width)[:, :width]
    return _hashes_of_whole(np.ascontiguousarray(beginnings).view(f"V{width}")[:, 0], hash_key) & _PREFIX_MASK


def prefix_addresses(hashes: Positions, buckets: Positions) -> tuple[Positions, Positions, int]:
    """All buckets of a segment that may have keys of a beginning: the first of them, how many there are, and the step between two.

    Args:
        hashes: shape (n,): as ``prefix_hashes`` gives them.
        buckets: shape (n,): how many buckets the segment has.

    Example:
        >>> prefix_addresses(np.array([5, 5]), np.array([40, 140]))
        (array([5, 5]), array([1, 3]), 64)
    """
    step = 1 << _PREFIX_BITS
    firsts = addresses(hashes, buckets)
    return firsts, -((firsts - buckets) // step), step


def _hashes_of_whole(keys: NDArray[np.void], hash_key: bytes) -> Positions:
    """32 bits of the words of keys, mixed.

    The words of a key are multiplied by random numbers and added up, modulo 2^64; the upper half counts. So any two
    keys have the same hash with a probability of 2^-32, and are in one of n buckets with one of 1/n, whatever the keys
    are, for anybody who does not know ``hash_key``. (Lemire and Kaser, *Strongly universal string hashing is fast*, 2014.) The
    mixing behind that loses nothing: it spreads keys evenly that differ in few places.
    """
    if not hash_key:
        return _hashes_without_key(keys)
    words = _half_words(keys)
    factors = _factors(hash_key, words.shape[1] + 1)
    return _mixed(((words @ factors[1:] + factors[0]) >> _HALF).astype(np.uint32)).astype(np.int64)


def _half_words(keys: NDArray[np.void]) -> NDArray[np.uint64]:
    """The bytes of each key, padded with zeros, as 32-bit numbers: shape (n, words)."""
    return np.ascontiguousarray(as_words(keys, "<u8")).view("<u4").astype(np.uint64)


@lru_cache(maxsize=256)
def _factors(hash_key: bytes, count: int) -> NDArray[np.uint64]:
    return np.frombuffer(hashlib.shake_256(hash_key).digest(8 * count), dtype="<u8").astype(np.uint64)


def _mixed(hashes: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The finalizer of MurmurHash3, which maps no two numbers to one."""
    for shift, multiplier in _FINALIZER:
        hashes = (hashes ^ (hashes >> shift)) * multiplier
    return hashes ^ (hashes >> np.uint32(16))


def _hashes_without_key(keys: NDArray[np.void]) -> Positions:
    """The hash of formats 2 and 3.

    Word after word is taken in by an exclusive or, a multiplication and a shift, as the finalizer of MurmurHash3 does
    it (its constants, too), on all keys at once.
    """
    mixed = np.full(len(keys), _HASH_SEED, dtype=np.uint64)
    for word in as_words(keys, "<u8").T:
        mixed = (mixed ^ word) * _MULTIPLIERS[0]
        mixed ^= mixed >> _HALF
    mixed *= _MULTIPLIERS[1]
    return ((mixed ^ (mixed >> _HALF)) & _LOW_HALF).astype(np.int64)


def addresses(hashes: Positions, buckets: Positions | int, segment_of: Positions | None = None) -> Positions:
    """The bucket of each hash, given how many its segment has.

    Args:
        hashes: shape (n,).
        buckets: of all, of each hash, or of each segment.
        segment_of: shape (n,): the segment of each hash, where ``buckets`` is of segments.
    """
    count = np.asarray(buckets, dtype=np.int64)
    # frexp gives the exponent of the power of two above; 2^53 is far beyond any number of buckets.
    power = np.int64(1) << (np.frexp(count.astype(np.float64))[1].astype(np.int64) - 1)
    if segment_of is not None:
        count, power = count[segment_of], power[segment_of]
    wide = hashes & (2 * power - 1)
    return np.where(wide < count, wide, hashes & (power - 1))


def record_width(key_width: int) -> int:
    """Bytes of a record in most buckets: those of indexes with less than 65,536 commits and file groups."""
    return key_width + _NUMBERS_BYTES


def entries_per_bucket(key_width: int) -> int:
    """How many entries suit a bucket."""
    return max(1, (_BUCKET_BYTES - HEADER_WIDTH) // record_width(key_width))


def bucket_bytes(key_width: int) -> int:
    """About how many bytes a bucket has, at most."""
    return HEADER_WIDTH + entries_per_bucket(key_width) * record_width(key_width)


def present_bytes(
    entries: Positions | int, buckets: Positions | int, usual: Positions | int, record: Positions | int
) -> Positions:
    """About how many bytes a bucket of each segment has; more than it should where the segment is about to grow.

    Args:
        entries: of each segment.
        buckets: of each segment.
        usual: what ``bucket_bytes`` says of its key width.
        record: what ``record_width`` says of it.
    """
    return np.maximum(usual, entries * record // np.maximum(buckets, 1))


def wanted_buckets(entries: int, key_width: int) -> int:
    """How many buckets suit a segment of so many entries."""
    return max(1, -(-entries // entries_per_bucket(key_width)))


def outgrows(entries: int, key_width: int, buckets: int) -> bool:
    """Whether a segment of so many entries should have more buckets."""
    return wanted_buckets(entries, key_width) > buckets * _GROWTH
