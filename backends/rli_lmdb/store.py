"""The embedded store: an index in an LMDB environment, for many processes of one machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from typing import ClassVar, Final

import numpy as np

from rli.errors import StoreUnavailableError
from rli.store import (
    ABSENT,
    TOMBSTONE,
    EncodedKeys,
    Entries,
    Finding,
    Store,
    StoredUrl,
    StoreStats,
    file_groups,
    is_old_tombstone,
    sequences,
    supersedes,
)
from rli_lmdb.access import DATA_FILE, LOCK_FILE
from rli_lmdb.control import compare_and_set, read_record, scan_records
from rli_lmdb.entries import EntryTable, Transaction
from rli_lmdb.errors import translated_errors
from rli_lmdb.fixed_table import FixedTable
from rli_lmdb.health import folder_health
from rli_lmdb.keyspace import COUNT_WIDTH, FLOOR, LONG, MAX_FIXED_WIDTH, TOMBSTONES, fixed_name, width_of
from rli_lmdb.lifecycle import OpenIndex, open_index
from rli_lmdb.long_table import LongTable
from rli_lmdb.sorted_parts import sorted_parts
from rli_lmdb.transactions import MAX_KEYS_PER_TRANSACTION, keys_per_transaction
from rli_lmdb.url import folder_of

_FOUND_AT_ONCE: Final = 1 << 14
"""Entries that one transaction finds by prefixes."""


class LmdbStore(Store):
    """A store in the LMDB environment of one folder.

    Any number of processes read while one at a time writes. What a call has written survives the death of the
    process and of the machine. A process that was forked while its parent had the index open cannot use it: the
    store is closed before the fork, or processes are started with spawn.
    """

    preferred_shards: ClassVar[int] = 64

    finds_in_order: ClassVar[bool] = True

    # A batch of random keys changes nearly every page of the tree, unless the tree has many more pages than the batch has keys.
    build_batch: ClassVar[int] = 1 << 25

    def __init__(self, url: str, index: OpenIndex) -> None:
        self._url = url
        self._index: OpenIndex | None = index
        self._process = os.getpid()

    @property
    def url(self) -> str:
        return self._url

    @property
    def home(self) -> str:
        return self._opened().home

    @property
    def is_read_only(self) -> bool:
        return self._opened().environment.is_read_only

    def url_beside(self, name: str) -> str:
        url = f"{self._url}.{name}"
        return StoredUrl(url) if isinstance(self._url, StoredUrl) else url

    def get(self, keys: EncodedKeys) -> Entries:
        index = self._opened()
        table = _table(index, keys.width, create=False)
        if table is None or not len(keys):
            return index.read(lambda _: np.full(len(keys), ABSENT, dtype=np.uint64))
        order = keys.sort_order()
        entries = np.empty(len(keys), dtype=np.uint64)
        entries[order] = index.read(partial(table.look_up, keys=keys.take(order)))
        return entries

    def put(self, keys: EncodedKeys, entries: Entries) -> None:
        index = self._opened()
        table = _table(index, keys.width, create=True)
        if table is None or not len(keys):
            return
        near = index.read(partial(table.count_in_shards, shards=np.unique(keys.shards)))
        step = keys_per_transaction(len(keys), keys.width, index.read(table.count), near)
        written = 0
        for some, newest in sorted_parts(keys, entries):
            for start in range(0, len(some), step):
                at_once = slice(start, start + step)
                written += index.write(partial(_put_newer, index, table, some.take(at_once), newest[at_once]))
        # Once for all transactions of the call, and before the caller raises the watermark that counts these entries.
        if written:
            index.environment.flush()

    def scan(self, shard: int, batch_size: int) -> Iterator[tuple[EncodedKeys, Entries]]:
        index = self._opened()
        for table in _tables(index):
            start: bytes | None = b""
            while start is not None:
                page = index.read(partial(table.read_page, shard=shard, start=start, limit=batch_size))
                yield from page.batches
                start = page.next_start

    def find(self, prefixes: EncodedKeys, applied: int = 0) -> Iterator[tuple[EncodedKeys, Entries]]:  # noqa: ARG002
        return self.find_in_parts(prefixes, _FOUND_AT_ONCE)

    def find_in_parts(self, prefixes: EncodedKeys, at_once: int) -> Iterator[tuple[EncodedKeys, Entries]]:
        """As ``find``; at most ``at_once`` entries are in memory at a time."""
        index = self._opened()
        wanted = prefixes.take(prefixes.sort_order())
        for table in _tables(index):
            rest, start = wanted, b""
            while len(rest):
                found = index.read(partial(table.find, prefixes=rest, start=start, limit=at_once))
                yield from found.batches
                rest, start = found.rest, found.start

    def floor(self) -> int:
        index = self._opened()
        return index.read(partial(_stored_number, index, FLOOR))

    def seen_floor(self) -> int:
        return self.floor()

    def raise_floor(self, sequence: int) -> None:
        index = self._opened()
        index.write(partial(_raise_floor, index, sequence))
        # On the disk before anything is removed: a power cut must not bring back a floor that is too low.
        index.environment.flush()

    def remove_tombstones(self, keys: EncodedKeys) -> int:
        index = self._opened()
        table = _table(index, keys.width, create=False)
        if table is None or not len(keys):
            return 0
        order = keys.sort_order()
        return sum(
            index.write(
                partial(_remove_tombstones, index, table, keys.take(order[start : start + MAX_KEYS_PER_TRANSACTION]))
            )
            for start in range(0, len(keys), MAX_KEYS_PER_TRANSACTION)
        )

    def read_control(self, name: str) -> bytes | None:
        return read_record(self._opened(), name)

    def scan_control(self, prefix: str, start: str = "") -> list[tuple[str, bytes]]:
        return scan_records(self._opened(), prefix, start)

    def compare_and_set(self, name: str, expected: bytes | None, value: bytes | None) -> bool:
        return compare_and_set(self._opened(), name, expected, value)

    def drop(self) -> None:
        self._opened().drop()

    def stats(self) -> StoreStats:
        index = self._opened()
        tables = _tables(index)
        entries, tombstones = index.read(
            lambda transaction: (
                sum(table.count(transaction) for table in tables),
                _stored_number(index, TOMBSTONES, transaction),
            )
        )
        with translated_errors(index.path):
            stored_bytes = sum(os.stat(os.path.join(index.path, name)).st_size for name in (DATA_FILE, LOCK_FILE))
        return StoreStats(live_entries=entries - tombstones, tombstones=tombstones, stored_bytes=stored_bytes)

    def health(self) -> list[Finding]:
        return folder_health(self._opened().path)

    def close(self) -> None:
        index, self._index = self._index, None
        if index is not None:
            index.close()

    def _opened(self) -> OpenIndex:
        index = self._index
        if index is None:
            raise StoreUnavailableError(f"the store was closed: url={self._url}", remedy="open it again")
        if self._process != os.getpid():
            raise StoreUnavailableError(
                f"the store was opened before a fork: url={self._url}",
                remedy="close it before the fork, or start processes with spawn",
            )
        return index

    def __reduce__(self) -> tuple[object, ...]:
        return _open_copy, (self._url,)


def open_lmdb_store(url: str, *, create: bool) -> LmdbStore:
    """Open the store in the folder that ``lmdb:///path`` names.

    Raises:
        SettingsError: the URL is not one of a local folder, or the folder holds something else.
        IndexNotFoundError: there is no index and ``create`` is false.
        IndexMismatchError: the index has a format that this version does not know.
        CorruptIndexError: the folder's data file is not one of LMDB.
        StoreUnavailableError: the folder cannot be read or written.
    """
    return LmdbStore(url, open_index(folder_of(url), create=create))


def _open_copy(url: str) -> LmdbStore:
    return open_lmdb_store(url, create=False)


def _table(index: OpenIndex, width: int, *, create: bool) -> EntryTable | None:
    if width > MAX_FIXED_WIDTH:
        database = index.environment.database(LONG, create=create)
        return None if database is None else LongTable(database)
    database = index.environment.database(fixed_name(width), create=create, duplicates=True)
    return None if database is None else FixedTable(database, width, index.environment.data_file)


def _tables(index: OpenIndex) -> list[EntryTable]:
    names = index.database_names()
    widths = [width for name in names if (width := width_of(name)) is not None]
    if LONG in names:
        widths.append(MAX_FIXED_WIDTH + 1)
    tables = [_table(index, width, create=False) for width in widths]
    return [table for table in tables if table is not None]


def _put_newer(
    index: OpenIndex, table: EntryTable, keys: EncodedKeys, entries: Entries, transaction: Transaction
) -> int:
    """Write the entries that supersede the stored ones; returns how many did."""
    stored = table.get(transaction, keys)
    # Read and compared within the write transaction. LMDB has one writer at a time, so nothing comes between the
    # comparison and the write, and an old commit that wakes up writes nothing (P8, P30).
    winning = supersedes(entries, stored) & (sequences(entries) > _stored_number(index, FLOOR, transaction))
    replaced, newer = stored[winning], entries[winning]
    table.write(transaction, keys.take(winning), replaced, newer)
    _add_to_tombstones(index, _count_tombstones(newer) - _count_tombstones(replaced), transaction)
    return len(newer)


def _remove_tombstones(index: OpenIndex, table: EntryTable, keys: EncodedKeys, transaction: Transaction) -> int:
    stored = table.get(transaction, keys)
    old = np.flatnonzero(is_old_tombstone(stored, _stored_number(index, FLOOR, transaction)))
    table.remove(transaction, keys.take(old), stored[old])
    _add_to_tombstones(index, -len(old), transaction)
    return len(old)


def _raise_floor(index: OpenIndex, sequence: int, transaction: Transaction) -> None:
    # Never lowered, whatever a slower process asks for.
    if sequence > _stored_number(index, FLOOR, transaction):
        transaction.put(FLOOR, sequence.to_bytes(COUNT_WIDTH, "big"), db=index.meta)


def _add_to_tombstones(index: OpenIndex, change: int, transaction: Transaction) -> None:
    if change:
        count = _stored_number(index, TOMBSTONES, transaction) + change
        transaction.put(TOMBSTONES, count.to_bytes(COUNT_WIDTH, "big"), db=index.meta)


def _count_tombstones(entries: Entries) -> int:
    return int(np.count_nonzero(file_groups(entries) == TOMBSTONE))


def _stored_number(index: OpenIndex, name: bytes, transaction: Transaction) -> int:
    return int.from_bytes(transaction.get(name, b"", db=index.meta), "big")
