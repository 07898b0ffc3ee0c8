"""What an index on an expression keeps of base files: bounds of the values, or a bloom filter of them.

A base file never changes, and neither does what is kept of it. A file of which nothing is kept is read by everybody. So nothing is
kept wherever there is a doubt:

- the expression cannot be computed for a record, or one of its values is NaN;
- Hudi reads the index, and Java would compute another value for a record.

Of log files nothing is kept: readers read each file group that has some. Hudi keeps bounds of partitions, too, by which it leaves
partitions out for filters on the column itself. rli keeps none, and removes those that a commit makes wrong.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from rli.column_index.expressions import OUR_FILTERS, IndexedExpression, indexed_expressions
from rli.column_index.trust import stored_type
from rli.errors import InvalidInputError
from rli.hudi.bloom_filter import FALSE_POSITIVE_RATE, BloomFilter
from rli.hudi.hfile.cells import CELLS
from rli.hudi.metadata.index_definitions import IndexDefinition
from rli.hudi.metadata.keys import expression_partition_key
from rli.hudi.metadata.partitions import is_own
from rli.hudi.metadata.record_codec import encode_record
from rli.hudi.metadata.records import Bound, ColumnStatistics, MetadataRecord, StoredBloomFilter
from rli.hudi.metadata.secondary_keys import index_form
from rli.hudi.metadata.statistic_values import StatisticsVersion, stored_bound, value_type_of
from rli.hudi.metadata.views import DataFile as NamedFile
from rli.metadata_table.expression_values import ExpressionValues
from rli.metadata_table.former_filters import FormerFilter, FormerFilters
from rli.metadata_table.partition_change import PartitionChange
from rli.model import FileGroupId
from rli.tasks import InThreads
from rli.view.file_slices import FileSlice
from rli.view.snapshot import Snapshot
from rli.view.table_change import TableChange
from rli.view.written_slices import written_slice

_JAVA_INTEGERS: Final = frozenset({"year", "month", "day", "hour", "length"})
"""Functions whose values are integers of 32 bits in Java."""

_LONGEST: Final = 1_000
"""Of strings as bounds, in characters."""


@dataclass(frozen=True, slots=True)
class ExpressionEntries:
    """What one index on an expression keeps.

    Attributes:
        values: computes those of the expression.
    """

    values: ExpressionValues

    @property
    def index(self) -> IndexedExpression:
        """The index."""
        return self.values.index

    def cells_of(self, slices: Iterable[FileSlice]) -> Iterator[pa.RecordBatch]:
        """Cells of the base files of some slices: batches of ``CELLS``, one for each slice with a base file."""
        files = [(one.without_logs(), one.base.path) for one in slices if one.base is not None]
        yield from map(_as_cells, InThreads().run(self._of_file, files))

    def of_write(
        self, instant: str, change: TableChange, touched: Collection[str], former: FormerFilters
    ) -> PartitionChange:
        """What a write means whose files are not in the table yet.

        Args:
            instant: of the write.
            change: of the table.
            touched: partitions of the table whose records change.
            former: what is known of the files that it replaces.
        """
        written = [(written_slice(instant, stat), stat.path) for stat in change.written]
        found = InThreads().run(partial(self._of_next_file, former.of_index(self.index)), written)
        put = {key: record for records in found for key, record in records.items()}
        return PartitionChange.of_records(self.index.partition, put, self._of_partitions(touched))

    def of_service(self, gone: Iterable[NamedFile], touched: Collection[str]) -> PartitionChange:
        """What a table service means.

        Args:
            gone: files that it removes.
            touched: as for ``of_write``.
        """
        removed = [self.index.key_of(file) for file in gone]
        return PartitionChange.of_records(self.index.partition, {}, [*removed, *self._of_partitions(touched)])

    def _of_partitions(self, touched: Collection[str]) -> list[str]:
        """The keys of what Hudi keeps of partitions: it holds no longer."""
        if is_own(self.index.partition) or self.index.has_filters:
            return []
        return [expression_partition_key(self.index.column, path) for path in touched]

    def _of_next_file(
        self, former: Mapping[FileGroupId, FormerFilter], file: tuple[FileSlice, str]
    ) -> dict[str, MetadataRecord]:
        """As ``_of_file``, of a file that may replace one whose filter is known."""
        file_slice, name = file[0], posixpath.basename(file[1])
        known = former.get(file_slice.group)
        if known is None:
            return self._of_file(file)
        try:
            values = self.values.of_records(known.after.select([self.index.column]), file_slice)
        except InvalidInputError:
            return {}
        keys = index_form(values.combine_chunks()).drop_null().unique()
        if not known.takes(len(keys)):
            return self._of_file(file)
        known.filter.add(keys)
        return {self.index.key_of((file_slice.group.partition_path, name)): _stored(known.filter, file_slice)}

    def _of_file(self, file: tuple[FileSlice, str]) -> dict[str, MetadataRecord]:
        """What is kept of the base file of a slice, by its key; nothing in case of doubt.

        Args:
            file: the slice, and the path of its base file in the table.
        """
        file_slice, name = file[0], posixpath.basename(file[1])
        try:
            record = self._filter_of(file_slice) if self.index.has_filters else self._bounds_of(file_slice, name)
        except InvalidInputError:
            return {}
        key = self.index.key_of((file_slice.group.partition_path, name))
        return {} if record is None else {key: record}

    def _bounds_of(self, file_slice: FileSlice, name: str) -> ColumnStatistics | None:
        ends, rows, nulls, has_nan = [], 0, 0, False
        for values in self.values.of_slice(file_slice):
            rows, nulls = rows + len(values), nulls + values.null_count
            has_nan = has_nan or (pa.types.is_floating(values.type) and bool(pc.any(pc.is_nan(values)).as_py()))
            ends += pc.min_max(values).values()
        if not rows or has_nan:
            return None
        # Python has no dates of all years that a file can hold.
        found = pc.min_max(pa.chunked_array([pa.repeat(end, 1) for end in ends], self.index.value.kind))
        least, greatest = (self._bound(found[end]) for end in ("min", "max"))
        if rows > nulls and (least is None or greatest is None):
            return None
        size = file_slice.size
        value_type = value_type_of(self._stored) if self._version is StatisticsVersion.V2 else None
        return ColumnStatistics(name, self.index.column, least, greatest, rows, nulls, size, size, value_type)

    @property
    def _stored(self) -> pa.DataType:
        return pa.int32() if self.values.function in _JAVA_INTEGERS else stored_type(self.index.value.kind)

    def _bound(self, end: pa.Scalar) -> Bound | None:
        """A bound as the index stores it; None for null, and where it cannot be stored."""
        if not end.is_valid or (pa.types.is_string(end.type) and len(end.as_py()) > _LONGEST):
            return None
        kind = stored_type(end.type)
        value = end if kind == end.type else pa.array([end.value], kind)[0]
        return stored_bound(value.cast(self._stored), self._version)

    @property
    def _version(self) -> StatisticsVersion:
        return StatisticsVersion.V2 if self.values.snapshot.table.properties.version >= 9 else StatisticsVersion.V1

    def _filter_of(self, file_slice: FileSlice) -> StoredBloomFilter | None:
        parts = [index_form(values.combine_chunks()).unique() for values in self.values.of_slice(file_slice)]
        if not parts:
            return None
        keys = pa.concat_arrays(parts).drop_null().unique()
        found = BloomFilter.create(len(keys), FALSE_POSITIVE_RATE)
        found.add(keys)
        return _stored(found, file_slice)


def why_expression_not_kept(definition: IndexDefinition | None, schema: pa.Schema | None) -> str:
    """Why rli does not keep an index on an expression with the records of a schema; "" if it does."""
    if schema is None or IndexedExpression.of(definition, schema) is not None:
        return ""
    return "rli has no such expression over the columns of the table, or the type of its values has changed"


def kept_expressions(
    kept: Iterable[str], definitions: Mapping[str, IndexDefinition], snapshot: Snapshot, schema: pa.Schema | None
) -> dict[str, ExpressionEntries]:
    """The indexes on expressions among some partitions of the metadata table; none of a table without records."""
    if schema is None:
        return {}
    found = indexed_expressions(kept, definitions, schema)
    return {
        one.partition: ExpressionEntries(ExpressionValues(one, definitions[one.partition].function, snapshot, schema))
        for one in found
    }


def _stored(bloom_filter: BloomFilter, file_slice: FileSlice) -> StoredBloomFilter:
    return StoredBloomFilter(OUR_FILTERS, file_slice.instant, bloom_filter.to_simple())


def _as_cells(records: Mapping[str, MetadataRecord]) -> pa.RecordBatch:
    keys = pa.array(records, pa.string()).cast(pa.binary())
    values = pa.array([encode_record(record) for record in records.values()], pa.binary())
    return pa.record_batch([keys, values], schema=CELLS)
