"""Bounds of columns in files and partitions, from the statistics of the metadata table."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from rli.column_index.trust import bounds_of_files, bounds_of_partitions, is_trusted
from rli.filters.column_bounds import ColumnBounds
from rli.filters.predicates import Column, Predicate, columns_of
from rli.filters.pruning import may_match
from rli.hudi.meta_columns import COMMIT_TIME
from rli.hudi.metadata.reader import MetadataTableReader
from rli.hudi.metadata.views import DataFile, partition_statistics_by_column, statistics_by_column


def columns_with_statistics(predicate: Predicate, schema: pa.Schema) -> tuple[str, ...]:
    """The columns of a predicate whose statistics may prove something; ``schema`` is that of the table's records."""
    names = dict.fromkeys(column[0] for column in columns_of(predicate) if len(column) == 1)
    return tuple(name for name in names if schema.names.count(name) == 1 and is_trusted(schema.field(name).type))


def files_that_may_match(
    reader: MetadataTableReader, predicate: Predicate, schema: pa.Schema, files: Sequence[DataFile]
) -> list[bool]:
    """Whether each of some files may hold a record for which a predicate is true, told by column statistics.

    Raises:
        CorruptTableError: the metadata table is damaged.
    """
    found = statistics_by_column(reader, columns_with_statistics(predicate, schema), files)
    bounds = {name: bounds_of_files(one, schema.field(name).type) for name, one in found.items()}
    return may_match(predicate, ByColumn(len(files), bounds)).tolist()


def partitions_that_may_match(
    reader: MetadataTableReader,
    predicate: Predicate,
    schema: pa.Schema,
    partitions: Sequence[str],
    kept: Collection[str],
) -> list[str]:
    """Those of some partitions of the table that may hold such a record, told by partition statistics.

    Args:
        reader: of the metadata table.
        predicate: of the filter.
        schema: of the table's records.
        partitions: partition paths.
        kept: columns whose statistics commits keep; none for all. Hudi leaves those of other columns as they once were.

    Raises:
        CorruptTableError: the metadata table is damaged.
    """
    columns = [name for name in columns_with_statistics(predicate, schema) if not kept or name in kept]
    found = partition_statistics_by_column(reader, {*columns, COMMIT_TIME}, partitions)
    # Every file has statistics of this column, and no null in it.
    of_all = found[COMMIT_TIME]
    bounds = {name: bounds_of_partitions(found[name], of_all, schema.field(name).type) for name in columns}
    keep = may_match(predicate, ByColumn(len(partitions), bounds))
    return [path for path, is_kept in zip(partitions, keep, strict=True) if is_kept]


@dataclass(frozen=True, slots=True)
class ByColumn:
    """The bounds of columns in some files or partitions.

    Attributes:
        units: how many there are.
        bounds: by column.
    """

    units: int
    bounds: Mapping[str, ColumnBounds]

    def of(self, column: Column) -> ColumnBounds | None:
        name, *inside = column
        return None if inside else self.bounds.get(name)
