"""Keys of one width, as sorted duplicates of their shard."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import chain, islice, repeat
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from rli.store import ABSENT, EncodedKeys, Entries
from rli_lmdb.data_file import DataFile
from rli_lmdb.entries import Database, EntryTable, Found, Page, Transaction
from rli_lmdb.keyspace import (
    KEY_WORD,
    SHARD_WIDTH,
    fixed_name,
    pack_records,
    record_type,
    shard_bytes,
    shard_runs,
    successor,
)
from rli_lmdb.page_reads import read_from_pages, runs_for_pages

if TYPE_CHECKING:
    import lmdb

# Copying a shard out takes 0.015 µs an entry and searching the copy 0.18 µs a key; a seek takes 0.9 µs a key, and
# 1.4 where the index is too large for the processor's cache.
_READ_WHOLE_SHARD_BELOW: Final = 32
"""Stored entries for each wanted key up to which reading all of a shard beats seeking."""

_MIN_KEYS_FOR_WHOLE_SHARD: Final = 64
_MAX_ENTRIES_OF_WHOLE_SHARD: Final = 1 << 20

_KEYS_PER_JOIN: Final = 1 << 16
"""Keys whose records are held as Python objects at a time."""


class FixedTable(EntryTable):
    """Entries whose keys have ``width`` bytes, at most ``keyspace.MAX_FIXED_WIDTH``.

    Args:
        database: of these keys.
        width: of a key.
        data_file: gives the file with the pages that a read transaction sees; see ``Environment.data_file``.
    """

    def __init__(self, database: Database, width: int, data_file: Callable[[], DataFile | None]) -> None:
        super().__init__(database)
        self._width = width
        self._data_file = data_file
        self._record_type = record_type(width)
        self._shard_record_type = np.dtype([("shard", f"V{SHARD_WIDTH}"), *self._record_type.descr])

    def look_up(self, transaction: Transaction, keys: EncodedKeys) -> Entries:
        runs = runs_for_pages(keys)
        file = self._data_file() if runs else None
        database = None if file is None else transaction.get(fixed_name(self._width))
        if file is None or database is None:
            return self.get(transaction, keys)
        found, is_left = read_from_pages(file, database, keys, runs)
        left = np.flatnonzero(is_left)
        if len(left):
            found[left] = self.get(transaction, keys.take(left))
        return found

    def get(self, transaction: Transaction, keys: EncodedKeys) -> Entries:
        cursor = transaction.cursor(self._database)
        found = np.full(len(keys), ABSENT, dtype=np.uint64)
        sought = np.ones(len(keys), dtype=np.bool_)
        for start, stop in shard_runs(keys.shards):
            if stop - start < _MIN_KEYS_FOR_WHOLE_SHARD:
                continue
            shard = shard_bytes(keys.shards[start : start + 1])[0]
            count = cursor.count() if cursor.set_key(shard) else 0
            if count <= min((stop - start) * _READ_WHOLE_SHARD_BELOW, _MAX_ENTRIES_OF_WHOLE_SHARD):
                sought[start:stop] = False
                # Of a load, all keys lie behind those that are stored.
                if count and cursor.last_dup() and keys.keys[start].tobytes() <= cursor.value()[: self._width]:
                    found[start:stop] = self._get_from_whole_shard(cursor, shard, keys.keys[start:stop])
        positions = np.flatnonzero(sought)
        for first in range(0, len(positions), _KEYS_PER_JOIN):
            some = positions[first : first + _KEYS_PER_JOIN]
            found[some] = self._get_by_seeking(cursor, keys.take(some))
        return found

    def _get_by_seeking(self, cursor: lmdb.Cursor[bytes], keys: EncodedKeys) -> Entries:
        seek, value = cursor.set_range_dup, cursor.value
        nothing = bytes(self._record_type.itemsize)
        joined = b"".join(
            [
                value() if seek(shard, key) else nothing
                for shard, key in zip(shard_bytes(keys.shards), keys.to_bytes(), strict=True)
            ]
        )
        records = np.frombuffer(joined, dtype=self._record_type)
        return _entries_where_equal(records, keys.keys)

    def _get_from_whole_shard(self, cursor: lmdb.Cursor[bytes], shard: bytes, keys: NDArray[np.void]) -> Entries:
        copied = cursor.getmulti([shard], dupdata=True, dupfixed_bytes=self._record_type.itemsize, keyfixed=True)
        stored = np.frombuffer(copied, dtype=self._shard_record_type)
        positions = _positions_of(stored["key"], keys)
        return _entries_where_equal(stored[np.minimum(positions, len(stored) - 1)], keys)

    def write(self, transaction: Transaction, keys: EncodedKeys, stored: Entries, entries: Entries) -> None:
        cursor = transaction.cursor(self._database)
        is_known = stored != ABSENT
        self._replace(cursor, keys.take(is_known), stored[is_known], entries[is_known])
        self._insert(cursor, keys.take(~is_known), entries[~is_known])

    def remove(self, transaction: Transaction, keys: EncodedKeys, stored: Entries) -> None:
        cursor = transaction.cursor(self._database)
        for shard, record in zip(shard_bytes(keys.shards), pack_records(keys.keys, stored), strict=True):
            if cursor.set_key_dup(shard, record):
                cursor.delete()

    def _replace(self, cursor: lmdb.Cursor[bytes], keys: EncodedKeys, stored: Entries, entries: Entries) -> None:
        # One by one, so that a page that loses a record gains one at once and keeps its fill.
        for shard, stale, record in zip(
            shard_bytes(keys.shards), pack_records(keys.keys, stored), pack_records(keys.keys, entries), strict=True
        ):
            cursor.set_key_dup(shard, stale)
            cursor.delete()
            cursor.put(shard, record)

    def _insert(self, cursor: lmdb.Cursor[bytes], keys: EncodedKeys, entries: Entries) -> None:
        records = pack_records(keys.keys, entries)
        inside: list[Iterator[tuple[bytes, bytes]]] = []
        beyond: list[Iterator[tuple[bytes, bytes]]] = []
        for start, stop in shard_runs(keys.shards):
            shard = shard_bytes(keys.shards[start : start + 1])[0]
            last = cursor.value() if cursor.set_key(shard) and cursor.last_dup() else b""
            split = bisect_right(records, last, start, stop)
            inside.append(zip(repeat(shard), records[start:split]))
            beyond.append(zip(repeat(shard), records[split:stop]))
        cursor.putmulti(chain.from_iterable(inside))
        # Appending fills pages to the brim, where inserting splits them in halves.
        cursor.putmulti(chain.from_iterable(beyond), append=True)

    def count_in_shards(self, transaction: Transaction, shards: NDArray[np.uint16]) -> int:
        cursor = transaction.cursor(self._database)
        return sum(cursor.count() for shard in shard_bytes(shards) if cursor.set_key(shard))

    def find(self, transaction: Transaction, prefixes: EncodedKeys, start: bytes, limit: int) -> Found:
        cursor = transaction.cursor(self._database)
        seek, value, following = cursor.set_range_dup, cursor.value, cursor.next_dup
        found: list[bytes] = []
        shards: list[bytes] = []
        if prefixes.width > self._width:
            return Found([], prefixes.take(slice(0)))
        for position, (shard, prefix) in enumerate(zip(shard_bytes(prefixes.shards), prefixes.to_bytes(), strict=True)):
            is_there = seek(shard, start or prefix)
            start = b""
            while is_there and (record := value()).startswith(prefix):
                if len(found) == limit:
                    rest = prefixes.take(slice(position, None))
                    return Found(self._batches(found, shards), rest, record[: self._width])
                found.append(record)
                shards.append(shard)
                is_there = following()
        return Found(self._batches(found, shards), prefixes.take(slice(0)))

    def _batches(self, found: list[bytes], shards: list[bytes]) -> list[tuple[EncodedKeys, Entries]]:
        records = np.frombuffer(b"".join(found), dtype=self._record_type)
        of_records = np.frombuffer(b"".join(shards), dtype=f">u{SHARD_WIDTH}").astype(np.uint16)
        keys = EncodedKeys(np.ascontiguousarray(records["key"]), of_records)
        return [(keys, records["entry"].astype(np.uint64))] if found else []

    def read_page(self, transaction: Transaction, shard: int, start: bytes, limit: int) -> Page:
        cursor = transaction.cursor(self._database)
        first = start.ljust(self._width, b"\0")
        if not cursor.set_range_dup(shard.to_bytes(SHARD_WIDTH, "big"), first):
            return Page([], None)
        joined = b"".join(islice(cursor.iternext_dup(), limit))
        records = np.frombuffer(joined, dtype=self._record_type)
        keys = EncodedKeys(np.ascontiguousarray(records["key"]), np.full(len(records), shard, dtype=np.uint16))
        last = keys.keys[-1].tobytes()
        return Page([(keys, records["entry"].astype(np.uint64))], successor(last) if len(records) == limit else None)


def _positions_of(stored: NDArray[np.void], keys: NDArray[np.void]) -> NDArray[np.intp]:
    """Where each key has to be among sorted ones, if it is there."""
    if keys.dtype.itemsize < KEY_WORD.itemsize:
        return np.searchsorted(np.ascontiguousarray(stored), keys)
    # Numbers are compared several times as fast as bytes, and few UUIDs share their first bytes.
    leading, wanted = (some.getfield(KEY_WORD).astype(np.uint64) for some in (stored, keys))
    positions = np.searchsorted(leading, wanted)
    shared = np.flatnonzero(leading[np.minimum(positions + 1, len(leading) - 1)] == wanted)
    if len(shared):
        positions[shared] = np.searchsorted(np.ascontiguousarray(stored), keys[shared])
    return positions


def _entries_where_equal(records: NDArray[np.void], keys: NDArray[np.void]) -> Entries:
    entries: Entries = np.where(records["key"] == keys, records["entry"].astype(np.uint64), ABSENT)
    return entries
