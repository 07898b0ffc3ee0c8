"""The state of the record index in the metadata table: it is the state of the table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from rli.index.metadata_record.changes import LocatedChanges
from rli.index.metadata_record.locator import MetadataLocator
from rli.index.metadata_record.opening import opened_reader
from rli.index.table_files.unlogged_index import StateOfTable
from rli.model import Scope
from rli.view.diff import diff
from rli.view.snapshot import Snapshot


@dataclass(frozen=True)
class MetadataIndexState(StateOfTable):
    """A state of the table. Each commit brings its entries with it, so the index is never behind.

    Attributes:
        snapshot: the table.
        scope: where a key is unique.
    """

    snapshot: Snapshot
    scope: Scope

    def locator(self) -> MetadataLocator:
        """Raises as ``opened_reader``."""
        return self._locator

    @cached_property
    def _locator(self) -> MetadataLocator:
        return MetadataLocator(self.snapshot, self.scope, opened_reader(self.snapshot, self.scope))

    def changes_since(self, before: MetadataIndexState) -> LocatedChanges | None:
        found = diff(before.snapshot, self.snapshot)
        if found is None:
            return None
        groups = frozenset(change.group for change in found.groups if change.after is not None)
        return LocatedChanges(before.locator(), self.locator(), groups, self.snapshot.table.storage, found.instants)
