"""Finding and changing single records in packed buckets, without taking the buckets apart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rli.store import ABSENT, Entries
from rli_redis.buckets import (
    HEADER_WIDTH,
    STAMP_WIDTH,
    Positions,
    Records,
    bounds_of,
    decode,
    encode,
    entries_of,
    layouts_among,
    layouts_in,
    numbers_type,
    record_widths,
    rows_of,
    stamp_of,
    widened,
)


@dataclass(frozen=True, slots=True)
class NextVersion:
    """Changed buckets.

    Attributes:
        slots: which ones, in order.
        old_stamps: shape (buckets,), dtype ``>u4``: of the versions before.
        buckets: the new versions.
    """

    slots: Positions
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
        self._layouts = layouts_in(self._joined, self._bounds, key_width)
        self._widths = record_widths(self._layouts, key_width)

    def find(self, keys: NDArray[np.void], slots: Positions) -> Positions:
        """Where the record of each key begins in the bucket of its slot: shape (n,), -1 where there is none."""
        # Whichever way arrays could do this, they would have to touch every record of a bucket for each key.
        buckets, first = self._buckets, HEADER_WIDTH
        # A bulk load meets empty buckets only.
        starts = self._bounds[slots]
        filled = np.flatnonzero(self._bounds[slots + 1] - starts > HEADER_WIDTH)
        found = np.full(len(keys), -1, dtype=np.int64)
        found[filled] = [
            buckets[slot].find(key, first)
            for key, slot in zip(keys[filled].tolist(), slots[filled].tolist(), strict=True)
        ]
        widths = self._widths[slots]
        for position in np.flatnonzero((found >= 0) & ((found - HEADER_WIDTH) % widths != 0)).tolist():
            found[position] = _record_after(
                buckets[slots[position]], keys[position].tobytes(), int(found[position]), int(widths[position])
            )
        return np.where(found >= 0, starts + found, -1)

    def entries_at(self, places: Positions, slots: Positions) -> Entries:
        """The entry of each record that ``find`` found; absent where it found none."""
        entries = np.full(len(places), ABSENT, dtype=np.uint64)
        there = np.flatnonzero(places >= 0)
        numbers, layouts = places[there] + self._key_width, self._layouts[slots[there]]
        for layout in layouts_among(layouts):
            alike = np.flatnonzero(layouts == layout)
            item = numbers_type(layout)
            # A view of what would be there if records began at every byte; only some of its items are looked at.
            every = np.ndarray(len(self._joined) - item.itemsize + 1, item, self._joined, strides=(1,))
            entries[there[alike]] = entries_of(every[numbers[alike]], layout)
        return entries

    def changed(
        self, keys: NDArray[np.void], entries: Entries, slots: Positions, places: Positions, step: int
    ) -> NextVersion:
        """The next version of each bucket that is to have these records, new ones or in the place of old ones.

        Args:
            keys: distinct within a bucket, shape (n,).
            entries: what they are to have.
            slots: the bucket of each.
            places: where they are, as ``find`` told.
            step: by how much the stamps grow, at least 1.
        """
        wide = self._widened_for(entries, slots)
        if wide is not self:
            return wide.changed(keys, entries, slots, wide.find(keys, slots), step)
        joined = self._joined.copy()
        touched = np.flatnonzero(np.bincount(slots, minlength=len(self._buckets)))
        of_stamps = self._bounds[touched][:, np.newaxis] + np.arange(STAMP_WIDTH)
        old_stamps = joined[of_stamps].view(">u4")[:, 0]
        joined[of_stamps] = (old_stamps.astype(np.uint32) + np.uint32(step)).astype(">u4").view(np.uint8).reshape(-1, 4)
        appended: dict[int, bytes] = {}
        layouts = self._layouts[slots]
        for layout in layouts_among(layouts):
            alike = layouts == layout
            old = np.flatnonzero(alike & (places >= 0))
            rows = rows_of(keys[old], entries[old], layout)
            width = rows.dtype.itemsize
            joined[places[old][:, np.newaxis] + np.arange(width)] = rows.view(np.uint8).reshape(len(old), width)
            new = np.flatnonzero(alike & (places < 0))
            if len(new):
                appended |= _by_slot(rows_of(keys[new], entries[new], layout), slots[new])
        content = joined.tobytes()
        bounds = zip(touched.tolist(), self._bounds[touched].tolist(), self._bounds[touched + 1].tolist(), strict=True)
        buckets = [content[start:end] + appended.get(slot, b"") for slot, start, end in bounds]
        return NextVersion(touched, old_stamps, buckets)

    def without(self, slots: Positions, places: Positions, step: int) -> NextVersion:
        """The next version of each bucket that is to lack these records.

        Args:
            slots: the bucket of each record, shape (n,).
            places: where they are, as ``find`` told.
            step: by how much the stamps grow, at least 1.
        """
        touched = np.flatnonzero(np.bincount(slots, minlength=len(self._buckets)))
        old = [self._buckets[slot] for slot in touched.tolist()]
        records = decode(old, self._key_width)
        starts = np.cumsum(records.counts) - records.counts
        within = (places - self._bounds[slots] - HEADER_WIDTH) // self._widths[slots]
        stays = np.ones(len(records.keys), dtype=bool)
        stays[starts[np.searchsorted(touched, slots)] + within] = False
        kept = Records.sorted_into(records.buckets[stays], len(touched), records.keys[stays], records.entries[stays])
        stamps = [stamp_of(bucket) for bucket in old]
        buckets = encode(kept, [stamp + step for stamp in stamps], self._layouts[touched])
        return NextVersion(touched, np.array(stamps, dtype=">u4"), buckets)

    def _widened_for(self, entries: Entries, slots: Positions) -> PackedBuckets:
        """The same buckets, able to take these entries."""
        needed = widened(self._layouts, entries, slots)
        narrow = np.flatnonzero(needed != self._layouts)
        if not len(narrow):
            return self
        buckets = list(self._buckets)
        old = [buckets[slot] for slot in narrow.tolist()]
        wide = encode(decode(old, self._key_width), [stamp_of(bucket) for bucket in old], needed[narrow])
        for slot, bucket in zip(narrow.tolist(), wide, strict=True):
            buckets[slot] = bucket
        return PackedBuckets(buckets, self._key_width)


def _record_after(bucket: bytes, key: bytes, place: int, width: int) -> int:
    """The first record with this key after a place where its bytes stand by chance, -1 where there is none."""
    while place >= 0 and (place - HEADER_WIDTH) % width:
        place = bucket.find(key, place + 1)
    return place


def _by_slot(rows: NDArray[np.void], slots: Positions) -> dict[int, bytes]:
    """The bytes of the rows of each slot."""
    own, counts = np.unique(slots, return_counts=True)
    content = rows[np.argsort(slots, kind="stable")].tobytes()
    ends = np.cumsum(counts) * rows.dtype.itemsize
    starts = ends - counts * rows.dtype.itemsize
    bounds = zip(own.tolist(), starts.tolist(), ends.tolist(), strict=True)
    return {slot: content[start:end] for slot, start, end in bounds}
