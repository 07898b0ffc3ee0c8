"""What coming and going files mean for the lists of files, statistics of columns and bloom filters of the metadata table."""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rli.hudi.metadata.keys import (
    PARTITION_LIST_KEY,
    bloom_filter_key,
    column_stats_key,
    files_key,
    partition_stats_key,
)
from rli.hudi.metadata.partitions import PartitionKind
from rli.hudi.metadata.records import ColumnStatistics, FileList, ListedFile
from rli.hudi.metadata.views import DataFile
from rli.hudi.timeline.commit_metadata import WriteStat
from rli.metadata_table.base_file_records import BaseFileRecords, records_of_base_files
from rli.metadata_table.indexed_columns import IndexedColumns
from rli.metadata_table.partition_change import PartitionChange
from rli.metadata_table.partition_statistics import merged_over_files
from rli.storage import Storage
from rli.view import paths
from rli.view.table_change import TableChange

_GONE = ListedFile(0, is_deleted=True)


@dataclass(frozen=True, slots=True)
class FileChanges:
    """Files that come and go in one commit or table service.

    Attributes:
        sizes: bytes of each data file that comes; log files have their leading dot.
        records: what is kept of each base file that comes.
        gone: the data files that go.
    """

    sizes: Mapping[DataFile, int] = field(default_factory=dict)
    records: Mapping[DataFile, BaseFileRecords] = field(default_factory=dict)
    gone: Iterable[DataFile] = ()

    @classmethod
    def of_write(cls, storage: Storage, instant: str, change: TableChange, columns: IndexedColumns) -> FileChanges:
        """The files that come with a write, whose base files are not in the table yet.

        Args:
            storage: of the table.
            instant: of the write.
            change: of the table.
            columns: that may have statistics.

        Raises:
            CorruptTableError: a base file is missing or damaged.
        """
        sizes = {_file_of(stat): stat.file_size for stat in change.stats}
        places = {stat.path: paths.unpublished_file(instant, stat.path) for stat in change.written}
        records = records_of_base_files(storage, places, columns)
        return cls(sizes, dict(zip(map(_file_of, change.written), records, strict=True)))

    @property
    def has_all_bloom_filters(self) -> bool:
        """Whether each base file that comes has a bloom filter."""
        return all(records.bloom_filter for records in self.records.values())

    def lists(self) -> PartitionChange:
        """The change of the lists of files."""
        files: dict[str, dict[str, ListedFile]] = defaultdict(dict)
        for path, name in self.gone:
            files[path][name] = _GONE
        for (path, name), size in self.sizes.items():
            files[path][name] = ListedFile(size)
        records = {files_key(path): FileList(of_one) for path, of_one in files.items()}
        if self.sizes:
            paths = {files_key(path): ListedFile(0) for path, _ in self.sizes}
            records[PARTITION_LIST_KEY] = FileList(paths, lists_partitions=True)
        return PartitionChange.of_records(PartitionKind.FILES, records)

    def column_statistics(self, columns: IndexedColumns) -> PartitionChange:
        """The change of the statistics of columns."""
        put = {
            column_stats_key(column, *file): statistics
            for file, records in self.records.items()
            for column, statistics in records.statistics.items()
        }
        removed = (column_stats_key(column, *file) for file in self.gone for column in columns.names)
        return PartitionChange.of_records(PartitionKind.COLUMN_STATS, put, removed)

    def bloom_filters(self) -> PartitionChange:
        """The change of the bloom filters."""
        put = {
            bloom_filter_key(*file): records.bloom_filter
            for file, records in self.records.items()
            if records.bloom_filter is not None
        }
        return PartitionChange.of_records(
            PartitionKind.BLOOM_FILTERS, put, (bloom_filter_key(*file) for file in self.gone)
        )


def partition_statistics(
    live: Mapping[str, Sequence[Mapping[str, ColumnStatistics]] | None], columns: IndexedColumns
) -> PartitionChange:
    """The change of the statistics of partitions of the table.

    Each column of each partition gets tight statistics or none: those of an older state would leave out rows of this one.

    Args:
        live: partition path → statistics by column of each file with rows that the partition has now; None if they are not
            known.
        columns: that may have statistics.
    """
    put = {
        partition_stats_key(column, path): statistics
        for path, files in live.items()
        for column, statistics in merged_over_files(path, files or (), columns.names).items()
    }
    removed = (partition_stats_key(column, path) for path in live for column in columns.names)
    return PartitionChange.of_records(PartitionKind.PARTITION_STATS, put, removed)


def data_files(removed: Mapping[str, Iterable[str]]) -> list[DataFile]:
    """Partition path and name of each of some files, which are given by partition path."""
    return [(path, posixpath.basename(name)) for path, names in removed.items() for name in names]


def _file_of(stat: WriteStat) -> DataFile:
    return stat.partition_path, posixpath.basename(stat.path)
