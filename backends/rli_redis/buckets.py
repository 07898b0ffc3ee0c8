"""Buckets: entries of one segment, packed into one Redis string.

::

    stamp (4 bytes) | widths (1 byte) | record | record | …          record: key, sequence, file group

The stamp grows with each change of the bucket, so that a script compares two versions by four bytes. It grows by a
random number: of two changes after the same version, one of which a server lost, each leaves another stamp. The widths
byte has the width of the sequences in its high half and of the file groups in its low half: 1, 2 or 4 bytes, as few
as the bucket's greatest values need, because most indexes have few of both. All numbers are big-endian; a tombstone
is the greatest file group of its width. The order of the records means nothing.

Work is done on many buckets at a time. ``decode`` and ``encode`` are for moving records between buckets;
``rli_redis.packed`` finds and changes single records in place.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rli.errors import CorruptIndexError
from rli.store import TOMBSTONE, Entries, file_groups, sequences

Positions: TypeAlias = NDArray[np.int64]
WidthBytes: TypeAlias = NDArray[np.uint8]

HEADER_WIDTH: Final = 5
STAMP_WIDTH: Final = 4

_STAMP_MODULUS: Final = 1 << 32
_MAX_STEP: Final = 1 << 16
_NUMBER_WIDTHS: Final = (1, 2, 4)
_WIDTH_BYTES: Final = tuple(sequence << 4 | group for sequence in _NUMBER_WIDTHS for group in _NUMBER_WIDTHS)
_IS_WIDTH_BYTE: Final = np.isin(np.arange(1 << 8), _WIDTH_BYTES)
_SMALLEST_WIDTH_BYTE: Final = 0x11
NO_RECORDS: Final = bytes(STAMP_WIDTH) + bytes((_SMALLEST_WIDTH_BYTE,))
"""An empty bucket."""


@dataclass(frozen=True, slots=True)
class Records:
    """The records of some buckets, bucket after bucket.

    Attributes:
        keys: shape (n,), dtype ``V<width>``.
        entries: shape (n,).
        counts: shape (buckets,): how many of the records are in each bucket.
    """

    keys: NDArray[np.void]
    entries: Entries
    counts: Positions

    @classmethod
    def sorted_into(cls, buckets: Positions, count: int, keys: NDArray[np.void], entries: Entries) -> Records:
        """Records in any order, given with their buckets, brought into the order of ``count`` buckets."""
        order = np.argsort(buckets, kind="stable")
        return cls(keys[order], entries[order], np.bincount(buckets, minlength=count))

    @property
    def buckets(self) -> Positions:
        """Shape (n,): the bucket that each record is in."""
        return np.repeat(np.arange(len(self.counts)), self.counts)


def empty_bucket(stamp: int, expected: Entries) -> bytes:
    """A bucket without records, with widths that will do for these entries."""
    needed = least_width_bytes(expected)
    return _header(stamp, int(np.max(needed & 0xF0)) | int(np.max(needed & 0x0F)))


def stamp_of(bucket: bytes) -> int:
    """The stamp of a bucket."""
    return int.from_bytes(bucket[:STAMP_WIDTH], "big")


def random_step() -> int:
    """By how much a stamp grows."""
    return 1 + secrets.randbelow(_MAX_STEP)


def bounds_of(buckets: list[bytes]) -> Positions:
    """Where each bucket begins when they lie one after the other, and where the last one ends: shape (n + 1,)."""
    bounds = np.zeros(len(buckets) + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, buckets), dtype=np.int64, count=len(buckets)), out=bounds[1:])
    return bounds


def width_bytes_in(joined: NDArray[np.uint8], bounds: Positions, key_width: int) -> WidthBytes:
    """The width byte of each bucket; raises ``CorruptIndexError`` for bytes that are no bucket."""
    sizes = np.diff(bounds) - HEADER_WIDTH
    if (sizes < 0).any():
        raise _no_bucket(int(sizes.min()) + HEADER_WIDTH)
    width_bytes = joined[bounds[:-1] + STAMP_WIDTH]
    if not _IS_WIDTH_BYTE[width_bytes].all() or (sizes % record_widths(width_bytes, key_width)).any():
        raise _no_bucket(int(sizes.max()) + HEADER_WIDTH)
    return width_bytes


def width_bytes_among(width_bytes: WidthBytes) -> list[int]:
    """The different ones, in order."""
    return np.flatnonzero(np.bincount(width_bytes)).tolist()


def record_widths(width_bytes: WidthBytes, key_width: int) -> Positions:
    """Bytes of a record, for each width byte."""
    return key_width + (width_bytes >> 4).astype(np.int64) + (width_bytes & 0xF)


def least_width_bytes(entries: Entries) -> WidthBytes:
    """The width byte that each entry needs."""
    groups = file_groups(entries)
    sequence_widths = _widths_of(sequences(entries))
    return (sequence_widths << np.uint8(4)) | _widths_of(np.where(groups == TOMBSTONE, np.uint32(0), groups))


def suffice(width_bytes: WidthBytes, entries: Entries) -> bool:
    """Whether each of the buckets can take each of the entries as it is; quick, and true for most."""
    needed = least_width_bytes(entries)
    return all(
        int((needed & half).max(initial=0)) <= int((width_bytes & half).min(initial=half)) for half in (0xF0, 0x0F)
    )


def widened(width_bytes: WidthBytes, entries: Entries, buckets: Positions) -> WidthBytes:
    """The width byte of each bucket that suits what it has now and these entries, each given with its bucket."""
    needed = least_width_bytes(entries)
    suiting = np.zeros_like(width_bytes)
    for half in (0xF0, 0x0F):
        greatest = width_bytes & half
        np.maximum.at(greatest, buckets, needed & half)
        suiting |= greatest
    return suiting


def decode(buckets: list[bytes], key_width: int) -> Records:
    """The records of the buckets; raises ``CorruptIndexError`` for bytes that are no bucket."""
    bounds = bounds_of(buckets)
    width_bytes = width_bytes_in(np.frombuffer(b"".join(buckets), dtype=np.uint8), bounds, key_width)
    counts = (np.diff(bounds) - HEADER_WIDTH) // record_widths(width_bytes, key_width)
    positions: list[Positions] = [np.empty(0, dtype=np.int64)]
    keys: list[NDArray[np.void]] = [np.empty(0, dtype=f"V{key_width}")]
    entries: list[Entries] = [np.empty(0, dtype=np.uint64)]
    for width_byte in width_bytes_among(width_bytes):
        chosen = np.flatnonzero(width_bytes == width_byte)
        content = b"".join([buckets[position][HEADER_WIDTH:] for position in chosen.tolist()])
        rows = np.frombuffer(content, dtype=record_type(key_width, width_byte))
        positions.append(np.repeat(chosen, counts[chosen]))
        keys.append(rows["key"])
        entries.append(entries_of(rows, width_byte))
    return Records.sorted_into(np.concatenate(positions), len(buckets), np.concatenate(keys), np.concatenate(entries))


def encode(records: Records, stamps: list[int], least: WidthBytes | None = None) -> list[bytes]:
    """The buckets that have these records, each with its stamp and, where given, with widths of at least ``least``."""
    count = len(stamps)
    buckets = records.buckets
    smallest = np.full(count, _SMALLEST_WIDTH_BYTE, dtype=np.uint8)
    width_bytes = widened(smallest if least is None else least, records.entries, buckets)
    encoded = [b""] * count
    for width_byte in width_bytes_among(width_bytes):
        chosen = np.flatnonzero(width_bytes == width_byte)
        rows = np.flatnonzero(width_bytes[buckets] == width_byte)
        width = record_type(records.keys.dtype.itemsize, width_byte).itemsize
        content = rows_of(records.keys[rows], records.entries[rows], width_byte).tobytes()
        start = 0
        for bucket, end in zip(chosen.tolist(), (np.cumsum(records.counts[chosen]) * width).tolist(), strict=True):
            encoded[bucket] = _header(stamps[bucket], width_byte) + content[start:end]
            start = end
    return encoded


def rows_of(keys: NDArray[np.void], entries: Entries, width_byte: int) -> NDArray[np.void]:
    """Records as they lie in a bucket with this width byte, which must suffice for them: shape (n,)."""
    item = record_type(keys.dtype.itemsize, width_byte)
    rows = np.empty(len(keys), dtype=item)
    rows["key"] = keys
    rows["sequence"] = sequences(entries)
    # Cut to any width, the bytes of a tombstone are all ones.
    rows["group"] = file_groups(entries).astype(item["group"].newbyteorder("="))
    return rows


def entries_of(rows: NDArray[np.void], width_byte: int) -> Entries:
    """Entries of records, or of their numbers alone, as they lie in buckets with this width byte."""
    groups = rows["group"].astype(np.uint32)
    groups[groups == _greatest(width_byte & 0xF)] = TOMBSTONE
    return (rows["sequence"].astype(np.uint64) << np.uint64(32)) | groups


@lru_cache(maxsize=256)
def record_type(key_width: int, width_byte: int) -> np.dtype[np.void]:
    """A record of buckets with this width byte."""
    return np.dtype([("key", f"V{key_width}"), *numbers_type(width_byte).descr])


@lru_cache(maxsize=len(_WIDTH_BYTES))
def numbers_type(width_byte: int) -> np.dtype[np.void]:
    """What stands behind the key in such a record."""
    return np.dtype([("sequence", f">u{width_byte >> 4}"), ("group", f">u{width_byte & 0xF}")])


def _header(stamp: int, width_byte: int) -> bytes:
    return (stamp % _STAMP_MODULUS).to_bytes(STAMP_WIDTH, "big") + bytes((width_byte,))


def _no_bucket(size: int) -> CorruptIndexError:
    return CorruptIndexError(
        f"a value of the index is not a bucket: bytes={size}",
        remedy="another program or a newer version of rli wrote it: drop the index and bootstrap it again",
    )


def _widths_of(values: NDArray[np.uint32]) -> WidthBytes:
    return np.where(values < _greatest(1), 1, np.where(values < _greatest(2), 2, 4)).astype(np.uint8)


def _greatest(width: int) -> int:
    return (1 << 8 * width) - 1
