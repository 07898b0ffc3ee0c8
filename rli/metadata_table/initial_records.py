"""The records of new partitions of the metadata table, from the folders, footers and keys of its table.

Records are cells, and those of each file group are sorted apart. Memory holds the names of all files, the statistics of
the files of one partition of the table, the footers of at most 512 files, with 32 MiB of bloom filters if they are no larger than
those before, and what ``CellSorter`` keeps. Tasks of an engine may read footers and keys.
"""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from rli.errors import UnsupportedTableError
from rli.hudi.file_names import is_log_file
from rli.hudi.hfile.cells import CELLS
from rli.hudi.metadata.groups import placed_groups
from rli.hudi.metadata.index_definitions import IndexDefinition
from rli.hudi.metadata.keys import (
    PARTITION_LIST_KEY,
    bloom_filter_key,
    column_stats_key,
    files_key,
    partition_stats_key,
)
from rli.hudi.metadata.partitions import PartitionKind, file_id
from rli.hudi.metadata.record_codec import encode_record
from rli.hudi.metadata.record_index import location_cells
from rli.hudi.metadata.records import ColumnStatistics, FileList, ListedFile, MetadataRecord, RecordLocation
from rli.metadata_table.base_file_records import BaseFileRecords, base_file_records
from rli.metadata_table.cell_sorter import CellSorter
from rli.metadata_table.expression_entries import kept_expressions
from rli.metadata_table.indexed_columns import IndexedColumns
from rli.metadata_table.partition_statistics import merged_over_files
from rli.metadata_table.secondary_entries import SecondaryEntries
from rli.metadata_table.slice_keys import KeysReadByTasks, KeysReadHere, SliceKeys
from rli.storage import Storage
from rli.tasks import InThreads, TaskRunner
from rli.view.file_slices import FileSlice, may_count
from rli.view.snapshot import Snapshot

_GROUPS: Final[Mapping[str, int]] = {
    PartitionKind.FILES: 1,
    PartitionKind.COLUMN_STATS: 2,
    PartitionKind.PARTITION_STATS: 1,
    PartitionKind.BLOOM_FILTERS: 4,
}
_FOOTERS_AT_ONCE: Final = 512

_FIRST_FOOTERS: Final = 16
"""Of which size the bloom filters are is known only behind them; one of Hudi has some 430 KB, the largest 45 MB."""

_FILTER_BYTES_AT_ONCE: Final = 32 << 20
_GROWTH_OF_LOTS: Final = 2

_KEYS_FOLDER: Final = "keys"
_GROUPS_OF_EXPRESSION: Final = 2
"""File groups of a new partition, as Hudi makes by default."""

_LEAST_GROUPS_OF_RECORD_INDEX: Final = 10
_MOST_GROUPS_OF_RECORD_INDEX: Final = 10_000
_BYTES_OF_GROUP: Final = 1 << 30
_BYTES_OF_ENTRY: Final = 48
_GROWTH: Final = 2

_FROM_FOOTERS: Final = frozenset(
    {PartitionKind.COLUMN_STATS, PartitionKind.PARTITION_STATS, PartitionKind.BLOOM_FILTERS}
)


@dataclass(frozen=True)
class InitialRecords:
    """What new partitions of a metadata table hold.

    Attributes:
        snapshot: state of the table; its files stay for as long as this is used.
        columns: that have statistics.
        is_index_partitioned: whether each partition of the table has file groups of its own in the record index.
        secondary: partition of a secondary index → the column that it is of.
        definitions: of indexes on expressions, by their partitions.
        tasks: of an engine, which read footers and record keys; None to read them in this process.
        folder: relative to the table, for what the tasks read; nobody else uses it.
    """

    snapshot: Snapshot
    columns: IndexedColumns
    is_index_partitioned: bool = False
    secondary: Mapping[str, str] = field(default_factory=dict)
    definitions: Mapping[str, IndexDefinition] = field(default_factory=dict)
    tasks: TaskRunner | None = None
    folder: str = ""

    def add_to(self, sorters: Mapping[str, CellSorter], on_file: Callable[[], None] = lambda: None) -> None:
        """Give the cells of some partitions to their sorters, by the ids of file groups.

        Args:
            sorters: of the partitions that are wanted.
            on_file: called for each data file that was read.

        Raises:
            CorruptTableError: a base file is missing or damaged.
            UnsupportedTableError: an instant of the table is no time, so that no record index can name it.
        """
        if PartitionKind.FILES in sorters:
            self._add(sorters, PartitionKind.FILES, self._lists())
        if not _FROM_FOOTERS.isdisjoint(sorters):
            read = self._footers(has_filters=PartitionKind.BLOOM_FILTERS in sorters)
            for path in sorted(self._files):
                self._add_from_footers(path, read, sorters, on_file)
        if PartitionKind.RECORD_INDEX in sorters:
            for file_slice in self._live:
                self._add_locations(file_slice, sorters[PartitionKind.RECORD_INDEX])
                on_file()
        for partition, column in self.secondary.items():
            self._add_entries(partition, column, sorters[partition], on_file)
        schema = self.snapshot.schema
        for partition, entries in kept_expressions(self.definitions, self.definitions, self.snapshot, schema).items():
            for cells in entries.cells_of(self._live):
                _share_out(partition, cells, self.file_ids(partition), sorters[partition])
                on_file()

    def file_ids(self, kind: str) -> list[str]:
        """All file groups of a new partition, also those that get no cells."""
        if kind in self.secondary:
            return [file_id(kind, number) for number in range(groups_of_record_index(self._rows))]
        if kind in self.definitions:
            return [file_id(kind, number) for number in range(_GROUPS_OF_EXPRESSION)]
        if kind != PartitionKind.RECORD_INDEX:
            return [file_id(kind, number) for number in range(_GROUPS[kind])]
        return [file_id(kind, number, path) for path, count in self._groups_of_index.items() for number in range(count)]

    def files_to_read(self, kinds: Collection[str]) -> int:
        """How often ``add_to`` calls ``on_file``."""
        base_files = [name for files in self._files.values() for name in files if not is_log_file(name)]
        footers = 0 if _FROM_FOOTERS.isdisjoint(kinds) else len(base_files)
        scans = len(self.secondary) + (PartitionKind.RECORD_INDEX in kinds)
        computed = sum(one.base is not None for one in self._live) * len(self.definitions)
        return footers + len(self._live) * scans + computed

    @cached_property
    def _files(self) -> Mapping[str, Mapping[str, int]]:
        return visible_files(self.snapshot)

    @cached_property
    def _live(self) -> list[FileSlice]:
        return [*self.snapshot.slices.values()]

    @cached_property
    def _keys(self) -> SliceKeys:
        if self.tasks is None:
            return KeysReadHere(self.snapshot)
        return KeysReadByTasks(self.snapshot, self.tasks, posixpath.join(self.folder, _KEYS_FOLDER))

    @cached_property
    def _groups_of_index(self) -> dict[str | None, int]:
        """Partition path → file groups of the record index; None stands for the whole table."""
        rows: dict[str | None, int] = defaultdict(int)
        if not self.is_index_partitioned:
            rows[None] = 0
        for file_slice in self._live:
            path = file_slice.group.partition_path if self.is_index_partitioned else None
            rows[path] += self._keys.rows(file_slice)
        least = 1 if self.is_index_partitioned else _LEAST_GROUPS_OF_RECORD_INDEX
        return {path: groups_of_record_index(count, least) for path, count in sorted(rows.items(), key=str)}

    @cached_property
    def _rows(self) -> int:
        """The records of the table."""
        return sum(map(self._keys.rows, self._live))

    def _lists(self) -> Iterator[tuple[str, MetadataRecord]]:
        partitions = {files_key(path): ListedFile(0) for path in self._files}
        yield PARTITION_LIST_KEY, FileList(partitions, lists_partitions=True)
        for path, files in self._files.items():
            yield files_key(path), FileList({name: ListedFile(size) for name, size in files.items()})

    def _base_files(self, path: str) -> list[str]:
        """Names of the base files of one partition of the table, in order."""
        return sorted(name for name in self._files[path] if not is_log_file(name))

    def _footers(self, *, has_filters: bool) -> Iterator[BaseFileRecords]:
        """What the base files of the table tell: those of one partition after those of the other, both in order."""
        files = (posixpath.join(path, name) for path in sorted(self._files) for name in self._base_files(path))
        task = partial(_read_footer, self.snapshot.table.storage, self.columns, has_filter=has_filters)
        count, largest = _FIRST_FOOTERS if has_filters else _FOOTERS_AT_ONCE, 1
        while lot := [*islice(files, count)]:
            read = dict((self.tasks or InThreads()).run(task, lot))
            largest = max(largest, *(_bytes_of_filter(records) for records in read.values()))
            # The next files may have larger filters than all before.
            count = min(max(_FILTER_BYTES_AT_ONCE // largest, 1), _FOOTERS_AT_ONCE, _GROWTH_OF_LOTS * count)
            yield from (read.pop(file) for file in lot)

    def _add_from_footers(
        self,
        path: str,
        read: Iterator[BaseFileRecords],
        sorters: Mapping[str, CellSorter],
        on_file: Callable[[], None],
    ) -> None:
        """Records of the base files of one partition of the table, which come next."""
        names = self._base_files(path)
        slices = self.snapshot.slices.of_partitions([path])
        live = {posixpath.basename(file.path) for file_slice in slices for file in file_slice.files}
        of_live: list[Mapping[str, ColumnStatistics]] = []
        for name, records in zip(names, islice(read, len(names)), strict=True):
            self._add_file(path, name, records, sorters)
            if name in live and records.rows:
                of_live.append(records.statistics)
            on_file()
        # What log files say may lie outside of the bounds of base files.
        if PartitionKind.PARTITION_STATS in sorters and not any(file_slice.logs for file_slice in slices):
            merged = merged_over_files(path, of_live, self.columns.names)
            keyed = ((partition_stats_key(column, path), found) for column, found in merged.items())
            self._add(sorters, PartitionKind.PARTITION_STATS, keyed)

    def _add_file(self, path: str, name: str, records: BaseFileRecords, sorters: Mapping[str, CellSorter]) -> None:
        if PartitionKind.COLUMN_STATS in sorters:
            keyed = ((column_stats_key(column, path, name), found) for column, found in records.statistics.items())
            self._add(sorters, PartitionKind.COLUMN_STATS, keyed)
        if PartitionKind.BLOOM_FILTERS in sorters and records.bloom_filter is not None:
            key = bloom_filter_key(path, name)
            self._add(sorters, PartitionKind.BLOOM_FILTERS, [(key, records.bloom_filter)])

    def _add(
        self,
        sorters: Mapping[str, CellSorter],
        kind: PartitionKind,
        records: Iterable[tuple[str, MetadataRecord]],
    ) -> None:
        rows = [(key.encode(), encode_record(record)) for key, record in records]
        if rows:
            cells = pa.record_batch([list(column) for column in zip(*rows, strict=True)], schema=CELLS)
            _share_out(kind, cells, self.file_ids(kind), sorters[kind])

    def _add_entries(self, partition: str, column: str, sorter: CellSorter, on_file: Callable[[], None]) -> None:
        """Entries of a secondary index, file slice by file slice."""
        entries = SecondaryEntries(partition, column, self.snapshot, self.snapshot.schema or pa.schema([]))
        ids = self.file_ids(partition)
        for cells in entries.cells_of(self._live):
            _share_out(partition, cells, ids, sorter)
            on_file()

    def _add_locations(self, file_slice: FileSlice, sorter: CellSorter) -> None:
        group, kind = file_slice.group, PartitionKind.RECORD_INDEX
        location = RecordLocation(group.partition_path, group.file_id, file_slice.instant)
        owner = group.partition_path if self.is_index_partitioned else None
        ids = [file_id(kind, number, owner) for number in range(self._groups_of_index[owner])]
        for keys in self._keys.batches(file_slice):
            try:
                cells = location_cells(keys, [location])
            except ValueError as error:
                raise UnsupportedTableError(
                    f"a record index cannot name an instant that is no time: instant={file_slice.instant}",
                    remedy="cluster the table first, so that all its files are of later instants",
                ) from error
            _share_out(kind, cells, ids, sorter)


def _read_footer(
    storage: Storage, columns: IndexedColumns, path: str, *, has_filter: bool
) -> tuple[str, BaseFileRecords]:
    """What one base file tells, with its path: a task."""
    records = base_file_records(storage, path, columns)
    return path, records if has_filter else replace(records, bloom_filter=None)


def _bytes_of_filter(records: BaseFileRecords) -> int:
    return 0 if records.bloom_filter is None else len(records.bloom_filter.content)


def visible_files(snapshot: Snapshot) -> dict[str, dict[str, int]]:
    """Partition path → data files in its folder that count, older versions included → bytes."""
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for version in snapshot.slices.all_versions():
        if may_count(version, snapshot.timeline):
            sizes = {posixpath.basename(file.path): file.size for file in version.files}
            found[version.group.partition_path].update(sizes)
    return dict(found)


def groups_of_record_index(records: int, least: int = _LEAST_GROUPS_OF_RECORD_INDEX) -> int:
    """File groups of a new record index, by Hudi's estimate: twice as many records fill them to 1 GiB each.

    Example:
        >>> groups_of_record_index(1_000_000), groups_of_record_index(2_000_000_000)
        (10, 178)
    """
    estimate = records * _GROWTH // (_BYTES_OF_GROUP // _BYTES_OF_ENTRY)
    return min(max(estimate, least), _MOST_GROUPS_OF_RECORD_INDEX)


def _share_out(partition: str, cells: pa.RecordBatch, file_ids: list[str], sorter: CellSorter) -> None:
    """Give each file group its cells."""
    if len(file_ids) == 1:
        sorter.add(file_ids[0], cells)
        return
    chosen = pa.array(placed_groups(partition, cells["key"], len(file_ids)))
    for number, name in enumerate(file_ids):
        sorter.add(name, cells.filter(pc.equal(chosen, number)))
