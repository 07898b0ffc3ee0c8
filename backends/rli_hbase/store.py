"""The store in a table of HBase, reached through Thrift servers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from rli.store import ABSENT, EncodedKeys, Entries, Finding, StoreStats, is_live
from rli_hbase.client import Client
from rli_hbase.controlled_store import ControlledStore
from rli_hbase.entries import EntryRows, from_cells, to_batches
from rli_hbase.health import table_health
from rli_hbase.hudi_store import HudiStore, open_hudi_store
from rli_hbase.keyspace import MAX_SHORT_WIDTH, end_of_shard, prefix_width_of, shard_row
from rli_hbase.lifecycle import find_generation, find_or_make_generation
from rli_hbase.long_rows import LongRows
from rli_hbase.prefix_rows import PrefixRows
from rli_hbase.short_rows import ShortRows
from rli_hbase.table import IndexTable
from rli_hbase.url import HbaseSettings


class HbaseStore(ControlledStore):
    """A store in one table of HBase; its format is in ``rli_hbase.keyspace``.

    Any number of processes and machines read and write at the same time.
    """

    preferred_shards: ClassVar[int] = 64

    finds_in_order: ClassVar[bool] = True

    def __init__(self, url: str, client: Client, generation: bytes) -> None:
        super().__init__(url, IndexTable(client, generation))
        self._client = client
        width = prefix_width_of(generation)
        self._kinds: tuple[EntryRows, ...] = (
            (PrefixRows(self._table, width),) if width else (ShortRows(self._table), LongRows(self._table))
        )

    def get(self, keys: EncodedKeys) -> Entries:
        entries = self._rows(keys).get(keys) if len(keys) else np.full(0, ABSENT, dtype=np.uint64)
        # Asked behind the look-up: an answer counts if the index was there after it. Asked before, it would prove
        # nothing.
        self._table.require_present()
        return entries

    def put(self, keys: EncodedKeys, entries: Entries) -> None:
        if len(keys):
            self._rows(keys).put(keys, entries)
        # A write into a dropped index does no harm: its column has the stamp of the old generation, and nobody reads
        # it. But its caller must not take it for written.
        self._table.require_present()

    def scan(self, shard: int, batch_size: int) -> Iterator[tuple[EncodedKeys, Entries]]:
        for rows in self._kinds:
            for found in rows.scan(shard_row(shard), end_of_shard(shard), batch_size):
                yield from to_batches(found)
        self._table.require_present()

    def find(self, prefixes: EncodedKeys, applied: int = 0) -> Iterator[tuple[EncodedKeys, Entries]]:  # noqa: ARG002
        for rows in self._kinds:
            for found in rows.find(prefixes):
                yield from to_batches(found)

    def stats(self) -> StoreStats:
        """Count what is stored by reading all of it; HBase does not tell its size through Thrift."""
        kept = live = 0
        for rows in self._kinds:
            for found in rows.scan(b"", None, self._client.settings.batch):
                entries = from_cells(cell for _, _, cell in found)
                kept += len(entries)
                live += int(np.count_nonzero(is_live(entries)))
        self._table.require_present()
        return StoreStats(live_entries=live, tombstones=kept - live, stored_bytes=None)

    def health(self) -> list[Finding]:
        return table_health(self._client, self.preferred_shards)

    def _rows(self, keys: EncodedKeys) -> EntryRows:
        return self._kinds[0 if keys.width <= MAX_SHORT_WIDTH else -1]

    def __reduce__(self) -> tuple[object, ...]:
        return _copy, (self._url, self._table.generation)


def open_hbase_store(url: str, *, create: bool) -> HbaseStore | HudiStore:
    """Open the store in the table that ``hbase://host:port/?table=…`` names.

    Raises:
        SettingsError: the URL has a wrong or unknown option, the table is one of something else, or its cells expire.
        IndexNotFoundError: there is no index and ``create`` is false.
        IndexMismatchError: the index has a format that this version does not know.
        StoreUnavailableError: no Thrift server answers, or HBase refuses to make the table.
    """
    settings = HbaseSettings.from_url(url)
    if settings.schema_ == "hudi":
        return open_hudi_store(url, settings, create=create)
    client = Client(settings)
    try:
        generation = (
            find_or_make_generation(client, prefix_width=settings.prefix) if create else find_generation(client)
        )
    except BaseException:
        client.close()
        raise
    return HbaseStore(url, client, generation)


def _copy(url: str, generation: bytes) -> HbaseStore:
    return HbaseStore(url, Client(HbaseSettings.from_url(url)), generation)
