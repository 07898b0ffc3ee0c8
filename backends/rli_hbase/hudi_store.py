"""The store in the table of Apache Hudi's own HBase index, which Hudi's writers use at the same time.

Entries are rows as Hudi writes them. All else, the control records, is in a table of ours beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from rli import KeyMode, Scope
from rli.errors import SettingsError
from rli.store import ABSENT, EncodedKeys, Entries, Finding, IndexSettings, StoreStats
from rli_hbase.client import Client
from rli_hbase.controlled_store import ControlledStore
from rli_hbase.hudi_entries import HudiEntries
from rli_hbase.hudi_log import HudiLog
from rli_hbase.hudi_rows import FAMILY
from rli_hbase.hudi_table import find_or_make_table, hudi_table_health, require_hudi_table
from rli_hbase.keyspace import VERSION_BESIDE_HUDI
from rli_hbase.lifecycle import find_generation, find_or_make_generation, time_of_generation
from rli_hbase.rows import Rows
from rli_hbase.table import IndexTable
from rli_hbase.table_making import require_lasting
from rli_hbase.url import HbaseSettings


class HudiStore(ControlledStore):
    """A store in Hudi's schema.

    Some promises of the contract are not this schema's. It takes only entries whose numbers the commit log gave out.
    A deleted key reads as absent, and its tombstone is kept only until HBase's next major compaction. And ``drop``
    removes the control records, but leaves the rows to Hudi's writers; another index passes them over.
    """

    preferred_shards: ClassVar[int] = 1

    def __init__(self, url: str, settings: HbaseSettings, generation: bytes, made_at: int) -> None:
        super().__init__(url, IndexTable(Client(settings.of_control_table), generation))
        self._made_at = made_at
        self._client = Client(settings)
        log = HudiLog(self, self._control.times, made_at)
        self._entries = HudiEntries(Rows(self._client, self._table.ceiling), log, settings.batch)

    def require_suitable(self, settings: IndexSettings) -> None:
        # An index of some partitions has that scope, too.
        if settings.scope is not Scope.GLOBAL:
            raise SettingsError(
                f"Hudi's HBase index is global: url={self._url} scope={settings.scope}",
                remedy="leave scope or schema out",
            )
        if settings.ttl is not None:
            raise SettingsError(
                f"keys of Hudi's HBase index do not expire: url={self._url} ttl={settings.ttl}",
                remedy="leave ttl or schema out",
            )
        if settings.key_mode is KeyMode.DIGEST or settings.shard_count != 1:
            raise SettingsError(
                f"Hudi's schema uses whole record keys as rows, without shards: url={self._url} "
                f"key_mode={settings.key_mode} shards={settings.shard_count}",
                remedy="use key_mode=exact and one shard",
            )

    def get(self, keys: EncodedKeys) -> Entries:
        entries = self._entries.get(keys) if len(keys) else np.full(0, ABSENT, dtype=np.uint64)
        self._table.require_present()
        return entries

    def put(self, keys: EncodedKeys, entries: Entries) -> None:
        if len(keys):
            self._entries.put(keys, entries)
        self._table.require_present()

    def scan(self, shard: int, batch_size: int) -> Iterator[tuple[EncodedKeys, Entries]]:
        if shard == 0:
            yield from self._entries.scan(batch_size)
        self._table.require_present()

    def stats(self) -> StoreStats:
        """Count what is stored by reading all of it; HBase does not tell its size through Thrift."""
        live = sum(len(keys) for keys, _ in self._entries.scan(self._client.settings.batch))
        self._table.require_present()
        return StoreStats(live_entries=live, tombstones=0, stored_bytes=None)

    def health(self) -> list[Finding]:
        return hudi_table_health(self._client)

    def close(self) -> None:
        super().close()
        self._client.close()

    def __reduce__(self) -> tuple[object, ...]:
        return _copy, (self._url, self._table.generation, self._made_at)


def open_hudi_store(url: str, settings: HbaseSettings, *, create: bool) -> HudiStore:
    """Open the store in the table that the settings name and in the one beside it.

    Raises:
        SettingsError: the table is one of something else, its cells expire, or it keeps too few versions of them.
        IndexNotFoundError: there is no index and ``create`` is false.
        IndexMismatchError: the table beside it is that of another index.
        StoreUnavailableError: no Thrift server answers, or HBase refuses to make a table.
    """
    data, control = Client(settings), Client(settings.of_control_table)
    try:
        if create:
            find_or_make_table(data)
            generation = find_or_make_generation(control, [VERSION_BESIDE_HUDI])
        else:
            generation = find_generation(control, [VERSION_BESIDE_HUDI])
            require_hudi_table(data)
        data.call(lambda thrift: require_lasting(data, [FAMILY], thrift))
        made_at = time_of_generation(control)
    finally:
        data.close()
        control.close()
    return HudiStore(url, settings, generation, made_at)


def _copy(url: str, generation: bytes, made_at: int) -> HudiStore:
    return HudiStore(url, HbaseSettings.from_url(url), generation, made_at)
