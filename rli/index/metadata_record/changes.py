"""Which keys others changed since a state, as the record index of the metadata table tells (docs/protocol.md, P36)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from rli.file_group.batches import coalesce_tables
from rli.file_group.journal import Journal
from rli.index.contract import ChangedKeys
from rli.index.locators import Locator
from rli.index.reports import SomeKeys
from rli.locations import BATCH_KEYS, named_groups
from rli.model import FileGroupId
from rli.storage import Storage
from rli.tasks import TaskRunner

_BYTES_AT_ONCE: Final = 64 * 1024 * 1024


class LocatedChanges(ChangedKeys):
    """Looks keys up in two states.

    A key that the earlier state did not hold, and that is there now, is in a file group that changed.

    Args:
        before: locates keys in the earlier state.
        now: locates keys in the later state.
        groups: the file groups of the later state that changed.
        storage: the table.
        instants: that were committed or undone in between.
    """

    def __init__(
        self,
        before: Locator,
        now: Locator,
        groups: Collection[FileGroupId],
        storage: Storage,
        instants: tuple[str, ...],
    ) -> None:
        self._before = before
        self._now = now
        self._groups = groups
        self._storage = storage
        self.instants = instants

    def placed_by(self, journals: Sequence[Journal], tasks: TaskRunner) -> SomeKeys:  # noqa: ARG002  (see below)
        placed = (
            pa.table([keys, pa.repeat(pa.scalar(journal.group.partition_path), len(keys))], names=["key", "path"])
            for journal in journals
            for keys in journal.placed_keys(self._storage)
        )
        # A look-up may read every file of the index, so many journals share one.
        return SomeKeys.of(self._changed(batch) for batch in coalesce_tables(placed, BATCH_KEYS, _BYTES_AT_ONCE))

    def among(self, record_keys: pa.Array) -> SomeKeys:
        then, since = (_places(locator, record_keys) for locator in (self._before, self._now))
        return SomeKeys.of([pa.array(sorted({key for key, _ in then ^ since}), pa.string())])

    def _changed(self, placed: pa.Table) -> pa.Array:
        """The keys that are in changed file groups now.

        Args:
            placed: keys, distinct in their scope, and their partition paths.
        """
        keys, paths = (column.combine_chunks() for column in placed.columns)
        found = self._now.locate(keys, paths)
        named = named_groups(*(found.column(name).combine_chunks() for name in ("partition_path", "file_id")))
        is_changed = np.array([group in self._groups for group in named.groups], bool)[named.codes]
        return keys.filter(pa.array(is_changed))


def _places(locator: Locator, record_keys: pa.Array) -> set[tuple[str, str]]:
    """The keys that a state holds, each with its partition path: a clustering changes neither."""
    found = locator.locate_all(record_keys)
    return set(zip(*(found.column(name).to_pylist() for name in ("record_key", "partition_path")), strict=True))
