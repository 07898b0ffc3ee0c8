"""The records of new partitions of the metadata table, from the folders, footers and keys of its table.

Records are cells, and those of each file group are sorted apart. What is read of the files is kept in shards, for builds that go on.
Memory holds the names of all files, the statistics of the files of one partition of the table, what ``KeptShards`` and the sources of
cells hold, and what ``CellSorter`` keeps. Tasks of an engine may read the files.
"""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from rli.hudi.metadata.groups import placed_groups
from rli.hudi.metadata.index_definitions import IndexDefinition
from rli.hudi.metadata.keys import PARTITION_LIST_KEY, files_key, partition_stats_key
from rli.hudi.metadata.partitions import PartitionKind, file_id
from rli.hudi.metadata.record_codec import decode_record
from rli.hudi.metadata.records import ColumnStatistics, FileList, ListedFile, MetadataRecord
from rli.metadata_table.cell_sorter import CellSorter
from rli.metadata_table.cell_sources import (
    FROM_FOOTERS,
    FromColumn,
    FromExpression,
    FromFooters,
    FromKeys,
    Part,
    path_of_base,
    record_cells,
)
from rli.metadata_table.indexed_columns import IndexedColumns
from rli.metadata_table.kept_shards import KeptShards
from rli.metadata_table.partition_statistics import merged_over_files
from rli.tasks import TaskRunner
from rli.view.file_slices import FileSlice, may_count
from rli.view.snapshot import Snapshot

_GROUPS: Final[Mapping[str, int]] = {
    PartitionKind.FILES: 1,
    PartitionKind.COLUMN_STATS: 2,
    PartitionKind.PARTITION_STATS: 1,
    PartitionKind.BLOOM_FILTERS: 4,
}
_OF_COLUMNS: Final = frozenset({PartitionKind.COLUMN_STATS, PartitionKind.PARTITION_STATS})

_GROUPS_OF_EXPRESSION: Final = 2
"""File groups of a new partition, as Hudi makes by default."""

_LEAST_GROUPS_OF_RECORD_INDEX: Final = 10
_MOST_GROUPS_OF_RECORD_INDEX: Final = 10_000
_BYTES_OF_GROUP: Final = 1 << 30
_BYTES_OF_ENTRY: Final = 48
_GROWTH: Final = 2


@dataclass(frozen=True)
class InitialRecords:
    """What new partitions of a metadata table hold.

    Attributes:
        snapshot: state of the table; its files stay for as long as this is used.
        kinds: the new partitions.
        columns: that have statistics.
        is_index_partitioned: whether each partition of the table has file groups of its own in the record index.
        secondary: partition of a secondary index → the column that it is of.
        definitions: of indexes on expressions, by their partitions.
        tasks: of an engine, which read the files; None to read them in this process.
    """

    snapshot: Snapshot
    kinds: Collection[str]
    columns: IndexedColumns
    is_index_partitioned: bool = False
    secondary: Mapping[str, str] = field(default_factory=dict)
    definitions: Mapping[str, IndexDefinition] = field(default_factory=dict)
    tasks: TaskRunner | None = None

    def read(self, on_progress: Callable[[int, int], None] = lambda _, __: None) -> None:
        """Read what no former build has read.

        Args:
            on_progress: called with the number of files that are read, and of all files to read.

        Raises:
            CorruptTableError: a base file is missing or damaged.
            UnsupportedTableError: an instant of the table is no time, so that no record index can name it.
        """
        done, total = 0, sum(map(len, self._kept))

        def count(more: int) -> None:
            nonlocal done
            done += more
            on_progress(done, total)

        for kept in self._kept:
            kept.fill(self.tasks, count)

    def add_to(self, sorters: Mapping[str, CellSorter]) -> None:
        """Give the cells that were read to the sorters of the partitions, by the ids of file groups.

        Raises:
            ConflictError: another process has removed what was read.
            CorruptTableError: what was read is damaged.
        """
        if PartitionKind.FILES in sorters:
            for key, record in self._lists():
                self._share_out(PartitionKind.FILES, record_cells({key: record}), sorters)
        for kept in self._kept:
            for path, parts in groupby(kept.parts(), key=lambda part: part.of.group.partition_path):
                statistics: dict[FileSlice, dict[str, ColumnStatistics]] = {}
                for part in parts:
                    if part.partition in sorters:
                        self._share_out(part.partition, part.cells, sorters, path)
                    if PartitionKind.PARTITION_STATS in sorters and part.partition == PartitionKind.COLUMN_STATS:
                        statistics |= self._statistics_of_live(part)
                self._add_merged(path, statistics, sorters)

    def file_ids(self, kind: str) -> list[str]:
        """All file groups of a new partition, also those that get no cells."""
        return [name for names in self._file_ids[kind].values() for name in names]

    @cached_property
    def _file_ids(self) -> Mapping[str, Mapping[str | None, list[str]]]:
        """Partition → path of a partition of the table → the file groups that get its cells; None stands for the whole table."""
        return {
            kind: {path: [file_id(kind, number, path) for number in range(count)] for path, count in groups.items()}
            for kind, groups in ((kind, self._groups_of(kind)) for kind in self.kinds)
        }

    def _groups_of(self, kind: str) -> dict[str | None, int]:
        """Path of a partition of the table → how many file groups it has; None stands for the whole table."""
        if kind in _GROUPS:
            return {None: _GROUPS[kind]}
        if kind in self.definitions:
            return {None: _GROUPS_OF_EXPRESSION}
        [kept] = (one for one in self._kept if one.name == kind)
        is_partitioned = kind == PartitionKind.RECORD_INDEX and self.is_index_partitioned
        rows: dict[str | None, int] = defaultdict(int) if is_partitioned else {None: 0}
        for file_slice, count in kept.rows():
            rows[file_slice.group.partition_path if is_partitioned else None] += count
        least = 1 if is_partitioned else _LEAST_GROUPS_OF_RECORD_INDEX
        return {path: groups_of_record_index(count, least) for path, count in sorted(rows.items(), key=str)}

    @cached_property
    def _kept(self) -> list[KeptShards]:
        """What is read of the files."""
        now, live = self.snapshot, sorted(self.snapshot.slices.values(), key=lambda one: one.group)
        found = list[KeptShards]()
        if not FROM_FOOTERS.isdisjoint(self.kinds):
            wanted = IndexedColumns((), self.columns.version) if _OF_COLUMNS.isdisjoint(self.kinds) else self.columns
            files = sorted(_visible_base_files(now), key=lambda one: (one.group.partition_path, path_of_base(one)))
            found.append(KeptShards(FromFooters(now, wanted, PartitionKind.BLOOM_FILTERS in self.kinds), files))
        if PartitionKind.RECORD_INDEX in self.kinds:
            found.append(KeptShards(FromKeys(now), live))
        found += [KeptShards(FromColumn(now, *item), live) for item in self.secondary.items()]
        bases = [one for one in live if one.base is not None]
        return found + [KeptShards(FromExpression(now, one), bases) for one in self.definitions.values()]

    def _lists(self) -> Iterator[tuple[str, MetadataRecord]]:
        visible = visible_files(self.snapshot)
        partitions = {files_key(path): ListedFile(0) for path in visible}
        yield PARTITION_LIST_KEY, FileList(partitions, lists_partitions=True)
        for path, files in visible.items():
            yield files_key(path), FileList({name: ListedFile(size) for name, size in files.items()})

    def _statistics_of_live(self, part: Part) -> dict[FileSlice, dict[str, ColumnStatistics]]:
        """The statistics of a base file that is live and has records; none of another one."""
        live = self.snapshot.slices.get(part.of.group)
        if not part.rows or live is None or live.base != part.of.base:
            return {}
        records = map(decode_record, part.cells["value"].to_pylist())
        statistics = [one for one in records if isinstance(one, ColumnStatistics)]
        return {part.of: {one.column: one for one in statistics if one.column is not None}}

    def _add_merged(
        self,
        path: str,
        statistics: Mapping[FileSlice, Mapping[str, ColumnStatistics]],
        sorters: Mapping[str, CellSorter],
    ) -> None:
        """Add the statistics of a partition of the table, from those of its live base files with records."""
        # What log files say may lie outside of the bounds of base files.
        if not statistics or any(one.logs for one in self.snapshot.slices.of_partitions([path])):
            return
        merged = merged_over_files(path, [*statistics.values()], self.columns.names)
        keyed = {partition_stats_key(column, path): found for column, found in merged.items()}
        self._share_out(PartitionKind.PARTITION_STATS, record_cells(keyed), sorters)

    def _share_out(
        self, partition: str, cells: pa.RecordBatch, sorters: Mapping[str, CellSorter], path: str | None = None
    ) -> None:
        """Give each file group its cells.

        Args:
            partition: of the metadata table.
            cells: batch of ``CELLS``.
            sorters: by partition.
            path: of the partition of the table that they are of.
        """
        groups, sorter = self._file_ids[partition], sorters[partition]
        file_ids = groups[path if path in groups else None]
        if len(file_ids) == 1:
            sorter.add(file_ids[0], cells)
            return
        chosen = pa.array(placed_groups(partition, cells["key"], len(file_ids)))
        for number, name in enumerate(file_ids):
            sorter.add(name, cells.filter(pc.equal(chosen, number)))


def _visible_base_files(snapshot: Snapshot) -> Iterator[FileSlice]:
    """The base files that count, older versions included, each as a slice."""
    for version in snapshot.slices.all_versions():
        if version.base is not None and may_count(version, snapshot.timeline):
            yield version.without_logs()


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
