"""The state of an index that keeps nothing of its own: the table's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from rli.hudi.timeline.timeline import Timeline
from rli.index.contract import ChangedKeys
from rli.index.locators import FileLocator
from rli.view.snapshot import Snapshot


class FindsInFiles(Protocol):
    """Finds the keys of any state of the table."""

    def locator_of(self, snapshot: Snapshot) -> FileLocator: ...

    def changes_between(self, before: Snapshot, now: Snapshot) -> ChangedKeys | None: ...


@dataclass(frozen=True, slots=True)
class TableState:
    """A state of the table: there is nothing else.

    Attributes:
        snapshot: the table.
        index: finds keys in it.
    """

    snapshot: Snapshot
    index: FindsInFiles

    @property
    def timeline(self) -> Timeline:
        return self.snapshot.timeline

    @property
    def sequence(self) -> int | None:
        return None

    @property
    def applied(self) -> tuple[str, ...]:
        return ()

    @property
    def withdrawn(self) -> tuple[str, ...]:
        return ()

    def locator(self) -> FileLocator:
        return self.index.locator_of(self.snapshot)

    def changes_since(self, before: TableState) -> ChangedKeys | None:
        return self.index.changes_between(before.snapshot, self.snapshot)
