"""Which records may pass a filter, told by the indexes of columns that a table has in the store of its index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from rli.column_index.secondary import sought_values
from rli.errors import RliError
from rli.filters.filter import Filter
from rli.filters.named_values import named_values
from rli.filters.predicates import Predicate
from rli.index.contract import PointIndex, TableIndex
from rli.index.roles import IndexesColumns
from rli.locations import KeysByGroup, keys_by_group
from rli.telemetry import events
from rli.telemetry.index_uses import count_use
from rli.view.column_indexes import NamedIndexes, place_in_store
from rli.view.file_slices import FileSlice
from rli.view.snapshot import Snapshot

_MOST_RECORDS: Final = 100_000
"""With more of them, statistics and footers tell as much in less time."""


@dataclass(frozen=True, slots=True)
class _Found:
    """Record keys that an index of a column has found.

    Attributes:
        index: of the table.
        place: of the index of the column; see ``ColumnIndex.places``.
        keys: string array, shape (n,).
    """

    index: PointIndex
    place: str
    keys: pa.Array


class ValuesInStores:
    """Finds records by the values of columns that have an index in a store. A copy in another process knows nothing.

    Args:
        open_index: gives the index of the table, which is not opened unless a column has an index in its store.
    """

    def __init__(self, open_index: Callable[[], TableIndex] | None = None) -> None:
        self._open_index = open_index

    def __reduce__(self) -> tuple[type[ValuesInStores], tuple[()]]:
        return ValuesInStores, ()

    def keys_with(self, snapshot: Snapshot, passes: Filter, schema: pa.Schema) -> pa.Array | None:
        """The keys of all records of a state that a filter may pass, and perhaps of others; None if no index can tell.

        Args:
            snapshot: the state.
            passes: the filter.
            schema: of the records, with meta columns.
        """
        found = self._keys_with(snapshot, passes.predicate, schema)
        if found is None:
            return None
        count_use(snapshot.table.location, found.place, 0)
        return found.keys

    def keys_in(
        self, snapshot: Snapshot, predicate: Predicate, schema: pa.Schema, slices: Sequence[FileSlice]
    ) -> KeysByGroup | None:
        """The keys of all such records in some live slices, and perhaps of others; None if no index can tell; see ``FindsValues``."""
        found = self._keys_with(snapshot, predicate, schema)
        by_group = None if found is None else _by_group(found.index, snapshot, found.keys)
        if found is None or by_group is None:
            return None
        count_use(snapshot.table.location, found.place, sum(one.group not in by_group for one in slices))
        return by_group

    def _keys_with(self, snapshot: Snapshot, predicate: Predicate, schema: pa.Schema) -> _Found | None:
        table = snapshot.table
        if self._open_index is None or not table.has_unique_keys:
            return None
        for name, named in NamedIndexes.load(table.storage).kept_in_stores.items():
            sought = named_values(predicate, named.column) if named.column in schema.names else None
            values = None if sought is None else sought_values(sought, schema.field(named.column).type)
            if values is None:
                continue
            try:
                index = self._open_index()
                if isinstance(index, PointIndex) and isinstance(index, IndexesColumns):
                    keys = index.keys_with(name, named.column, snapshot, values, _MOST_RECORDS)
                    if keys is not None:
                        return _Found(index, place_in_store(name), keys)
            except RliError as error:
                events.COLUMN_INDEX_UNUSED.log(table=table.location, index=name, cause=error)
        return None


def _by_group(index: PointIndex, snapshot: Snapshot, keys: pa.Array) -> KeysByGroup | None:
    """Where record keys are; None if the index of the table has not seen this very state."""
    try:
        state, unseen = index.unseen(snapshot.table)
        if unseen.unapplied or state.timeline.write_times != snapshot.timeline.write_times:
            return None
        return keys_by_group(state.locator().locate_all(keys))
    except RliError as error:
        events.COLUMN_INDEX_UNUSED.log(table=snapshot.table.location, index=index.url, cause=error)
        return None
