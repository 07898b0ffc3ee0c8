"""Record keys as the key columns of a table's file slices hold them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import pyarrow as pa

from rli.index.locators import FileLocator
from rli.locations import LOCATION_SCHEMA
from rli.model import Scope
from rli.view.file_slices import FileSlice
from rli.view.snapshot import Snapshot


class KeyColumnLocator(FileLocator):
    """Finds records by their stored keys.

    Args:
        snapshot: the state of the table.
        scope: where a key is unique.
    """

    def __init__(self, snapshot: Snapshot, scope: Scope) -> None:
        self.snapshot = snapshot
        self.scope = scope

    def candidates(self, partition_paths: Collection[str] | None) -> Sequence[FileSlice]:
        slices = self.snapshot.slices
        if partition_paths is None or self.scope is Scope.GLOBAL:
            return list(slices.values())
        return slices.of_partitions(set(partition_paths))

    def stored(self, file_slices: Sequence[FileSlice]) -> Iterator[pa.Table]:
        for file_slice in file_slices:
            for keys in self.snapshot.record_keys(file_slice):
                yield locations_in(file_slice, keys)


def locations_in(file_slice: FileSlice, record_keys: pa.Array) -> pa.Table:
    """The locations of records (string array of keys, shape (n,)) that a file slice holds."""
    names = (*file_slice.group, file_slice.instant)
    columns = (pa.repeat(pa.scalar(name, pa.string()), len(record_keys)) for name in names)
    return pa.table([record_keys, *columns], schema=LOCATION_SCHEMA)
