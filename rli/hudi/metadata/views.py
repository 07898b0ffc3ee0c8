"""What the partitions of a metadata table say, as typed values."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rli.errors import CorruptTableError
from rli.hudi.hfile.cells import concatenated
from rli.hudi.metadata.columns import file_lists, statistics_columns
from rli.hudi.metadata.keys import (
    PARTITION_LIST_KEY,
    bloom_filter_key,
    column_stats_key,
    files_key,
    partition_path_of,
    partition_stats_key,
)
from rli.hudi.metadata.partitions import PartitionKind
from rli.hudi.metadata.reader import MetadataTableReader
from rli.hudi.metadata.record_codec import decode_record
from rli.hudi.metadata.record_index import located_keys
from rli.hudi.metadata.records import ColumnStatistics, StoredBloomFilter

DataFile = tuple[str, str]
"""Partition path and name of a file of the table."""

_Record = TypeVar("_Record", ColumnStatistics, StoredBloomFilter)
_Owner = TypeVar("_Owner")
_REMEDY: Final = "drop this partition of the metadata table and let it be built anew"


def partition_paths(reader: MetadataTableReader) -> tuple[str, ...]:
    """The partitions of the table, ordered; "" alone in a table without partitions.

    Raises:
        CorruptTableError: the metadata table does not list them, or is damaged.
    """
    return _partition_paths(_present(reader.lookup(PartitionKind.FILES, pa.array([PARTITION_LIST_KEY]))))


def files_of(reader: MetadataTableReader, partitions: Iterable[str]) -> dict[str, dict[str, int]]:
    """The files of some partitions of the table.

    Args:
        reader: of the metadata table.
        partitions: partition paths.

    Returns:
        Partition path → file name → bytes; partitions without files are left out. Log files have their leading dot.

    Raises:
        CorruptTableError: the metadata table is damaged.
    """
    keys = pa.array([files_key(path) for path in partitions], pa.string())
    return {partition_path_of(key): files for key, files in _present(reader.lookup(PartitionKind.FILES, keys)).items()}


def all_files(reader: MetadataTableReader) -> dict[str, dict[str, int]]:
    """The files of all partitions of the table: partition path → file name → bytes.

    Raises:
        CorruptTableError: the metadata table is damaged.
    """
    lists = _present(concatenated(list(reader.scan(PartitionKind.FILES))))
    paths = _partition_paths(lists)
    return {path: lists[key] for path, key in ((path, files_key(path)) for path in paths) if key in lists}


def column_statistics(
    reader: MetadataTableReader, columns: Collection[str], files: Iterable[DataFile]
) -> dict[DataFile, dict[str, ColumnStatistics]]:
    """Statistics of columns in files; files and columns without statistics are left out.

    Raises:
        CorruptTableError: the metadata table is damaged.
    """
    keys = {column_stats_key(column, *file): (file, column) for file in files for column in columns}
    return _by_column(_looked_up(reader, PartitionKind.COLUMN_STATS, keys, ColumnStatistics))


def partition_statistics(
    reader: MetadataTableReader, columns: Collection[str], partitions: Iterable[str]
) -> dict[str, dict[str, ColumnStatistics]]:
    """Statistics of columns in partitions of the table; partitions and columns without statistics are left out.

    Raises:
        CorruptTableError: the metadata table is damaged.
    """
    keys = {partition_stats_key(column, path): (path, column) for path in partitions for column in columns}
    return _by_column(_looked_up(reader, PartitionKind.PARTITION_STATS, keys, ColumnStatistics))


def bloom_filters(reader: MetadataTableReader, files: Iterable[DataFile]) -> dict[DataFile, StoredBloomFilter]:
    """The bloom filters of files; files without one are left out.

    Raises:
        CorruptTableError: the metadata table is damaged.
    """
    keys = {bloom_filter_key(*file): file for file in files}
    found = _looked_up(reader, PartitionKind.BLOOM_FILTERS, keys, StoredBloomFilter)
    return {file: stored for file, stored in found.items() if not stored.is_deleted}


def record_locations(reader: MetadataTableReader, keys: pa.Array, data_partition: str | None = None) -> pa.RecordBatch:
    """Where records are, by the record index.

    Args:
        reader: of the metadata table; ``is_ahead`` tells when its answer may be newer than the table's timeline.
        keys: record keys, string array without nulls.
        data_partition: partition path of the table, for a partitioned record index; None otherwise.

    Returns:
        Batch of ``LOCATED``, in any order; keys that are not there are left out.

    Raises:
        CorruptTableError: the metadata table is damaged.
    """
    return located_keys(reader.lookup(PartitionKind.RECORD_INDEX, keys, data_partition))


def statistics_by_column(
    reader: MetadataTableReader, columns: Collection[str], files: Sequence[DataFile]
) -> dict[str, pa.RecordBatch]:
    """Statistics of columns in many files.

    Returns:
        For each column a batch as ``statistics_columns`` gives it, a row for each file in their order: null where the
        file has no statistics of the column.

    Raises:
        CorruptTableError: the metadata table is damaged.
    """
    keys = {column: [column_stats_key(column, *file) for file in files] for column in columns}
    return _by_owner(reader, PartitionKind.COLUMN_STATS, keys)


def partition_statistics_by_column(
    reader: MetadataTableReader, columns: Collection[str], partitions: Sequence[str]
) -> dict[str, pa.RecordBatch]:
    """As ``statistics_by_column``, in partitions of the table."""
    keys = {column: [partition_stats_key(column, path) for path in partitions] for column in columns}
    return _by_owner(reader, PartitionKind.PARTITION_STATS, keys)


def _by_owner(
    reader: MetadataTableReader, partition: str, keys: Mapping[str, Sequence[str]]
) -> dict[str, pa.RecordBatch]:
    """For each column the statistics of its keys, in their order."""
    cells = reader.lookup(partition, pa.array(list(chain.from_iterable(keys.values())), pa.string()))
    found = statistics_columns(cells["value"])
    live = pc.fill_null(pc.invert(found["isDeleted"]), False)
    found, held = found.filter(live), cells["key"].filter(live)
    return {
        column: found.take(pc.index_in(pa.array(wanted, pa.binary()), value_set=held))
        for column, wanted in keys.items()
    }


def _partition_paths(lists: Mapping[str, Mapping[str, int]]) -> tuple[str, ...]:
    if PARTITION_LIST_KEY not in lists:
        raise CorruptTableError("the metadata table does not list the partitions of the table", remedy=_REMEDY)
    return tuple(sorted(partition_path_of(name) for name in lists[PARTITION_LIST_KEY]))


def _present(cells: pa.RecordBatch) -> dict[str, dict[str, int]]:
    """Lists of files without removed ones: key → file name → bytes."""
    lists = file_lists(cells["value"])
    first, last = (lists.offsets[place].as_py() if len(lists) else 0 for place in (0, -1))
    names, files = (part.slice(first, last - first) for part in (lists.keys, lists.items))
    kept = pc.invert(files.field("isDeleted"))
    ends = np.append(0, np.cumsum(kept.to_numpy(zero_copy_only=False)))[lists.offsets.to_numpy() - first].tolist()
    pairs = list(zip(names.filter(kept).to_pylist(), files.field("size").filter(kept).to_pylist(), strict=True))
    keys = cells["key"].cast(pa.string()).to_pylist()
    return {key: dict(pairs[start:end]) for key, (start, end) in zip(keys, pairwise(ends), strict=True)}


def _by_column(
    found: Mapping[tuple[_Owner, str], ColumnStatistics],
) -> dict[_Owner, dict[str, ColumnStatistics]]:
    statistics: dict[_Owner, dict[str, ColumnStatistics]] = {}
    for (owner, column), record in found.items():
        if not record.is_deleted and not record.is_unknown:
            statistics.setdefault(owner, {})[column] = record
    return statistics


def _looked_up(
    reader: MetadataTableReader, partition: str, keys: Mapping[str, _Owner], kind: type[_Record]
) -> dict[_Owner, _Record]:
    """The records of keys, by what the keys stand for."""
    cells = reader.lookup(partition, pa.array(keys, pa.string()))
    return {keys[key]: record for key, record in _records(cells, kind)}


def _records(cells: pa.RecordBatch, kind: type[_Record]) -> Iterator[tuple[str, _Record]]:
    for key, value in zip(cells["key"].cast(pa.string()).to_pylist(), cells["value"].to_pylist(), strict=True):
        record = decode_record(value)
        if not isinstance(record, kind):
            raise CorruptTableError(
                f"a partition of the metadata table holds a record of another one: key={key} "
                f"record={type(record).__name__}",
                remedy=_REMEDY,
            )
        yield key, record
