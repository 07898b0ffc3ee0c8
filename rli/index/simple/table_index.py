"""The index of the kinds ``simple:`` and ``global-simple:``."""

from __future__ import annotations

from rli.index.table_files.locator import KeyColumnLocator
from rli.index.table_files.table_index import TableFilesIndex
from rli.view.snapshot import Snapshot


class SimpleIndex(TableFilesIndex):
    """Finds records by a join with all the keys that the table's files hold."""

    def locator_of(self, snapshot: Snapshot) -> KeyColumnLocator:
        return KeyColumnLocator(snapshot, self.scope)
