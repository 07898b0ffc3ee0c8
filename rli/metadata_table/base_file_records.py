"""What the metadata table keeps of base files: statistics of columns, right or absent, and bloom filters.

Readers leave out a file by its statistics, and keep a file without any. So a column has no statistics for a file wherever
its Parquet footer leaves a doubt:

- the number of nulls is unknown in a row group, or its bounds are,
- a floating-point column holds NaN, which Parquet's bounds pass over while Spark takes it for the greatest value,
- a date or time lies before 1582-10-15 in a file whose writer counted such days by another calendar,
- the bounds have no exact form in the metadata table.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rli.filters.column_bounds import ColumnBounds
from rli.hudi.base_file_reader import corrupt_unless_parquet
from rli.hudi.base_file_writer import columns_with_nan
from rli.hudi.bloom_filter import FILTER_KEY, TYPE_KEY
from rli.hudi.file_names import BaseFileName
from rli.hudi.footer_bounds import FooterBounds, leaf_places
from rli.hudi.metadata.records import Bound, ColumnStatistics, StoredBloomFilter
from rli.hudi.metadata.statistic_values import StatisticsVersion, stored_bound, value_type_of
from rli.metadata_table.indexed_columns import IndexedColumns
from rli.storage import Storage

_GREGORIAN_START: Final = int(datetime(1582, 10, 15, tzinfo=UTC).timestamp())
_OLDEST_TYPE: Final = b"SIMPLE"
_OTHER_CALENDAR: Final = frozenset({b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96"})


@dataclass(frozen=True, slots=True)
class BaseFileRecords:
    """What the metadata table keeps of a base file, beside its name and size.

    Attributes:
        statistics: by column; columns without certain statistics are left out.
        bloom_filter: of the record keys, as the footer has it; None if it has none.
        rows: of the file.
    """

    statistics: Mapping[str, ColumnStatistics]
    bloom_filter: StoredBloomFilter | None
    rows: int


def base_file_records(
    storage: Storage, path: str, columns: IndexedColumns, stored_at: str | None = None
) -> BaseFileRecords:
    """Read what the metadata table keeps of a base file.

    The footer is enough. Where other writers made the file, floating-point columns are read as a whole, to look for NaN.

    Args:
        storage: of the table.
        path: of the base file, relative to the table.
        columns: those with statistics; columns that the file lacks, and nested ones, have none.
        stored_at: where the file is as long as its commit has not brought it to its path; None once it has.

    Raises:
        CorruptTableError: the file is missing or damaged, or has no name of a base file.
    """
    name = BaseFileName.parse(posixpath.basename(path))
    place = storage.full_path(stored_at or path)
    with corrupt_unless_parquet(path), storage.filesystem.open_input_file(place) as source:
        file = pq.ParquetFile(source)
        schema, statistics = file.schema_arrow, _footer_statistics(file.metadata, str(name), columns)
        holding_nan = columns_with_nan(file.metadata.metadata or {}, str(name))
        if holding_nan is None:
            floating = [name for name in statistics if pa.types.is_floating(schema.field(name).type)]
            holding_nan = _holding_nan(file, floating)
        certain = {column: found for column, found in statistics.items() if column not in holding_nan}
        return BaseFileRecords(certain, _bloom_filter(file.metadata, name.instant), file.metadata.num_rows)


def _bloom_filter(footer: pq.FileMetaData, instant: str) -> StoredBloomFilter | None:
    entries = footer.metadata or {}
    content = entries.get(FILTER_KEY.encode())
    if content is None:
        return None
    return StoredBloomFilter(entries.get(TYPE_KEY.encode(), _OLDEST_TYPE).decode(), instant, content)


def _footer_statistics(footer: pq.FileMetaData, file_name: str, columns: IndexedColumns) -> dict[str, ColumnStatistics]:
    """Statistics by a footer alone. Those of floating-point columns are right only if there is no NaN."""
    schema = footer.schema.to_arrow_schema().remove_metadata()
    bounds = FooterBounds([footer], schema)
    has_other_calendar = not _OTHER_CALENDAR.isdisjoint(footer.metadata or ())
    found, version, places = {}, columns.version, leaf_places(schema)
    for column in columns.names:
        of_column = bounds.of((column,))
        if of_column is None:
            continue
        position, kind = places[(column,)]
        ends = _bounds(of_column, kind, version)
        if ends is None or (has_other_calendar and _is_before_gregorian(of_column, kind)):
            continue
        counts = _counts(footer, position)
        if counts is not None:
            value_type = value_type_of(kind) if version is StatisticsVersion.V2 else None
            found[column] = ColumnStatistics(file_name, column, *ends, *counts, value_type)
    return found


def _bounds(
    bounds: ColumnBounds, kind: pa.DataType, version: StatisticsVersion
) -> tuple[Bound | None, Bound | None] | None:
    """The least and the greatest value; nothing for nulls alone, and None if they are not certain."""
    least, greatest = bounds.least, bounds.greatest
    if not bounds.may_hold_values.all():
        holds_values = pa.array(bounds.may_hold_values)
        least, greatest = least.filter(holds_values), greatest.filter(holds_values)
    if not len(least):
        return None, None
    if least.null_count or greatest.null_count:
        return None
    try:
        ends = [
            stored_bound(end, version)
            for end in (
                _first(least, kind, ascending=True),
                _first(greatest, kind, ascending=False),
            )
        ]
    except pa.ArrowException:
        # A string that was cut off within a character.
        return None
    minimum, maximum = ends
    return None if minimum is None or maximum is None else (_zero(minimum, -0.0), _zero(maximum, 0.0))


def _first(bounds: pa.Array, kind: pa.DataType, *, ascending: bool) -> pa.Scalar:
    if len(bounds) > 1:
        order = pc.array_sort_indices(bounds, order="ascending" if ascending else "descending")
        bounds = bounds.take(order[:1])
    return (bounds if bounds.type == kind else bounds.cast(kind))[0]


def _zero(bound: Bound, zero: float) -> Bound:
    """A bound that both zeros of floating-point numbers lie within."""
    is_zero = isinstance(bound.value, float) and bound.value == 0
    return Bound(bound.wrapper, zero) if is_zero else bound


def _counts(footer: pq.FileMetaData, position: int) -> tuple[int, int, int, int] | None:
    """Values with nulls, nulls, compressed and uncompressed bytes of a column; None if they are unknown, or no values."""
    values = nulls = compressed = uncompressed = 0
    for number in range(footer.num_row_groups):
        chunk = footer.row_group(number).column(position)
        statistics = chunk.statistics
        if statistics is None or not statistics.has_null_count:
            return None
        values += chunk.num_values
        nulls += statistics.null_count
        compressed += chunk.total_compressed_size
        uncompressed += chunk.total_uncompressed_size
    # As Hudi, which keeps none of a file without rows.
    return (values, nulls, compressed, uncompressed) if values else None


def _is_before_gregorian(bounds: ColumnBounds, kind: pa.DataType) -> bool:
    if not (pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
        return False
    # Not cast to days: that fails for moments within a day.
    least = pc.min(bounds.least.cast(pa.timestamp("s"), safe=False).cast(pa.int64()))
    return bool(least.is_valid and least.as_py() < _GREGORIAN_START)


def _holding_nan(file: pq.ParquetFile, columns: list[str]) -> frozenset[str]:
    """Those of some floating-point columns that hold NaN."""
    return frozenset(
        name
        for batch in (file.iter_batches(columns=columns) if columns else ())
        for name, values in zip(batch.schema.names, batch.columns, strict=True)
        if pc.any(pc.is_nan(values)).as_py()
    )
