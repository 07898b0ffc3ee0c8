"""Buckets: entries of one family, packed into one Redis string.

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
Layouts: TypeAlias = NDArray[np.uint8]

HEADER_WIDTH: Final = 5
STAMP_WIDTH: Final = 4

_STAMP_MODULUS: Final = 1 << 32
_MAX_STEP: Final = 1 << 16
_NUMBER_WIDTHS: Final = (1, 2, 4)
_LAYOUTS: Final = tuple(sequence << 4 | group for sequence in _NUMBER_WIDTHS for group in _NUMBER_WIDTHS)
_IS_LAYOUT: Final = np.isin(np.arange(1 << 8), _LAYOUTS)
_SMALLEST_LAYOUT: Final = 0x11
NO_RECORDS: Final = bytes(STAMP_WIDTH) + bytes((_SMALLEST_LAYOUT,))
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
    needed = least_layouts(expected)
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


def layouts_in(joined: NDArray[np.uint8], bounds: Positions, key_width: int) -> Layouts:
    """The widths byte of each bucket; raises ``CorruptIndexError`` for bytes that are no bucket."""
    sizes = np.diff(bounds) - HEADER_WIDTH
    if (sizes < 0).any():
        raise _no_bucket(int(sizes.min()) + HEADER_WIDTH)
    layouts = joined[bounds[:-1] + STAMP_WIDTH]
    if not _IS_LAYOUT[layouts].all() or (sizes % record_widths(layouts, key_width)).any():
        raise _no_bucket(int(sizes.max()) + HEADER_WIDTH)
    return layouts


def layouts_among(layouts: Layouts) -> list[int]:
    """The different ones, in order."""
    return np.flatnonzero(np.bincount(layouts)).tolist()


def record_widths(layouts: Layouts, key_width: int) -> Positions:
    """Bytes of a record, for each widths byte."""
    return key_width + (layouts >> 4).astype(np.int64) + (layouts & 0xF)


def least_layouts(entries: Entries) -> Layouts:
    """The widths byte that each entry needs."""
    groups = file_groups(entries)
    sequence_widths = _widths_of(sequences(entries))
    return (sequence_widths << np.uint8(4)) | _widths_of(np.where(groups == TOMBSTONE, np.uint32(0), groups))


def widened(layouts: Layouts, entries: Entries, buckets: Positions) -> Layouts:
    """The widths byte of each bucket that suits what it has now and these entries, each given with its bucket."""
    needed = least_layouts(entries)
    suiting = np.zeros_like(layouts)
    for half in (0xF0, 0x0F):
        greatest = layouts & half
        np.maximum.at(greatest, buckets, needed & half)
        suiting |= greatest
    return suiting


def decode(buckets: list[bytes], key_width: int) -> Records:
    """The records of the buckets; raises ``CorruptIndexError`` for bytes that are no bucket."""
    bounds = bounds_of(buckets)
    layouts = layouts_in(np.frombuffer(b"".join(buckets), dtype=np.uint8), bounds, key_width)
    counts = (np.diff(bounds) - HEADER_WIDTH) // record_widths(layouts, key_width)
    places: list[Positions] = [np.empty(0, dtype=np.int64)]
    keys: list[NDArray[np.void]] = [np.empty(0, dtype=f"V{key_width}")]
    entries: list[Entries] = [np.empty(0, dtype=np.uint64)]
    for layout in layouts_among(layouts):
        chosen = np.flatnonzero(layouts == layout)
        content = b"".join([buckets[position][HEADER_WIDTH:] for position in chosen.tolist()])
        rows = np.frombuffer(content, dtype=record_type(key_width, layout))
        places.append(np.repeat(chosen, counts[chosen]))
        keys.append(rows["key"])
        entries.append(entries_of(rows, layout))
    return Records.sorted_into(np.concatenate(places), len(buckets), np.concatenate(keys), np.concatenate(entries))


def encode(records: Records, stamps: list[int], least: Layouts | None = None) -> list[bytes]:
    """The buckets that have these records, each with its stamp and, where given, with widths of at least ``least``."""
    count = len(stamps)
    buckets = records.buckets
    smallest = np.full(count, _SMALLEST_LAYOUT, dtype=np.uint8)
    layouts = widened(smallest if least is None else least, records.entries, buckets)
    encoded = [b""] * count
    for layout in layouts_among(layouts):
        chosen = np.flatnonzero(layouts == layout)
        rows = np.flatnonzero(layouts[buckets] == layout)
        width = record_type(records.keys.dtype.itemsize, layout).itemsize
        content = rows_of(records.keys[rows], records.entries[rows], layout).tobytes()
        start = 0
        for bucket, end in zip(chosen.tolist(), (np.cumsum(records.counts[chosen]) * width).tolist(), strict=True):
            encoded[bucket] = _header(stamps[bucket], layout) + content[start:end]
            start = end
    return encoded


def rows_of(keys: NDArray[np.void], entries: Entries, layout: int) -> NDArray[np.void]:
    """Records as they lie in a bucket with this widths byte, which must suffice for them: shape (n,)."""
    item = record_type(keys.dtype.itemsize, layout)
    rows = np.empty(len(keys), dtype=item)
    rows["key"] = keys
    rows["sequence"] = sequences(entries)
    # Cut to any width, the bytes of a tombstone are all ones.
    rows["group"] = file_groups(entries).astype(item["group"].newbyteorder("="))
    return rows


def entries_of(rows: NDArray[np.void], layout: int) -> Entries:
    """Entries of records, or of their numbers alone, as they lie in buckets with this widths byte."""
    groups = rows["group"].astype(np.uint32)
    groups[groups == _greatest(layout & 0xF)] = TOMBSTONE
    return (rows["sequence"].astype(np.uint64) << np.uint64(32)) | groups


@lru_cache(maxsize=256)
def record_type(key_width: int, layout: int) -> np.dtype[np.void]:
    """A record of buckets with this widths byte."""
    return np.dtype([("key", f"V{key_width}"), *numbers_type(layout).descr])


@lru_cache(maxsize=len(_LAYOUTS))
def numbers_type(layout: int) -> np.dtype[np.void]:
    """What stands behind the key in such a record."""
    return np.dtype([("sequence", f">u{layout >> 4}"), ("group", f">u{layout & 0xF}")])


def _header(stamp: int, layout: int) -> bytes:
    return (stamp % _STAMP_MODULUS).to_bytes(STAMP_WIDTH, "big") + bytes((layout,))


def _no_bucket(size: int) -> CorruptIndexError:
    return CorruptIndexError(
        f"a value among the index's keys is no bucket: bytes={size}; something else wrote there, or a newer version of "
        "rli: drop the index and bootstrap it again"
    )


def _widths_of(values: NDArray[np.uint32]) -> Layouts:
    return np.where(values < _greatest(1), 1, np.where(values < _greatest(2), 2, 4)).astype(np.uint8)


def _greatest(width: int) -> int:
    return (1 << 8 * width) - 1
