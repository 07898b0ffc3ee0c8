"""The state of an index that keeps nothing of its own: the table's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from rli.index.contract import ChangedKeys
from rli.index.locators import FileLocator
from rli.index.table_files.unlogged_index import StateOfTable
from rli.view.snapshot import Snapshot


class FindsInFiles(Protocol):
    """Finds the keys of any state of the table."""

    def locator_of(self, snapshot: Snapshot) -> FileLocator: ...

    def changes_between(self, before: Snapshot, now: Snapshot) -> ChangedKeys | None: ...


@dataclass(frozen=True, slots=True)
class TableState(StateOfTable):
    """A state of the table: there is nothing else.

    Attributes:
        snapshot: the table.
        index: finds keys in it.
    """

    snapshot: Snapshot
    index: FindsInFiles

    def locator(self) -> FileLocator:
        return self.index.locator_of(self.snapshot)

    def changes_since(self, before: TableState) -> ChangedKeys | None:
        return self.index.changes_between(before.snapshot, self.snapshot)
