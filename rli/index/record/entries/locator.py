"""Look-ups of a writer: where keys are as of a commit sequence, and which of them others changed since then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rli.codec import entries as codec
from rli.codec.entries import Entries
from rli.errors import ConflictError
from rli.file_group.journal import Journal
from rli.index.contract import ChangedKeys
from rli.index.locators import Locator
from rli.index.record.entries.identity import require_applied
from rli.index.record.entries.purging import floor_of_look_ups
from rli.index.record.entries.stored_entries import StoredEntries
from rli.index.reports import SomeKeys, sum_of
from rli.storage import Storage
from rli.tasks import TaskRunner

_SAMPLE: Final = 5


class RecordLocator(Locator):
    """Looks keys up as of a commit sequence.

    Args:
        index: has applied it.
        sequence: of the state.
        cutoff: records that were written last before it have expired; None where keys do not expire.
    """

    def __init__(self, index: StoredEntries, sequence: int, cutoff: str | None = None) -> None:
        self._index = index
        self._sequence = sequence
        self._cutoff = cutoff

    def locate(self, record_keys: pa.Array, partition_paths: pa.Array) -> pa.Table:
        index = self._index
        self.require_known(partition_paths)
        stored = index.codec.stored_keys(record_keys, partition_paths)
        entries = index.get(stored, require_applied(index.store, self._sequence))
        return self._unless_changed(record_keys, entries)

    def locate_all(self, record_keys: pa.Array) -> pa.Table:
        self._index.require_all_known("look keys up in every partition")
        applied = require_applied(self._index.store, self._sequence)
        found = self._unless_changed(*self._index.get_everywhere(record_keys, applied))
        return found.filter(found.column("file_id").is_valid())

    def require_known(self, partition_paths: pa.Array) -> None:
        known = self._index.partitions
        if not known.are_all:
            known.require(pc.unique(partition_paths).to_pylist(), self._index.url, "locate records of another one")

    def trace(self, stored: pa.Table) -> pa.Table:
        keys, paths = (stored.column(name).combine_chunks() for name in ("record_key", "partition_path"))
        known = self._index.partitions.rows_in(paths)
        # The records of a clustering are of one partition.
        if known is not None and not pc.all(known).as_py():
            return stored
        return RecordLocator(self._index, self._sequence).locate(keys, paths)

    def _unless_changed(self, record_keys: pa.Array, entries: Entries) -> pa.Table:
        newer = np.flatnonzero(codec.sequences(entries) > self._sequence)
        # Tombstones of later commits may be gone, by which those would be noticed (P30).
        if len(newer) or floor_of_look_ups(self._index) > self._sequence:
            sample = tuple(record_keys.take(newer[:_SAMPLE]).to_pylist())
            raise ConflictError(
                f"another commit changed records while this write looked them up: count={len(newer)} "
                f"keys={list(sample)}",
                keys=sample,
                key_count=len(newer),
                remedy="write again",
            )
        return self._index.locations(record_keys, entries, self._cutoff)


class RecordChanges(ChangedKeys):
    """Finds keys whose entries are newer than a commit sequence.

    Args:
        index: all of the table is in it.
        sequence: of the state that the write builds on.
        storage: the table.
        instants: what was committed since.
    """

    def __init__(self, index: StoredEntries, sequence: int, storage: Storage, instants: tuple[str, ...]) -> None:
        self._index = index
        self._sequence = sequence
        self._storage = storage
        self.instants = instants
        self.keys_expire = index.ttl is not None

    def placed_by(self, journals: Sequence[Journal], tasks: TaskRunner) -> SomeKeys:
        return sum_of(tasks.run(self._placed_by_one, journals))

    def among(self, record_keys: pa.Array) -> SomeKeys:
        keys, entries = self._index.get_everywhere(record_keys, require_applied(self._index.store, self._sequence))
        return self._newer(keys, entries)

    def _placed_by_one(self, journal: Journal) -> SomeKeys:
        index, path = self._index, journal.group.partition_path
        applied = require_applied(index.store, self._sequence)
        placed = journal.placed_keys(self._storage)
        return sum_of(self._newer(keys, index.get(index.codec.stored_keys_in(path, keys), applied)) for keys in placed)

    def _newer(self, record_keys: pa.Array, entries: Entries) -> SomeKeys:
        return SomeKeys.of([record_keys.filter(pa.array(codec.sequences(entries) > self._sequence)).unique()])
