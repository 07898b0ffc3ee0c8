"""Does the metadata table say what the table's folders, footers and keys say? Contents are compared, not counts alone."""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from rli.filters.predicates import Column
from rli.hudi.file_names import is_log_file
from rli.hudi.footer_bounds import leaf_places
from rli.hudi.metadata.index_definitions import IndexDefinition, load_index_definitions
from rli.hudi.metadata.partitions import PartitionKind
from rli.hudi.metadata.reader import MetadataTableReader
from rli.hudi.metadata.record_codec import decode_record
from rli.hudi.metadata.records import Bound, ColumnStatistics, MetadataRecord
from rli.hudi.metadata.statistic_values import bound_value
from rli.hudi.metadata.views import (
    DataFile,
    all_files,
    bloom_filters,
    column_statistics,
    partition_paths,
    partition_statistics,
    record_locations,
    sizes_by_partition,
)
from rli.metadata_table.base_file_records import BaseFileRecords, base_file_records
from rli.metadata_table.expression_check import is_ours, what_is_wrong
from rli.metadata_table.expression_entries import kept_expressions
from rli.metadata_table.indexed_columns import IndexedColumns, leaf_of
from rli.metadata_table.initial_records import visible_files
from rli.metadata_table.partition_statistics import merged_over_files
from rli.metadata_table.record_index_sums import RecordIndexSums
from rli.metadata_table.secondary_entries import kept_entries
from rli.model import FileGroupId
from rli.view.file_slices import FileSlice
from rli.view.snapshot import Snapshot


class Fault(StrEnum):
    """How a record of the metadata table differs from the table."""

    ABSENT = "absent"
    """Of files and of the record index this loses rows; of statistics and filters it costs time."""
    WRONG = "wrong"
    """It says something else than the table: readers may lose rows."""
    WIDE = "wide"
    """Statistics of more values than the table has: readers lose no row. Hudi counts files in that it has just replaced."""
    SURPLUS = "surplus"
    """It is of something that the table has not."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One record that differs.

    Attributes:
        partition: of the metadata table.
        item: what the record is of: a file, a column of a file or partition, a record key.
        fault: how it differs.
        details: what the table says, and what the metadata table says.
    """

    partition: str
    item: str
    fault: Fault
    details: str = ""


class Verification:
    """Compares the metadata table with the table it describes.

    Args:
        snapshot: state of the table; no writer is at work, or the answer may name what has just changed.
        reader: of the metadata table, for the same timeline.

    Example:
        >>> [*Verification(snapshot, reader).differences()]  # doctest: +SKIP
        []
    """

    def __init__(self, snapshot: Snapshot, reader: MetadataTableReader) -> None:
        self._snapshot = snapshot
        self._reader = reader
        self._records: dict[DataFile, BaseFileRecords] = {}

    def differences(self) -> Iterator[Difference]:
        """The differences in the partitions that readers rely on, partition by partition; kinds that rli does not keep pass.

        Raises:
            CorruptTableError: a base file or a file of the metadata table is damaged.
            UnsupportedTableError: the metadata table has a form that rli does not read.
        """
        checks = {
            PartitionKind.FILES: self._files,
            PartitionKind.COLUMN_STATS: self._column_statistics,
            PartitionKind.PARTITION_STATS: self._partition_statistics,
            PartitionKind.BLOOM_FILTERS: self._bloom_filters,
            PartitionKind.RECORD_INDEX: self._record_index,
        }
        for kind, check in checks.items():
            if kind in self._reader.partitions:
                yield from check()
        yield from self._secondary_indexes()
        yield from self._indexes_on_expressions()

    @cached_property
    def _stored(self) -> dict[str, dict[str, int]]:
        """Partition path → visible data files of the folders → bytes."""
        return visible_files(self._snapshot)

    @cached_property
    def _definitions(self) -> Mapping[str, IndexDefinition]:
        table = self._snapshot.table
        return load_index_definitions(table.storage, table.properties)

    @cached_property
    def _columns(self) -> IndexedColumns:
        return IndexedColumns.of(self._definitions, self._snapshot.schema or pa.schema([]))

    def _of_file(self, file: DataFile) -> BaseFileRecords:
        if file not in self._records:
            storage = self._snapshot.table.storage
            self._records[file] = base_file_records(storage, posixpath.join(*file), self._columns)
        return self._records[file]

    def _base_files(self) -> list[DataFile]:
        """Log files have no statistics that rli compares, and no filters."""
        return [(path, name) for path, files in self._stored.items() for name in files if not is_log_file(name)]

    def _files(self) -> Iterator[Difference]:
        listed, partition = sizes_by_partition(all_files(self._reader)), PartitionKind.FILES
        for path in sorted(self._stored.keys() - {*partition_paths(self._reader)}):
            yield Difference(partition, path, Fault.ABSENT, "the list of partitions lacks it")
        for path in sorted(self._stored.keys() | listed.keys()):
            stored, known = self._stored.get(path, {}), listed.get(path, {})
            for name in sorted(stored.keys() | known.keys()):
                item, sizes = posixpath.join(path, name), f"bytes={stored.get(name)} listed={known.get(name)}"
                if name not in known:
                    yield Difference(partition, item, Fault.ABSENT, sizes)
                elif name not in stored:
                    yield Difference(partition, item, Fault.SURPLUS, sizes)
                elif stored[name] != known[name]:
                    yield Difference(partition, item, Fault.WRONG, sizes)

    def _column_statistics(self) -> Iterator[Difference]:
        files = self._base_files()
        kept = column_statistics(self._reader, self._columns.names, files)
        for file in files:
            item = posixpath.join(*file)
            yield from self._compared(PartitionKind.COLUMN_STATS, item, self._of_file(file).statistics, kept.get(file))

    def _partition_statistics(self) -> Iterator[Difference]:
        live: dict[str, list[Mapping[str, ColumnStatistics]]] = defaultdict(list)
        slices: dict[str, list[FileSlice]] = defaultdict(list)
        for file_slice in self._snapshot.slices.values():
            path = file_slice.group.partition_path
            slices[path].append(file_slice)
            if file_slice.base is not None:
                records = self._of_file((path, posixpath.basename(file_slice.base.path)))
                live[path] += [records.statistics] if records.rows else []
        kept = partition_statistics(self._reader, self._columns.names, slices)
        for path, own in slices.items():
            if any(file_slice.logs for file_slice in own):
                # Those of a partition with log files need not be tight.
                yield from self._outside(path, own, kept.get(path, {}))
            elif path in live:
                expected = merged_over_files(path, live[path], self._columns.names)
                yield from self._compared(PartitionKind.PARTITION_STATS, path, expected, kept.get(path))

    def _outside(
        self, path: str, slices: Iterable[FileSlice], kept: Mapping[str, ColumnStatistics]
    ) -> Iterator[Difference]:
        """The columns of a partition whose statistics some of its records contradict."""
        schema = self._snapshot.schema or pa.schema([])
        names = [name for name in kept if name in schema.names]
        wrong: set[str] = set()
        for file_slice in slices if names else ():
            with self._snapshot.reader(file_slice) as reader:
                for batch in reader.batches(pa.schema([schema.field(name) for name in names])):
                    columns = zip(names, batch.columns, strict=True)
                    wrong |= {name for name, values in columns if not _covers(kept[name], values)}
        for name in sorted(wrong):
            item, details = f"{path} column={name}", f"a record contradicts them; metadata table: {_shown(kept[name])}"
            yield Difference(PartitionKind.PARTITION_STATS, item, Fault.WRONG, details)

    def _compared(
        self,
        partition: str,
        item: str,
        expected: Mapping[str, ColumnStatistics],
        kept: Mapping[str, ColumnStatistics] | None,
    ) -> Iterator[Difference]:
        for column, true in expected.items():
            found, item_of_column = (kept or {}).get(column), f"{item} column={column}"
            if found is None:
                yield Difference(partition, item_of_column, Fault.ABSENT, f"table: {_shown(true)}")
            elif not _holds(found, true, self._kind(column)):
                fault = Fault.WIDE if _encloses(found, true, self._kind(column)) else Fault.WRONG
                details = f"table: {_shown(true)}; metadata table: {_shown(found)}"
                yield Difference(partition, item_of_column, fault, details)

    def _kind(self, column: str) -> pa.DataType:
        leaf = leaf_of(column, self._leaves)
        return pa.string() if leaf is None else self._leaves[leaf][1]

    @cached_property
    def _leaves(self) -> Mapping[Column, tuple[int, pa.DataType]]:
        return leaf_places(self._snapshot.schema or pa.schema([]))

    def _bloom_filters(self) -> Iterator[Difference]:
        files = self._base_files()
        kept = bloom_filters(self._reader, files)
        for file in files:
            of_footer, found = self._of_file(file).bloom_filter, kept.get(file)
            if of_footer is None:
                continue
            if found is None or (found.type_code, found.content) != (of_footer.type_code, of_footer.content):
                fault = Fault.ABSENT if found is None else Fault.WRONG
                yield Difference(PartitionKind.BLOOM_FILTERS, posixpath.join(*file), fault)

    def _record_index(self) -> Iterator[Difference]:
        partition, absent = PartitionKind.RECORD_INDEX, 0
        definition = self._definitions.get(partition)
        is_partitioned = definition is not None and definition.is_partitioned
        sums = RecordIndexSums()
        sums.add_entries(self._reader, is_partitioned=is_partitioned)
        for file_slice in self._snapshot.slices.values():
            for keys in self._snapshot.record_keys(file_slice):
                sums.take_away(file_slice.group, keys)
        for file_slice in self._snapshot.slices.values():
            group = file_slice.group
            if not sums.differ(group):
                continue
            for keys in self._snapshot.record_keys(file_slice):
                sought = sums.that_may_differ(group, keys)
                found = record_locations(self._reader, sought, group.partition_path if is_partitioned else None)
                absent += len(sought) - found.num_rows
                yield from _misplaced(sought, found, group)
        surplus = sums.entries - (sums.records - absent)
        # Keys are distinct: each record has one entry or none, and these are left.
        if surplus > 0:
            yield Difference(partition, "entries without a record", Fault.SURPLUS, f"entries={surplus}")
        elif surplus:
            yield Difference(partition, "records with a key of other records", Fault.WRONG, f"records={-surplus}")

    def _secondary_indexes(self) -> Iterator[Difference]:
        # An entry without a record costs time alone, and undoing a commit may leave some.
        snapshot = self._snapshot
        found = kept_entries(self._reader.partitions, self._definitions, snapshot, snapshot.schema)
        for partition, entries in found.items():
            for file_slice in snapshot.slices.values():
                keys = entries.of_slice(file_slice)
                known = self._reader.lookup(partition, keys)["key"]
                for key in keys.filter(pc.invert(pc.is_in(keys.cast(pa.binary()), value_set=known))).to_pylist():
                    yield Difference(partition, key, Fault.ABSENT, f"table={file_slice.group}")

    def _indexes_on_expressions(self) -> Iterator[Difference]:
        # A file of which nothing is kept is read.
        snapshot = self._snapshot
        found = kept_expressions(self._reader.partitions, self._definitions, snapshot, snapshot.schema)
        for partition, entries in found.items():
            slices = [one for one in snapshot.slices.values() if one.base is not None]
            for file_slice, expected in zip(slices, entries.cells_of(slices), strict=True):
                kept = self._reader.lookup(partition, expected["key"])
                for value, true in zip(kept["value"].to_pylist(), expected["value"].to_pylist(), strict=False):
                    stored, record = decode_record(value), decode_record(true)
                    if is_ours(stored) and (said := what_is_wrong(stored, record, entries.values, file_slice)):
                        yield Difference(partition, _name_of(record), Fault.WRONG, said)


def _name_of(record: MetadataRecord) -> str:
    return (record.file_name or "") if isinstance(record, ColumnStatistics) else "bloom filter"


def _misplaced(keys: pa.Array, found: pa.RecordBatch, group: FileGroupId) -> Iterator[Difference]:
    """Record keys of a file group whose entries are missing or name another place."""
    known = found["record_key"]
    for key in keys.filter(pc.invert(pc.is_in(keys, value_set=known))).to_pylist():
        yield Difference(PartitionKind.RECORD_INDEX, key, Fault.ABSENT, f"table={group}")
    named = [found[name].cast(pa.string()) for name in ("partition_path", "file_id")]
    is_right = pc.and_(*(pc.equal(part, of_group) for part, of_group in zip(named, group, strict=True)))
    for row in pa.table([known, *named], ["key", "path", "file_id"]).filter(pc.invert(is_right)).to_pylist():
        details = f"table={group} metadata={FileGroupId(row['path'], row['file_id'])}"
        yield Difference(PartitionKind.RECORD_INDEX, row["key"], Fault.WRONG, details)


def _covers(statistics: ColumnStatistics, values: pa.ChunkedArray) -> bool:
    """Whether statistics say nothing that values contradict; NaN lies outside of all bounds, as readers know."""
    kind = values.type
    if statistics.null_count == 0 and values.null_count:
        return False
    present = values.drop_null()
    if pa.types.is_floating(kind):
        present = present.filter(pc.invert(pc.is_nan(present)))
    if not len(present):
        return True
    if statistics.minimum is None and statistics.maximum is None:
        # Nulls alone, or nothing that readers use.
        return statistics.is_unknown or statistics.null_count != statistics.value_count
    ends = pc.min_max(present)
    return _reaches(statistics, ends["min"], ends["max"])


def _reaches(statistics: ColumnStatistics, low: pa.Scalar, high: pa.Scalar) -> bool:
    """Whether two values lie within the bounds of statistics; a bound that readers do not use excludes none."""
    least, greatest = (
        bound_value(end, statistics.value_type, low.type) for end in (statistics.minimum, statistics.maximum)
    )
    is_below = least is not None and pc.less(low, least).as_py()
    return not is_below and (greatest is None or not pc.greater(high, greatest).as_py())


def _encloses(found: ColumnStatistics, true: ColumnStatistics, kind: pa.DataType) -> bool:
    """Whether statistics that are not exact speak of all values that the table has, and of more."""
    more, least_needed = _values_and_nulls(found), _values_and_nulls(true)
    if not _is_of_same(found, true) or more is None or least_needed is None:
        return False
    if any(one < needed for one, needed in zip(more, least_needed, strict=True)):
        return False
    if true.null_count == true.value_count:
        return True
    low, high = (bound_value(end, true.value_type, kind) for end in (true.minimum, true.maximum))
    has_both = None not in (found.minimum, found.maximum, low, high)
    return has_both and _reaches(found, low, high)


def _shown(statistics: ColumnStatistics) -> str:
    minimum, maximum = (None if end is None else end.value for end in (statistics.minimum, statistics.maximum))
    return f"minimum={minimum!r} maximum={maximum!r} values={statistics.value_count} nulls={statistics.null_count}"


def _values_and_nulls(statistics: ColumnStatistics) -> tuple[int, int] | None:
    """How many values are not null, and how many are; None if this is not known."""
    values, nulls = statistics.value_count, statistics.null_count
    return None if values is None or nulls is None else (values - nulls, nulls)


def _is_of_same(found: ColumnStatistics, true: ColumnStatistics) -> bool:
    return (found.file_name, found.column) == (true.file_name, true.column)


def _holds(found: ColumnStatistics, true: ColumnStatistics, kind: pa.DataType) -> bool:
    """Whether statistics say what is true; releases of Hudi wrap some values differently."""
    if not _is_of_same(found, true):
        return False
    if (found.value_count, found.null_count) != (true.value_count, true.null_count):
        return False
    if true.null_count == true.value_count:
        # Of nulls alone Hudi may keep bounds: those of booleans by a footer without any.
        return True
    pairs = ((found.minimum, true.minimum), (found.maximum, true.maximum))
    return all(one == other or _is_same(found, one, true, other, kind) for one, other in pairs)


def _is_same(
    found: ColumnStatistics, bound: Bound | None, true: ColumnStatistics, other: Bound | None, kind: pa.DataType
) -> bool:
    if bound is None or other is None:
        return False
    value, expected = bound_value(bound, found.value_type, kind), bound_value(other, true.value_type, kind)
    # Readers do not use a bound that has no value, such as decimals of Hudi 0.15.
    return value is None or (expected is not None and value.equals(expected))
