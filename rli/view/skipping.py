"""Which file slices the metadata table proves to hold no record of a filter, without opening them."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from rli.column_index.expressions import about, files_that_expression_leaves
from rli.column_index.key_filters import files_that_may_hold
from rli.column_index.secondary import keys_with, sought_prefix, sought_values
from rli.column_index.statistics import columns_with_statistics, files_that_may_match, partitions_that_may_match
from rli.filters.filter import Filter
from rli.filters.named_values import named_strings, named_values
from rli.filters.predicates import Predicate
from rli.hudi.metadata.partitions import PartitionKind
from rli.hudi.metadata.reader import MetadataTableReader
from rli.hudi.metadata.views import DataFile
from rli.locations import KeysByGroup
from rli.model import FileGroupId
from rli.telemetry.index_uses import count_use
from rli.view.explanation import Narrowed, PruningStep
from rli.view.file_slice_reader import only_base_file
from rli.view.file_slices import FileSlice
from rli.view.table_metadata import TableMetadata

_FEW_PARTITIONS: Final = 64
_FEW_FILES: Final = 2
"""Files in each of many partitions: their statistics say more than those of the partitions, and take no longer to read."""


_Asked: TypeAlias = dict[str, int]
"""Place of an index that has answered → number of file slices that it has left out."""


class _Found(NamedTuple):
    """The records that a secondary index has found.

    Attributes:
        partition: of the index.
        record_keys: of the records.
    """

    partition: str
    record_keys: KeysByGroup


@dataclass(frozen=True, slots=True)
class Skipping:
    """Asks the partitions of the metadata table one after the other, each about the slices that are left.

    A file that a partition does not know, such as a file newer than the metadata table, is read. So is a slice with log
    files: the statistics of its base file do not cover the records of its log files.

    Attributes:
        metadata: of the state that is read.
        key_columns: names of the columns that have each record's key.
        is_of_base_files: whether only base files are read, although log files change their records.
        secondary: column → the partition of its secondary index. Such an index leaves out records of a key that is in several
            places, so there are none unless the keys are known to be unique.
    """

    metadata: TableMetadata
    key_columns: frozenset[str]
    is_of_base_files: bool = False
    secondary: Mapping[str, str] = field(default_factory=dict)

    def steps(
        self, passes: Filter, schema: pa.Schema, slices: Sequence[FileSlice], live: Sequence[FileSlice]
    ) -> Iterator[Narrowed]:
        """What each partition leaves that can be asked, in order; nothing is asked behind an index that names the records.

        Args:
            passes: the filter.
            schema: of the table's records, with meta columns.
            slices: some of the live slices.
            live: all of them.
        """
        asked: _Asked = {}
        predicate, expression = passes.predicate, passes.expression
        merged = [one for one in slices if one.logs]
        left = [one for one in slices if not one.logs] if merged else slices
        found = self._by_secondary_indexes(predicate, schema, {one.group for one in live}) if left else None
        if found is not None:
            holding = [one for one in left if one.group in found.record_keys]
            count_use(self.metadata.location, found.partition, len(left) - len(holding))
            # Of slices with log files, all records are read: another engine's entries of these may be incomplete.
            keys = {one.group: found.record_keys[one.group] for one in holding}
            yield Narrowed(PruningStep.SECONDARY_INDEX, [*holding, *merged], keys)
            return
        for step, narrow in (
            (PruningStep.PARTITION_STATS, partial(self._by_partition_statistics, asked, predicate, schema)),
            (PruningStep.COLUMN_STATS, partial(self._by_column_statistics, asked, predicate, schema)),
            (PruningStep.EXPRESSION_INDEX, partial(self._by_expressions, asked, expression, schema)),
            (PruningStep.BLOOM_FILTERS, partial(self._by_bloom_filters, asked, predicate)),
        ):
            kept = narrow(left) if left else None
            if kept is not None:
                left = kept
                yield Narrowed(step, [*left, *merged])
        for place, skipped in asked.items():
            count_use(self.metadata.location, place, skipped)

    def _by_secondary_indexes(
        self, predicate: Predicate, schema: pa.Schema, live: Collection[FileGroupId]
    ) -> _Found | None:
        # They describe the records of the present state.
        if self.metadata.is_of_the_past or self.is_of_base_files:
            return None
        for column, partition in self.secondary.items():
            named, kind = named_values(predicate, column), schema.field(column).type
            values = sought_prefix(predicate, column, kind) if named is None else sought_values(named, kind)
            if values is not None:
                found = self._keys_with(column, partition, values)
                # An entry of a file group that is gone does not tell where its record is now.
                if found is not None and found.keys() <= {*live}:
                    return _Found(partition, found)
        return None

    def _keys_with(self, column: str, partition: str, sought: pa.Array | str) -> KeysByGroup | None:
        def ask(reader: MetadataTableReader) -> KeysByGroup | None:
            asked = (partition, PartitionKind.RECORD_INDEX)
            if self.metadata.may_show_later(reader, asked):
                return None
            for name in asked:
                # A lost entry, or a lost file group, whose number places entries, would hide a record.
                reader.require_whole(name)
            # Asked when the files are listed: an index of the same name may have come with another column since the plan.
            is_of_column = self.metadata.indexed_column(partition) == column
            return keys_with(reader, partition, sought) if is_of_column else None

        return self.metadata.ask(partition, ask, beside=[PartitionKind.RECORD_INDEX])

    def _by_partition_statistics(
        self, asked: _Asked, predicate: Predicate, schema: pa.Schema, slices: Sequence[FileSlice]
    ) -> list[FileSlice] | None:
        # They describe the records of the present state, including the records of log files.
        describes_others = self.metadata.is_of_the_past or self.is_of_base_files
        if describes_others or self.metadata.was_upgraded or not columns_with_statistics(predicate, schema):
            return None
        paths = sorted({one.group.partition_path for one in slices})
        if len(paths) > _FEW_PARTITIONS and _FEW_FILES * len(paths) > len(slices) and self._has_statistics_of_files:
            return None

        def ask(reader: MetadataTableReader) -> list[str] | None:
            if self.metadata.may_show_later(reader, [PartitionKind.PARTITION_STATS]):
                return None
            return partitions_that_may_match(reader, predicate, schema, paths, self.metadata.columns_with_statistics())

        kept = self.metadata.ask(PartitionKind.PARTITION_STATS, ask)
        chosen = None if kept is None else [one for one in slices if one.group.partition_path in {*kept}]
        return _counted(asked, _statistics_places(predicate, schema), slices, chosen)

    @property
    def _has_statistics_of_files(self) -> bool:
        return PartitionKind.COLUMN_STATS in self.metadata.partitions

    def _by_column_statistics(
        self, asked: _Asked, predicate: Predicate, schema: pa.Schema, slices: Sequence[FileSlice]
    ) -> list[FileSlice] | None:
        if not columns_with_statistics(predicate, schema):
            return None
        files = _files(slices)
        kept = self.metadata.ask(
            PartitionKind.COLUMN_STATS, lambda reader: files_that_may_match(reader, predicate, schema, files)
        )
        return _counted(asked, _statistics_places(predicate, schema), slices, _chosen(slices, kept))

    def _by_expressions(
        self, asked: _Asked, expression: pc.Expression, schema: pa.Schema, slices: Sequence[FileSlice]
    ) -> list[FileSlice] | None:
        left: list[FileSlice] | None = None
        for index in self.metadata.indexed_expressions(schema):
            said = about(index, expression)
            if said is None:
                continue
            before = slices if left is None else left
            ask = partial(files_that_expression_leaves, index=index, predicate=said, files=_files(before))
            kept = _counted(asked, [index.partition], before, _chosen(before, self.metadata.ask(index.partition, ask)))
            left = left if kept is None else kept
        return left

    def _by_bloom_filters(
        self, asked: _Asked, predicate: Predicate, slices: Sequence[FileSlice]
    ) -> list[FileSlice] | None:
        keys = named_strings(predicate, self.key_columns)
        if keys is None:
            return None
        files = _files(slices)
        kept = self.metadata.ask(PartitionKind.BLOOM_FILTERS, lambda reader: files_that_may_hold(reader, keys, files))
        return _counted(asked, [PartitionKind.BLOOM_FILTERS], slices, _chosen(slices, kept))


def _statistics_places(predicate: Predicate, schema: pa.Schema) -> list[str]:
    return [f"{PartitionKind.COLUMN_STATS}/{column}" for column in columns_with_statistics(predicate, schema)]


def _counted(
    asked: _Asked, places: Sequence[str], slices: Sequence[FileSlice], kept: list[FileSlice] | None
) -> list[FileSlice] | None:
    """Note the slices that indexes have left out; returns ``kept``, None if the indexes did not answer."""
    if kept is not None:
        for place in places:
            asked[place] = asked.get(place, 0) + len(slices) - len(kept)
    return kept


def _files(slices: Sequence[FileSlice]) -> list[DataFile]:
    return [(one.group.partition_path, posixpath.basename(only_base_file(one).path)) for one in slices]


def _chosen(slices: Sequence[FileSlice], kept: Sequence[bool] | None) -> list[FileSlice] | None:
    return None if kept is None else [one for one, is_kept in zip(slices, kept, strict=True) if is_kept]
