"""Looking record keys up in the file groups that are their buckets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from rli.index.hashed.hashing import Hashing
from rli.index.hashed.layout import BucketLayout
from rli.index.reports import Scope
from rli.index.table_files.locator import KeyColumnLocator
from rli.locations import LOCATION_SCHEMA
from rli.view.file_slices import FileSlice
from rli.view.snapshot import Snapshot


class BucketLocator(KeyColumnLocator):
    """Finds records by the keys that their bucket holds; the other buckets of a partition are not opened.

    Args:
        snapshot: the state of the table.
        hashing: of the table.
    """

    def __init__(self, snapshot: Snapshot, hashing: Hashing) -> None:
        super().__init__(snapshot, Scope.PARTITION)
        self._hashing = hashing

    def probe(self, file_slices: Sequence[FileSlice], record_keys: pa.Array) -> pa.Table:
        found = [super(BucketLocator, self).probe(*part) for part in self._sought(file_slices, record_keys)]
        return pa.concat_tables([LOCATION_SCHEMA.empty_table(), *found])

    def _sought(
        self, file_slices: Sequence[FileSlice], record_keys: pa.Array
    ) -> Iterator[tuple[list[FileSlice], pa.Array]]:
        """Each file slice with the keys of its bucket, if there are any; raises ``IndexMismatchError`` for no buckets."""
        layout = BucketLayout.of(self.snapshot, self._hashing, file_slices)
        hashes = self._hashing.hashes(record_keys)
        for partition_path, slices in layout.slices.items():
            buckets = self._hashing.buckets_of(partition_path, hashes)
            order = np.argsort(buckets, kind="stable")
            arranged = buckets[order]
            for bucket, file_slice in slices.items():
                start, stop = np.searchsorted(arranged, [bucket, bucket + 1])
                if start < stop:
                    yield [file_slice], record_keys.take(pa.array(order[start:stop]))
