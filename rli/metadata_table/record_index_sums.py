"""Sums that tell where a record index differs from the records of a table: each of both is read once, and none is kept.

The entries of each file group are spread over buckets by hashes of their keys. In each bucket, the hashes of its entries are added and
those of its records taken away. Where zero is left, entries and records are the same. Elsewhere the keys have to be compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rli.codec.key_codec import key_fingerprints
from rli.hudi.metadata.partitions import PartitionKind, escaped_partition
from rli.hudi.metadata.reader import MetadataTableReader
from rli.hudi.metadata.record_index import located_keys
from rli.model import FileGroupId

_BUCKETS: Final = 64
"""Of each file group: 512 bytes of sums."""

_Hashes = NDArray[np.uint64]


class RecordIndexSums:
    """What is left of the entries of a record index when records are taken away.

    Attributes:
        entries: number of all entries, those among them that no look-up finds.
        records: number of records taken away.
    """

    def __init__(self) -> None:
        self.entries = 0
        self.records = 0
        self._rows: dict[FileGroupId, int] = {}
        self._sums = np.zeros((1, _BUCKETS), np.uint64)

    def add_entries(self, reader: MetadataTableReader, *, is_partitioned: bool) -> None:
        """Add the entries that look-ups find.

        Args:
            reader: of the metadata table.
            is_partitioned: whether each partition of the table has entries of its own.

        Raises:
            CorruptTableError: the metadata table is damaged.
        """
        for owner, cells, is_sought in reader.scan_with_places(PartitionKind.RECORD_INDEX):
            self.entries += cells.num_rows
            entries = located_keys(cells)
            is_found = is_sought & _are_of(owner, entries) if is_partitioned else is_sought
            groups, numbers = _groups_of(entries)
            rows, hashes = self._rows_of(groups)[numbers[is_found]], key_fingerprints(entries["record_key"])[is_found]
            np.add.at(self._sums, (rows, _buckets_of(hashes)), hashes)

    def take_away(self, group: FileGroupId, keys: pa.Array) -> None:
        """Take records away.

        Args:
            group: their file group.
            keys: their record keys, string array.
        """
        self.records += len(keys)
        [row] = self._rows_of([group])
        hashes = key_fingerprints(keys)
        np.subtract.at(self._sums[row], _buckets_of(hashes), hashes)

    def differ(self, group: FileGroupId) -> bool:
        """Whether entries and records of a file group differ."""
        return bool(self._sums[self._rows[group]].any()) if group in self._rows else False

    def that_may_differ(self, group: FileGroupId, keys: pa.Array) -> pa.Array:
        """Those of some record keys of a file group that are in buckets whose entries and records differ."""
        return keys.filter(pa.array(self._sums[self._rows[group]][_buckets_of(key_fingerprints(keys))] != 0))

    def _rows_of(self, groups: Sequence[FileGroupId]) -> NDArray[np.intp]:
        rows = np.array([self._rows.setdefault(group, len(self._rows)) for group in groups], np.intp)
        if len(self._rows) > len(self._sums):
            more = np.zeros((max(len(self._rows) - len(self._sums), len(self._sums)), _BUCKETS), np.uint64)
            self._sums = np.concatenate([self._sums, more])
        return rows


def _are_of(owner: str | None, entries: pa.RecordBatch) -> NDArray[np.bool_]:
    """Which entries name a partition of the table, given as file groups name it."""
    paths = entries["partition_path"]
    are_of = np.array([escaped_partition(path) == owner for path in paths.dictionary.to_pylist()], np.bool_)
    return np.asarray(are_of[paths.indices.to_numpy()])


def _groups_of(entries: pa.RecordBatch) -> tuple[list[FileGroupId], NDArray[np.intp]]:
    """The file groups that entries name, each once, and for each entry the position of its own."""
    paths, file_ids = entries["partition_path"], entries["file_id"]
    count = len(file_ids.dictionary)
    pairs = paths.indices.to_numpy().astype(np.int64) * count + file_ids.indices.to_numpy()
    distinct, numbers = np.unique(pairs, return_inverse=True)
    named = (divmod(pair, count) for pair in distinct.tolist())
    return [
        FileGroupId(paths.dictionary[path].as_py(), file_ids.dictionary[file].as_py()) for path, file in named
    ], numbers


def _buckets_of(hashes: _Hashes) -> NDArray[np.intp]:
    return (hashes % np.uint64(_BUCKETS)).astype(np.intp)
