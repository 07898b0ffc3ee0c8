"""The share of a table's file groups that an index on a column in the metadata table describes."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from rli.hudi.metadata.index_definitions import load_index_definitions
from rli.hudi.metadata.keys import bloom_filter_key, column_stats_key
from rli.hudi.metadata.reader import MetadataTableReader
from rli.hudi.metadata.views import DataFile, statistics_in
from rli.metadata_table.indexed_columns import IndexedColumns, chosen_columns
from rli.view.column_indexes import ColumnIndex, ColumnIndexState, IndexUse
from rli.view.file_slices import FileSlice
from rli.view.snapshot import Snapshot
from rli.view.table_metadata import commits_left_out

_SAMPLE: Final = 1_000
"""File groups, at most."""


class IndexCoverage:
    """Measures the indexes on columns of one state of a table.

    Args:
        snapshot: the state.
        reader: of its metadata table.
    """

    def __init__(self, snapshot: Snapshot, reader: MetadataTableReader) -> None:
        self._snapshot = snapshot
        self._reader = reader

    def measured(self, index: ColumnIndex) -> ColumnIndex:
        """An index with its ``lag`` and ``covers``. An index that lacks commits is invalid, because readers pass over it.

        Raises:
            CorruptTableError: the metadata table is damaged.
        """
        if index.state is not ColumnIndexState.VALID:
            return index
        lag = len(list(commits_left_out(self._reader, index.partition)))
        if lag:
            return replace(index, state=ColumnIndexState.INVALID, lag=lag)
        return replace(index, lag=0, covers=self._covers(index))

    def _covers(self, index: ColumnIndex) -> float:
        slices = _sample([*self._snapshot.slices.values()])
        # The records of log files are in no index of files.
        files = [_file_of(one) for one in slices if not one.logs and one.base is not None]
        if not slices:
            return 1.0
        known = len(files) if index.using is IndexUse.SECONDARY else self._known(index, files)
        return known / len(slices)

    def _known(self, index: ColumnIndex, files: Sequence[DataFile]) -> float:
        """Number of files that an index has an entry of; with several columns, their mean."""
        if index.using is IndexUse.BLOOM_FILTERS:
            keys = pa.array([bloom_filter_key(*file) for file in files], pa.string())
            return len(self._reader.lookup(index.partition, keys))
        columns = index.columns or self._default_columns()
        counts = [self._with_statistics(index.partition, column, files) for column in columns]
        return sum(counts) / len(counts) if counts else 0

    def _with_statistics(self, partition: str, column: str, files: Sequence[DataFile]) -> int:
        found = statistics_in(self._reader, partition, [column_stats_key(column, *file) for file in files])
        return len(found) - found["isDeleted"].null_count

    def _default_columns(self) -> Sequence[str]:
        table, schema = self._snapshot.table, self._snapshot.schema
        definitions = load_index_definitions(table.storage, table.properties)
        return [] if schema is None else chosen_columns(IndexedColumns.of(definitions, schema).names)


def _sample(slices: Sequence[FileSlice]) -> Sequence[FileSlice]:
    """Some of the slices, from all parts of the table: at most ``_SAMPLE``."""
    return slices[:: -(-len(slices) // _SAMPLE)] if slices else slices


def _file_of(file_slice: FileSlice) -> DataFile:
    base = file_slice.base
    return file_slice.group.partition_path, "" if base is None else posixpath.basename(base.path)
