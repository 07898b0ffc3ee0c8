"""Finding and changing single records in packed buckets, without taking the buckets apart."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import repeat
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from rli.store import ABSENT, Entries
from rli_redis.buckets import (
    HEADER_WIDTH,
    Positions,
    Records,
    bounds_of,
    decode,
    encode,
    entries_of,
    numbers_type,
    record_widths,
    rows_of,
    stamp_of,
    suffice,
    widened,
    width_bytes_among,
    width_bytes_in,
)

_STAMP: Final = np.dtype(">u4")


@dataclass(frozen=True, slots=True)
class NextVersion:
    """Changed buckets.

    Attributes:
        positions: which ones, in order.
        old_stamps: shape (buckets,), dtype ``>u4``: of the versions before.
        buckets: the new versions.
    """

    positions: Positions
    old_stamps: NDArray[np.uint32]
    buckets: list[bytes]


class PackedBuckets:
    """Some buckets of one key width, one after the other in one array.

    Raises:
        CorruptIndexError: from the constructor, for bytes that are no bucket.
    """

    def __init__(self, buckets: list[bytes], key_width: int) -> None:
        self._buckets = buckets
        self._key_width = key_width
        self._joined = np.frombuffer(bytearray().join(buckets), dtype=np.uint8)
        self._bounds = bounds_of(buckets)
        self._width_bytes = width_bytes_in(self._joined, self._bounds, key_width)
        self._sizes = np.diff(self._bounds)
        self._widths = record_widths(self._width_bytes, key_width)

    def find(self, keys: NDArray[np.void], bucket_of: Positions) -> Positions:
        """Where the record of each key begins: shape (n,), -1 where its bucket has none.

        Args:
            keys: shape (n,); may repeat.
            bucket_of: the bucket that each key belongs to, as a position among the buckets.
        """
        # Whichever way arrays could do this, they would have to touch every record of a bucket for each key.
        buckets, first = self._buckets, HEADER_WIDTH
        is_filled = self._sizes > first
        if is_filled.all():
            found = self._found_in(bucket_of.tolist(), keys.tolist())
        else:
            # A bulk load meets empty buckets only.
            filled = np.flatnonzero(is_filled[bucket_of])
            found = np.full(len(keys), -1, dtype=np.int64)
            found[filled] = self._found_in(bucket_of[filled].tolist(), keys[filled].tolist())
        widths = self._widths[bucket_of]
        for position in np.flatnonzero((found >= 0) & ((found - first) % widths != 0)).tolist():
            found[position] = _record_after(
                buckets[bucket_of[position]], keys[position].tobytes(), int(found[position]), int(widths[position])
            )
        return np.where(found >= 0, self._bounds[bucket_of] + found, -1)

    def _found_in(self, bucket_of: list[int], keys: list[bytes]) -> Positions:
        """Where the bytes of each key stand first in its bucket."""
        buckets = self._buckets
        sought = [buckets[bucket] for bucket in bucket_of]
        return np.fromiter(map(bytes.find, sought, keys, repeat(HEADER_WIDTH)), dtype=np.int64, count=len(keys))

    def entries_at(self, offsets: Positions, bucket_of: Positions) -> Entries:
        """The entry of each record that ``find`` found; absent where it found none."""
        entries = np.full(len(offsets), ABSENT, dtype=np.uint64)
        there = np.flatnonzero(offsets >= 0)
        numbers, width_bytes = offsets[there] + self._key_width, self._width_bytes[bucket_of[there]]
        for width_byte in width_bytes_among(width_bytes):
            alike = np.flatnonzero(width_bytes == width_byte)
            item = numbers_type(width_byte)
            entries[there[alike]] = entries_of(_at_every_byte(self._joined, item)[numbers[alike]], width_byte)
        return entries

    def changed(
        self, keys: NDArray[np.void], entries: Entries, bucket_of: Positions, offsets: Positions, step: int
    ) -> NextVersion:
        """The next version of each bucket that is to have these records, new ones or in the place of old ones.

        Args:
            keys: distinct within a bucket, shape (n,).
            entries: what they are to have.
            bucket_of: the bucket of each.
            offsets: where the old ones are, as ``find`` told.
            step: by how much the stamps grow, at least 1.
        """
        wide = self._widened_for(entries, bucket_of)
        if wide is not self:
            return wide.changed(keys, entries, bucket_of, wide.find(keys, bucket_of), step)
        joined = self._joined.copy()
        touched = np.flatnonzero(np.bincount(bucket_of, minlength=len(self._buckets)))
        starts = self._bounds[touched]
        stamps = _at_every_byte(joined, _STAMP)
        old_stamps = stamps[starts]
        stamps[starts] = old_stamps.astype(np.uint32) + np.uint32(step)
        appended: dict[int, bytes] = {}
        width_bytes = self._width_bytes[bucket_of]
        for width_byte in width_bytes_among(width_bytes):
            alike = width_bytes == width_byte
            old = np.flatnonzero(alike & (offsets >= 0))
            rows = rows_of(keys[old], entries[old], width_byte)
            _at_every_byte(joined, rows.dtype)[offsets[old]] = rows
            new = np.flatnonzero(alike & (offsets < 0))
            if len(new):
                appended |= _by_bucket(rows_of(keys[new], entries[new], width_byte), bucket_of[new])
        content = joined.tobytes()
        bounds = zip(starts.tolist(), self._bounds[touched + 1].tolist(), strict=True)
        buckets = [content[start:end] for start, end in bounds]
        if appended:
            buckets = [
                bucket + appended.get(position, b"") for position, bucket in zip(touched.tolist(), buckets, strict=True)
            ]
        return NextVersion(touched, old_stamps, buckets)

    def without(self, bucket_of: Positions, offsets: Positions, step: int) -> NextVersion:
        """The next version of each bucket that is to lack these records.

        Args:
            bucket_of: the bucket of each record, shape (n,).
            offsets: where they are, as ``find`` told.
            step: by how much the stamps grow, at least 1.
        """
        touched = np.flatnonzero(np.bincount(bucket_of, minlength=len(self._buckets)))
        old = [self._buckets[position] for position in touched.tolist()]
        records = decode(old, self._key_width)
        starts = np.cumsum(records.counts) - records.counts
        within = (offsets - self._bounds[bucket_of] - HEADER_WIDTH) // self._widths[bucket_of]
        stays = np.ones(len(records.keys), dtype=bool)
        stays[starts[np.searchsorted(touched, bucket_of)] + within] = False
        kept = Records.sorted_into(records.buckets[stays], len(touched), records.keys[stays], records.entries[stays])
        stamps = [stamp_of(bucket) for bucket in old]
        buckets = encode(kept, [stamp + step for stamp in stamps], self._width_bytes[touched])
        return NextVersion(touched, np.array(stamps, dtype=">u4"), buckets)

    def _widened_for(self, entries: Entries, bucket_of: Positions) -> PackedBuckets:
        """The same buckets, able to take these entries."""
        if suffice(self._width_bytes, entries):
            return self
        needed = widened(self._width_bytes, entries, bucket_of)
        narrow = np.flatnonzero(needed != self._width_bytes)
        if not len(narrow):
            return self
        buckets = list(self._buckets)
        old = [buckets[position] for position in narrow.tolist()]
        wide = encode(decode(old, self._key_width), [stamp_of(bucket) for bucket in old], needed[narrow])
        for position, bucket in zip(narrow.tolist(), wide, strict=True):
            buckets[position] = bucket
        return PackedBuckets(buckets, self._key_width)


def _at_every_byte(joined: NDArray[np.uint8], item: np.dtype[Any]) -> NDArray[Any]:
    """A view of the items that would be there if one began at every byte: only some are looked at, or changed."""
    return np.ndarray(max(len(joined) - item.itemsize + 1, 0), item, joined, strides=(1,))


def _record_after(bucket: bytes, key: bytes, offset: int, width: int) -> int:
    """The first record with this key behind the offset, where its bytes may stand by chance, -1 where there is none."""
    while offset >= 0 and (offset - HEADER_WIDTH) % width:
        offset = bucket.find(key, offset + 1)
    return offset


def _by_bucket(rows: NDArray[np.void], bucket_of: Positions) -> dict[int, bytes]:
    """The bytes of the rows of each bucket."""
    own, counts = np.unique(bucket_of, return_counts=True)
    content = rows[np.argsort(bucket_of, kind="stable")].tobytes()
    ends = np.cumsum(counts) * rows.dtype.itemsize
    starts = ends - counts * rows.dtype.itemsize
    bounds = zip(own.tolist(), starts.tolist(), ends.tolist(), strict=True)
    return {bucket: content[start:end] for bucket, start, end in bounds}
