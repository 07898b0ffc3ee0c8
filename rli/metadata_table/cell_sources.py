"""Where the cells of new partitions of the metadata table come from: each source reads file slices, one after the other.

What a source reads of a slice depends on the files of the slice, on the table's definition and on the source's own description
alone. So it can be kept, and used again by a build that begins later.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from typing import Final, NamedTuple, Protocol

import pyarrow as pa

from rli.errors import UnsupportedTableError
from rli.hudi.hfile.cells import CELLS, NO_CELLS
from rli.hudi.metadata.index_definitions import IndexDefinition
from rli.hudi.metadata.keys import bloom_filter_key, column_stats_key
from rli.hudi.metadata.partitions import PartitionKind
from rli.hudi.metadata.record_codec import encode_record
from rli.hudi.metadata.record_index import location_cells
from rli.hudi.metadata.records import MetadataRecord, RecordLocation
from rli.metadata_table.base_file_records import BaseFileRecords, base_file_records
from rli.metadata_table.expression_entries import kept_expressions
from rli.metadata_table.indexed_columns import IndexedColumns
from rli.metadata_table.secondary_entries import SecondaryEntries
from rli.storage import Storage
from rli.tasks import InThreads
from rli.view.file_slices import FileSlice
from rli.view.shards import size_of_slice
from rli.view.snapshot import Snapshot

FROM_FOOTERS: Final = frozenset(
    {PartitionKind.COLUMN_STATS, PartitionKind.PARTITION_STATS, PartitionKind.BLOOM_FILTERS}
)

_FOOTERS: Final = "footers"
_FOOTERS_AT_ONCE: Final = 512

_FIRST_FOOTERS: Final = 16
"""Of which size the bloom filters are is known only behind them; one of Hudi has some 430 KB, the largest 45 MB."""

_FILTER_BYTES_AT_ONCE: Final = 32 << 20
_GROWTH_OF_LOTS: Final = 2

_BYTES_OF_FOOTER: Final = 128 << 10
"""As which a base file counts whose footer alone is read."""


class Part(NamedTuple):
    """Cells of one file slice for one partition of the metadata table.

    Attributes:
        of: the slice.
        partition: of the metadata table.
        cells: batch of ``CELLS``.
        rows: records of the slice that no other part of it has told of.
    """

    of: FileSlice
    partition: str
    cells: pa.RecordBatch
    rows: int


class CellSource(Protocol):
    """Reads cells of file slices. Picklable."""

    @property
    def snapshot(self) -> Snapshot:
        """The state of the table whose files are read."""
        ...

    @property
    def name(self) -> str:
        """Tells the source from others that build at the same time: ``source_of`` one of its partitions."""
        ...

    @property
    def description(self) -> str:
        """What its cells depend on, beside the files and the definition of the table."""
        ...

    def size_of(self, file_slice: FileSlice) -> int:
        """As how many bytes a slice counts in a shard."""
        ...

    def read(self, slices: Sequence[FileSlice]) -> Iterator[Part]:
        """The cells of some slices, in their order.

        Raises:
            CorruptTableError: a file is missing or damaged.
            UnsupportedTableError: as the source says.
        """
        ...


def path_of_base(file_slice: FileSlice) -> str:
    """The path of the base file of a slice; raises ``ValueError`` if it has none."""
    if file_slice.base is None:
        raise ValueError(f"a slice without a base file has no footer: group={file_slice.group}")
    return file_slice.base.path


def source_of(partition: str) -> str:
    """Name of the source that reads the cells of a partition of the metadata table.

    Example:
        >>> source_of("bloom_filters"), source_of("secondary_index_by_email")
        ('footers', 'secondary_index_by_email')
    """
    return _FOOTERS if partition in FROM_FOOTERS else partition


@dataclass(frozen=True, slots=True)
class FromFooters:
    """Statistics of columns and bloom filters, from the footers of base files.

    Attributes:
        snapshot: as that of ``CellSource``.
        columns: that have statistics; none if nobody wants any.
        has_filters: whether bloom filters are wanted.
    """

    snapshot: Snapshot
    columns: IndexedColumns
    has_filters: bool

    @property
    def name(self) -> str:
        return _FOOTERS

    @property
    def description(self) -> str:
        return json.dumps([self.columns.names, self.columns.version, self.has_filters])

    def size_of(self, file_slice: FileSlice) -> int:  # noqa: ARG002  (other sources read more of it)
        return _BYTES_OF_FOOTER

    def read(self, slices: Sequence[FileSlice]) -> Iterator[Part]:
        task = partial(_read_footer, self.snapshot.table.storage, self.columns, has_filter=self.has_filters)
        count, largest, coming = _FIRST_FOOTERS if self.has_filters else _FOOTERS_AT_ONCE, 1, iter(slices)
        while lot := [*islice(coming, count)]:
            for file_slice, found in zip(lot, InThreads().run(task, lot), strict=True):
                largest = max(largest, _bytes_of_filter(found))
                yield from _of_footer(file_slice, found)
            # The next files may have larger filters than all before.
            count = min(max(_FILTER_BYTES_AT_ONCE // largest, 1), _FOOTERS_AT_ONCE, _GROWTH_OF_LOTS * count)


@dataclass(frozen=True, slots=True)
class FromKeys:
    """The entries of a record index, from the record keys of file slices.

    Attributes:
        snapshot: as that of ``CellSource``.
    """

    snapshot: Snapshot

    @property
    def name(self) -> str:
        return PartitionKind.RECORD_INDEX

    @property
    def description(self) -> str:
        return ""

    def size_of(self, file_slice: FileSlice) -> int:
        return size_of_slice(file_slice)

    def read(self, slices: Sequence[FileSlice]) -> Iterator[Part]:
        for one in slices:
            location = RecordLocation(one.group.partition_path, one.group.file_id, one.instant)
            for keys in self.snapshot.record_keys(one):
                try:
                    cells = location_cells(keys, [location])
                except ValueError as error:
                    raise UnsupportedTableError(
                        f"a record index cannot name an instant that is no time: instant={one.instant}",
                        remedy="cluster the table first, so that all its files are of later instants",
                    ) from error
                yield Part(one, self.name, cells, len(cells))


@dataclass(frozen=True, slots=True)
class FromColumn:
    """The entries of a secondary index, from a column of file slices.

    Attributes:
        snapshot: as that of ``CellSource``.
        partition: of the metadata table.
        column: that is indexed.
    """

    snapshot: Snapshot
    partition: str
    column: str

    @property
    def name(self) -> str:
        return self.partition

    @property
    def description(self) -> str:
        return json.dumps([self.partition, self.column])

    def size_of(self, file_slice: FileSlice) -> int:
        return size_of_slice(file_slice)

    def read(self, slices: Sequence[FileSlice]) -> Iterator[Part]:
        schema = self.snapshot.schema or pa.schema([])
        entries = SecondaryEntries(self.partition, self.column, self.snapshot, schema)
        for one, cells in zip(slices, entries.cells_of(slices), strict=True):
            yield Part(one, self.partition, cells, len(cells))


@dataclass(frozen=True, slots=True)
class FromExpression:
    """What an index on an expression keeps of base files.

    Attributes:
        snapshot: as that of ``CellSource``.
        definition: of the index.
    """

    snapshot: Snapshot
    definition: IndexDefinition

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def description(self) -> str:
        return json.dumps(asdict(self.definition), sort_keys=True, default=dict)

    def size_of(self, file_slice: FileSlice) -> int:
        return size_of_slice(file_slice)

    def read(self, slices: Sequence[FileSlice]) -> Iterator[Part]:
        definitions = {self.name: self.definition}
        for entries in kept_expressions(definitions, definitions, self.snapshot, self.snapshot.schema).values():
            for one, cells in zip(slices, entries.cells_of(slices), strict=True):
                yield Part(one, self.name, cells, 0)


def _read_footer(
    storage: Storage, columns: IndexedColumns, file_slice: FileSlice, *, has_filter: bool
) -> BaseFileRecords:
    """What the base file of a slice tells."""
    found = base_file_records(storage, path_of_base(file_slice), columns)
    return found if has_filter else BaseFileRecords(found.statistics, None, found.rows)


def _bytes_of_filter(records: BaseFileRecords) -> int:
    return 0 if records.bloom_filter is None else len(records.bloom_filter.content)


def _of_footer(file_slice: FileSlice, found: BaseFileRecords) -> Iterator[Part]:
    path, name = file_slice.group.partition_path, posixpath.basename(path_of_base(file_slice))
    statistics = {column_stats_key(column, path, name): one for column, one in found.statistics.items()}
    # Also without any statistics: then its partition of the table has none either.
    yield Part(file_slice, PartitionKind.COLUMN_STATS, record_cells(statistics), found.rows)
    if found.bloom_filter is not None:
        cells = record_cells({bloom_filter_key(path, name): found.bloom_filter})
        yield Part(file_slice, PartitionKind.BLOOM_FILTERS, cells, 0)


def record_cells(records: Mapping[str, MetadataRecord]) -> pa.RecordBatch:
    """Records by their keys as a batch of ``CELLS``."""
    if not records:
        return NO_CELLS
    rows = [(key.encode(), encode_record(record)) for key, record in records.items()]
    return pa.record_batch([list(column) for column in zip(*rows, strict=True)], schema=CELLS)
