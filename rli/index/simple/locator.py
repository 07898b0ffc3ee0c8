"""Looking record keys up in the key columns of file slices, one slice after the other."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import pyarrow as pa

from rli.index.locators import FileLocator
from rli.index.reports import Scope
from rli.locations import LOCATION_SCHEMA
from rli.view.file_slices import FileSlice
from rli.view.snapshot import Snapshot


class SimpleLocator(FileLocator):
    """Finds records by their stored keys.

    Args:
        snapshot: the state of the table.
        scope: where a key is unique.
    """

    def __init__(self, snapshot: Snapshot, scope: Scope) -> None:
        self._snapshot = snapshot
        self.scope = scope

    def candidates(self, partition_paths: Collection[str] | None) -> Sequence[FileSlice]:
        slices = self._snapshot.slices
        if partition_paths is None or self.scope is Scope.GLOBAL:
            return list(slices.values())
        return slices.of_partitions(set(partition_paths))

    def stored(self, file_slices: Sequence[FileSlice]) -> Iterator[pa.Table]:
        for file_slice in file_slices:
            group = file_slice.group
            for keys in self._snapshot.record_keys(file_slice):
                names = (group.partition_path, group.file_id, file_slice.instant)
                columns = (pa.repeat(pa.scalar(name, pa.string()), len(keys)) for name in names)
                yield pa.table([keys, *columns], schema=LOCATION_SCHEMA)
