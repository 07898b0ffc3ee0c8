"""Bounds of columns in files and partitions, from the statistics of the metadata table."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from rli.column_index.trust import NOTHING, Proven, is_trusted, proven_of_file, proven_of_partition
from rli.filters.column_bounds import ColumnBounds, bound_type
from rli.filters.predicates import Column, Predicate, columns_of
from rli.filters.pruning import may_match
from rli.hudi.meta_columns import COMMIT_TIME
from rli.hudi.metadata.reader import MetadataTableReader
from rli.hudi.metadata.views import DataFile, column_statistics, partition_statistics


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
    columns = columns_with_statistics(predicate, schema)
    found = column_statistics(reader, columns, files)
    proven = [
        {name: proven_of_file(one, schema.field(name).type) for name, one in found[file].items()}
        if file in found
        else {}
        for file in files
    ]
    return may_match(predicate, _ProvenBounds(schema, proven)).tolist()


def partitions_that_may_match(
    reader: MetadataTableReader, predicate: Predicate, schema: pa.Schema, partitions: Collection[str]
) -> list[str]:
    """Those of some partitions of the table that may hold such a record, told by partition statistics.

    Raises:
        CorruptTableError: the metadata table is damaged.
    """
    columns = columns_with_statistics(predicate, schema)
    found = partition_statistics(reader, {*columns, COMMIT_TIME}, partitions)
    proven = []
    for path in partitions:
        statistics = found.get(path, {})
        # Every file has statistics of this column, and no null in it.
        rows = statistics[COMMIT_TIME].value_count if COMMIT_TIME in statistics else None
        proven.append(
            {name: proven_of_partition(statistics.get(name), rows, schema.field(name).type) for name in columns}
        )
    keep = may_match(predicate, _ProvenBounds(schema, proven))
    return [path for path, is_kept in zip(partitions, keep, strict=True) if is_kept]


@dataclass(frozen=True, slots=True)
class _ProvenBounds:
    """The bounds of columns in some files or partitions.

    Attributes:
        schema: of the table's records.
        proven: of each unit, by column.
    """

    schema: pa.Schema
    proven: Sequence[Mapping[str, Proven]]

    @property
    def units(self) -> int:
        return len(self.proven)

    def of(self, column: Column) -> ColumnBounds | None:
        name, *inside = column
        if inside or not any(name in one for one in self.proven):
            return None
        kind = self.schema.field(name).type
        each = [one.get(name, NOTHING) for one in self.proven]
        return ColumnBounds(
            _bounds([one.least for one in each], kind),
            _bounds([one.greatest for one in each], kind),
            np.array([one.may_hold_null for one in each], np.bool_),
            np.ones(self.units, np.bool_),
        )


def _bounds(values: Sequence[pa.Scalar | None], kind: pa.DataType) -> pa.Array:
    return pa.array(values, kind).cast(bound_type(kind))
