"""The index of the kinds ``bloom:`` and ``global-bloom:``."""

from __future__ import annotations

from typing import Final

from rli.index.bloom.key_statistics import FooterStatistics, statistics_cache
from rli.index.bloom.locator import BloomLocator
from rli.index.bloom.metadata_statistics import MetadataStatistics, has_statistics
from rli.index.reports import Scope
from rli.index.table_files.table_index import TableFilesIndex
from rli.view.definition import TableDefinition
from rli.view.snapshot import Snapshot

_RANGES_BYTES: Final = 16 * 1024 * 1024
"""Of ranges that an index keeps: those of about 30,000 files."""

_REMOTELY: Final = 4
"""By so much fewer files on an object store, whose answers take longer than to read what they bring."""


class BloomIndex(TableFilesIndex):
    """Finds records in the files that may hold them, as the metadata table or their footers tell."""

    # Hudi's default. Foreign keys by the million are to open no file.
    bloom_filter_rate = 1e-9

    fewest_asked = 64
    """Files of which nothing is known yet, from which on the metadata table is asked: to open it takes as long as some footers."""

    def __init__(self, table: TableDefinition, scope: Scope) -> None:
        super().__init__(table, scope)
        self._footers = FooterStatistics(statistics_cache())
        self._ranges = statistics_cache(_RANGES_BYTES)

    def locator_of(self, snapshot: Snapshot) -> BloomLocator:
        if not has_statistics(snapshot.table.properties.metadata_partitions):
            return BloomLocator(snapshot, self.scope, self._footers)
        fewest = self.fewest_asked if snapshot.table.storage.is_local else self.fewest_asked // _REMOTELY
        statistics = MetadataStatistics(snapshot, self._footers, self._ranges, fewest)
        return BloomLocator(snapshot, self.scope, statistics)
