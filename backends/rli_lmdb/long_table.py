"""Keys that are too wide for a duplicate, found by their digest and verified as a whole."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from rli.errors import CorruptIndexError
from rli.store import ABSENT, ENTRY_WIDTH, EncodedKeys, Entries, keys_that_begin
from rli_lmdb.entries import EntryTable, Found, Page, Transaction
from rli_lmdb.keyspace import SHARD_WIDTH, long_key, shard_bytes

_PAGE_BYTES = 8 << 20
"""A page ends after so many bytes, as keys may be of many kilobytes each."""


class LongTable(EntryTable):
    """Entries whose keys have more than ``keyspace.MAX_FIXED_WIDTH`` bytes."""

    def get(self, transaction: Transaction, keys: EncodedKeys) -> Entries:
        found = np.full(len(keys), ABSENT, dtype=np.uint64)
        for position, (shard, key) in enumerate(zip(shard_bytes(keys.shards), keys.to_bytes(), strict=True)):
            value = transaction.get(long_key(shard, key), db=self._database)
            if value is None:
                continue
            if value[ENTRY_WIDTH:] != key:
                raise CorruptIndexError(
                    f"two keys share a digest, or an entry is damaged: key={key[:80]!r} bytes={len(key)}",
                    remedy="bootstrap the index from its table",
                )
            found[position] = int.from_bytes(value[:ENTRY_WIDTH], "big")
        return found

    def write(self, transaction: Transaction, keys: EncodedKeys, stored: Entries, entries: Entries) -> None:
        del stored  # an entry takes the place of the stored one, whatever that was
        for shard, key, entry in zip(shard_bytes(keys.shards), keys.to_bytes(), entries.tolist(), strict=True):
            value = entry.to_bytes(ENTRY_WIDTH, "big") + key
            transaction.put(long_key(shard, key), value, db=self._database)

    def remove(self, transaction: Transaction, keys: EncodedKeys, stored: Entries) -> None:
        del stored
        for shard, key in zip(shard_bytes(keys.shards), keys.to_bytes(), strict=True):
            transaction.delete(long_key(shard, key), db=self._database)

    def count_in_shards(self, transaction: Transaction, shards: NDArray[np.uint16]) -> int:  # noqa: ARG002
        """All entries: LMDB does not count those between two keys."""
        return self.count(transaction)

    def find(self, transaction: Transaction, prefixes: EncodedKeys, start: bytes, limit: int) -> Found:
        is_first = prefixes.shards == prefixes.shards[0]
        page = self.read_page(transaction, int(prefixes.shards[0]), start, limit)
        chosen = [keys_that_begin(keys, prefixes.keys[is_first]) for keys, _ in page.batches]
        batches = [
            (keys.take(some), entries[some])
            for (keys, entries), some in zip(page.batches, chosen, strict=True)
            if some.any()
        ]
        if page.next_start is None:
            return Found(batches, prefixes.take(~is_first))
        return Found(batches, prefixes, page.next_start)

    def read_page(self, transaction: Transaction, shard: int, start: bytes, limit: int) -> Page:
        prefix = shard.to_bytes(SHARD_WIDTH, "big")
        cursor = transaction.cursor(self._database)
        values: list[bytes] = []
        size = 0
        is_there = cursor.set_range(start or prefix)
        while is_there and cursor.key().startswith(prefix):
            if len(values) == limit or size >= _PAGE_BYTES:
                return Page(_batches(shard, values), cursor.key())
            values.append(cursor.value())
            size += len(values[-1])
            is_there = cursor.next()
        return Page(_batches(shard, values), None)


def _batches(shard: int, values: list[bytes]) -> list[tuple[EncodedKeys, Entries]]:
    by_width: defaultdict[int, list[bytes]] = defaultdict(list)
    for value in values:
        by_width[len(value) - ENTRY_WIDTH].append(value)
    batches = []
    for width, some in by_width.items():
        keys = np.frombuffer(b"".join(value[ENTRY_WIDTH:] for value in some), dtype=f"V{width}")
        entries = np.frombuffer(b"".join(value[:ENTRY_WIDTH] for value in some), dtype=">u8").astype(np.uint64)
        batches.append((EncodedKeys(keys, np.full(len(some), shard, dtype=np.uint16)), entries))
    return batches
