"""What the partitions of a metadata table say, as typed values."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rli.errors import CorruptTableError
from rli.hudi.hfile.cells import concatenated
from rli.hudi.metadata.columns import file_lists, statistics_columns
from rli.hudi.metadata.keys import (
    PARTITION_LIST_KEY,
    UNPARTITIONED,
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

LISTED: Final = pa.schema(
    [pa.field("partition_path", pa.string()), pa.field("name", pa.string()), pa.field("size", pa.int64())]
)
"""Files of the table: partition path, name, and bytes."""

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
    listed = _partitions_in(reader.lookup(PartitionKind.FILES, pa.array([PARTITION_LIST_KEY])))
    return tuple(sorted(partition_path_of(name) for name in listed.to_pylist()))


def files_of(reader: MetadataTableReader, partitions: Iterable[str]) -> pa.RecordBatch:
    """The files of some partitions of the table.

    Args:
        reader: of the metadata table.
        partitions: partition paths.

    Returns:
        Batch of ``LISTED``, without removed files. Log files have their leading dot.

    Raises:
        CorruptTableError: the metadata table is damaged.
    """
    keys = pa.array([files_key(path) for path in partitions], pa.string())
    return _present(reader.lookup(PartitionKind.FILES, keys))


def all_files(reader: MetadataTableReader) -> pa.RecordBatch:
    """The files of all partitions of the table, as ``files_of``.

    Raises:
        CorruptTableError: the metadata table is damaged.
    """
    cells = concatenated(list(reader.scan(PartitionKind.FILES)))
    return _present(cells.filter(pc.is_in(cells["key"], value_set=_partitions_in(cells).cast(pa.binary()))))


def sizes_by_partition(files: pa.RecordBatch) -> dict[str, dict[str, int]]:
    """Partition path → file name → bytes of a batch of ``LISTED``; partitions without files are left out."""
    found: dict[str, dict[str, int]] = {}
    for path, name, size in zip(*(column.to_pylist() for column in files), strict=True):
        found.setdefault(path, {})[name] = size
    return found


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
    return bloom_filters_in(reader, PartitionKind.BLOOM_FILTERS, files)


def bloom_filters_in(
    reader: MetadataTableReader, partition: str, files: Iterable[DataFile]
) -> dict[DataFile, StoredBloomFilter]:
    """As ``bloom_filters``, of any partition that has some."""
    keys = {bloom_filter_key(*file): file for file in files}
    cells = reader.lookup_filters(partition, pa.array(keys, pa.string()))
    found = {keys[key]: stored for key, stored in _records(cells, StoredBloomFilter)}
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


def statistics_in(reader: MetadataTableReader, partition: str, keys: Sequence[str]) -> pa.RecordBatch:
    """The statistics of some keys of a partition, as ``statistics_columns`` gives them: null where a key has none.

    Raises:
        CorruptTableError: the metadata table is damaged.
    """
    return _by_owner(reader, partition, {"": keys})[""]


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


def _partitions_in(cells: pa.RecordBatch) -> pa.StringArray:
    """The keys of the partitions of the table, from the list of partitions among some cells."""
    place = pc.index(cells["key"], PARTITION_LIST_KEY.encode()).as_py()
    if place < 0:
        raise CorruptTableError("the metadata table does not list the partitions of the table", remedy=_REMEDY)
    return _present(cells.slice(place, 1))["name"]


def _present(cells: pa.RecordBatch) -> pa.RecordBatch:
    """The files in some lists of files: a batch of ``LISTED`` without removed ones."""
    lists = file_lists(cells["value"])
    offsets = lists.offsets.to_numpy() if len(lists) else np.zeros(1, np.int32)
    names, files = (part.slice(offsets[0], offsets[-1] - offsets[0]) for part in (lists.keys, lists.items))
    keys = cells["key"].cast(pa.string())
    paths = pc.if_else(pc.equal(keys, UNPARTITIONED), "", keys)
    owners = np.repeat(np.arange(len(lists)), np.diff(offsets))
    found = pa.RecordBatch.from_arrays([paths.take(pa.array(owners)), names, files.field("size")], schema=LISTED)
    return found.filter(pc.invert(files.field("isDeleted")))


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
