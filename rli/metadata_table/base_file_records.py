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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

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
from rli.hudi.metadata.statistic_values import StatisticsVersion, bound_form, value_type_of
from rli.metadata_table.indexed_columns import IndexedColumns
from rli.storage import Storage

_GREGORIAN_START: Final = int(datetime(1582, 10, 15, tzinfo=UTC).timestamp())
_AT_ONCE: Final = 64
_FLOATING: Final = (pa.float32(), pa.float64())
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


def base_file_records(storage: Storage, path: str, columns: IndexedColumns) -> BaseFileRecords:
    """Read what the metadata table keeps of one base file; as ``records_of_base_files``."""
    return next(records_of_base_files(storage, {path: path}, columns))


def records_of_base_files(
    storage: Storage, files: Mapping[str, str], columns: IndexedColumns
) -> Iterator[BaseFileRecords]:
    """Read what the metadata table keeps of base files.

    The footers are enough; memory holds those of 64 files. Where other writers made a file, its floating-point columns are read as
    a whole, to look for NaN.

    Args:
        storage: of the table.
        files: path of each base file in the table → where it is now: a commit brings it to its path at its end.
        columns: those with statistics; columns that a file lacks, and nested ones, have none.

    Raises:
        CorruptTableError: a file is missing or damaged, or has no name of a base file.
    """
    paths = list(files)
    for start in range(0, len(paths), _AT_ONCE):
        footers = [_footer(storage, path, files[path], columns) for path in paths[start : start + _AT_ONCE]]
        # Files of one writer have the same columns: what depends on these alone is found once.
        for run in _runs(footers):
            with corrupt_unless_parquet(run[0].path):
                statistics = _statistics(run, columns)
            for footer, found in zip(run, statistics, strict=True):
                bloom_filter = _bloom_filter(footer.metadata, footer.name.instant)
                yield BaseFileRecords(found, bloom_filter, footer.metadata.num_rows)


@dataclass(frozen=True, slots=True)
class _Footer:
    """The footer of a base file, and those of its floating-point columns that hold NaN."""

    path: str
    name: BaseFileName
    metadata: pq.FileMetaData
    holding_nan: frozenset[str]


def _footer(storage: Storage, path: str, stored_at: str, columns: IndexedColumns) -> _Footer:
    name = BaseFileName.parse(posixpath.basename(path))
    with corrupt_unless_parquet(path), storage.filesystem.open_input_file(storage.full_path(stored_at)) as source:
        file = pq.ParquetFile(source)
        holding_nan = columns_with_nan(file.metadata.metadata or {}, str(name))
        if holding_nan is None:
            wanted = {*columns.names}
            # Those of 16 bits have no statistics.
            floating = [field.name for field in file.schema_arrow if field.type in _FLOATING and field.name in wanted]
            holding_nan = _holding_nan(file, floating)
        return _Footer(path, name, file.metadata, holding_nan)


def _runs(footers: Sequence[_Footer]) -> Iterator[list[_Footer]]:
    """Files one after the other with the same columns, written in the same way."""
    run: list[_Footer] = []
    for footer in footers:
        if run and not run[-1].metadata.schema.equals(footer.metadata.schema):
            yield run
            run = []
        run.append(footer)
    yield run


def _bloom_filter(footer: pq.FileMetaData, instant: str) -> StoredBloomFilter | None:
    entries = footer.metadata or {}
    content = entries.get(FILTER_KEY.encode())
    if content is None:
        return None
    return StoredBloomFilter(entries.get(TYPE_KEY.encode(), _OLDEST_TYPE).decode(), instant, content)


def _statistics(run: Sequence[_Footer], columns: IndexedColumns) -> list[dict[str, ColumnStatistics]]:
    """Statistics of files with the same columns, in their order."""
    schema = run[0].metadata.schema.to_arrow_schema().remove_metadata()
    bounds = FooterBounds([footer.metadata for footer in run], schema)
    groups = [[footer.metadata.row_group(number) for number in range(footer.metadata.num_row_groups)] for footer in run]
    places, version = leaf_places(schema), columns.version
    found: list[dict[str, ColumnStatistics]] = [{} for _ in run]
    for column in columns.names:
        of_column = bounds.of((column,))
        if of_column is None:
            continue
        position, kind = places[(column,)]
        value_type = value_type_of(kind) if version is StatisticsVersion.V2 else None
        stored, start = bound_form(kind, version), 0
        for footer, of_file, statistics in zip(run, groups, found, strict=True):
            units = slice(start, start := start + len(of_file))
            ends = _certain_bounds(footer, of_column.part(units), kind, stored)
            counts = None if ends is None else _counts(footer, of_file, position)
            if ends is not None and counts is not None and column not in footer.holding_nan:
                statistics[column] = ColumnStatistics(str(footer.name), column, *ends, *counts, value_type)
    return found


def _certain_bounds(
    footer: _Footer, bounds: ColumnBounds, kind: pa.DataType, stored: Callable[[pa.Scalar], Bound | None]
) -> tuple[Bound | None, Bound | None] | None:
    """The least and the greatest value; nothing for nulls alone, and None if they are not certain."""
    least, greatest = bounds.least, bounds.greatest
    if not bounds.may_hold_values.all():
        holds_values = pa.array(bounds.may_hold_values)
        least, greatest = least.filter(holds_values), greatest.filter(holds_values)
    if not len(least):
        return None, None
    if least.null_count or greatest.null_count or _is_of_other_calendar(footer, least):
        return None
    try:
        minimum, maximum = stored(_first(least, kind, ascending=True)), stored(_first(greatest, kind, ascending=False))
    except pa.ArrowException:
        # A string that was cut off within a character.
        return None
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


def _counts(footer: _Footer, groups: Sequence[Any], position: int) -> tuple[int, int, int, int] | None:
    """Values with nulls, nulls, compressed and uncompressed bytes of a column; None if they are unknown, or no values."""
    values = nulls = compressed = uncompressed = 0
    for group in groups:
        with corrupt_unless_parquet(footer.path):
            chunk = group.column(position)
            statistics = chunk.statistics
        if statistics is None or not statistics.has_null_count:
            return None
        values += chunk.num_values
        nulls += statistics.null_count
        compressed += chunk.total_compressed_size
        uncompressed += chunk.total_uncompressed_size
    # As Hudi, which keeps none of a file without rows.
    return (values, nulls, compressed, uncompressed) if values else None


def _is_of_other_calendar(footer: _Footer, least: pa.Array) -> bool:
    """Whether a column holds days before the Gregorian calendar, counted by another one."""
    if not (pa.types.is_date(least.type) or pa.types.is_timestamp(least.type)):
        return False
    if _OTHER_CALENDAR.isdisjoint(footer.metadata.metadata or ()):
        return False
    # Not cast to days: that fails for moments within a day.
    first = pc.min(least.cast(pa.timestamp("s"), safe=False).cast(pa.int64()))
    return bool(first.is_valid and first.as_py() < _GREGORIAN_START)


def _holding_nan(file: pq.ParquetFile, columns: list[str]) -> frozenset[str]:
    """Those of some floating-point columns that hold NaN."""
    return frozenset(
        name
        for batch in (file.iter_batches(columns=columns) if columns else ())
        for name, values in zip(batch.schema.names, batch.columns, strict=True)
        if pc.any(pc.is_nan(values)).as_py()
    )
