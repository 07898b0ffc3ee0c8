"""The index of the kinds ``bloom:`` and ``global-bloom:``."""

from __future__ import annotations

from rli.index.bloom.key_statistics import FooterStatistics
from rli.index.bloom.locator import BloomLocator
from rli.index.reports import Scope
from rli.index.table_files.table_index import TableFilesIndex
from rli.view.definition import TableDefinition
from rli.view.snapshot import Snapshot


class BloomIndex(TableFilesIndex):
    """Finds records in the files that may hold them, as their footers tell."""

    # Hudi's default. Foreign keys by the million are to open no file.
    bloom_filter_rate = 1e-9

    def __init__(self, table: TableDefinition, scope: Scope) -> None:
        super().__init__(table, scope)
        self._statistics = FooterStatistics()

    def locator_of(self, snapshot: Snapshot) -> BloomLocator:
        return BloomLocator(snapshot, self.scope, self._statistics)
