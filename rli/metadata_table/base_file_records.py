"""What the metadata table keeps of base files: statistics of columns, right or absent, and bloom filters.

Readers leave out a file by its statistics, and keep a file without any. So a column has no statistics for a file wherever
its Parquet footer leaves a doubt:

- the number of nulls is unknown in a row group, or its bounds are,
- a floating-point column holds NaN, which Parquet's bounds pass over while Spark takes it for the greatest value; one within a
  structure may, because nobody looks,
- a date or time lies before 1582-10-15 in a file whose writer counted such days by another calendar,
- the bounds have no exact form in the metadata table.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final, NamedTuple, Self

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
from rli.hudi.metadata.statistic_values import StatisticsVersion, bound_form, plain_values, value_type_of
from rli.metadata_table.indexed_columns import IndexedColumns, leaf_of
from rli.storage import Storage

_GREGORIAN_START: Final = int(datetime(1582, 10, 15, tzinfo=UTC).timestamp())
_SECONDS_OF_DAY: Final = 86_400
_UNITS_OF_SECOND: Final = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
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
        columns: those with statistics, those within structures as "column.field"; columns that a file lacks, lists and maps have none.

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
                yield BaseFileRecords(found, _bloom_filter(footer), footer.metadata.num_rows)


@dataclass(frozen=True, slots=True)
class _Footer:
    """The footer of a base file, its key-value metadata, and those of its floating-point columns that hold NaN."""

    path: str
    name: BaseFileName
    metadata: pq.FileMetaData
    entries: Mapping[bytes, bytes]
    holding_nan: frozenset[str]


def _footer(storage: Storage, path: str, stored_at: str, columns: IndexedColumns) -> _Footer:
    name = BaseFileName.parse(posixpath.basename(path))
    with corrupt_unless_parquet(path), storage.filesystem.open_input_file(storage.full_path(stored_at)) as source:
        file = pq.ParquetFile(source)
        # Taken once: each time it is asked for, it is copied with its bloom filter.
        entries = file.metadata.metadata or {}
        holding_nan = columns_with_nan(entries, str(name))
        if holding_nan is None:
            wanted = {*columns.names}
            # Those of 16 bits have no statistics.
            floating = [field.name for field in file.schema_arrow if field.type in _FLOATING and field.name in wanted]
            holding_nan = _holding_nan(file, floating)
        return _Footer(path, name, file.metadata, entries, holding_nan)


def _runs(footers: Sequence[_Footer]) -> Iterator[list[_Footer]]:
    """Files one after the other with the same columns, written in the same way."""
    run: list[_Footer] = []
    for footer in footers:
        if run and not run[-1].metadata.schema.equals(footer.metadata.schema):
            yield run
            run = []
        run.append(footer)
    yield run


def _bloom_filter(footer: _Footer) -> StoredBloomFilter | None:
    content = footer.entries.get(FILTER_KEY.encode())
    if content is None:
        return None
    type_code = footer.entries.get(TYPE_KEY.encode(), _OLDEST_TYPE).decode()
    return StoredBloomFilter(type_code, footer.name.instant, content)


def _statistics(run: Sequence[_Footer], columns: IndexedColumns) -> list[dict[str, ColumnStatistics]]:
    """Statistics of files with the same columns, in their order."""
    schema = run[0].metadata.schema.to_arrow_schema().remove_metadata()
    bounds = FooterBounds([footer.metadata for footer in run], schema)
    places, version = leaf_places(schema), columns.version
    named = {column: leaf for column in columns.names if (leaf := leaf_of(column, places)) is not None}
    counts = [_counts(footer, [places[leaf][0] for leaf in named.values()]) for footer in run]
    found: list[dict[str, ColumnStatistics]] = [{} for _ in run]
    for column, leaf in named.items():
        of_column = bounds.of(leaf)
        if of_column is None:
            continue
        position, kind = places[leaf]
        value_type = value_type_of(kind) if version is StatisticsVersion.V2 else None
        # Of all files at once: a call of pyarrow for each of them would take longer than the rest.
        units, store = iter(_Unit.of_column(of_column)), bound_form(kind, version)
        for footer, of_file, statistics in zip(run, counts, found, strict=True):
            own = [*islice(units, footer.metadata.num_row_groups)]
            if column in footer.holding_nan or _is_of_other_calendar(footer, kind, own):
                continue
            ends, counted = _certain_bounds(own, kind, store), of_file[position]
            if ends is not None and counted is not None:
                statistics[column] = ColumnStatistics(str(footer.name), column, *ends, *counted, value_type)
    return found


class _Unit(NamedTuple):
    """What a row group proves of a column: its bounds as ``plain_values`` gives them, None where they are unknown."""

    least: Any
    greatest: Any
    may_hold_values: bool

    @classmethod
    def of_column(cls, bounds: ColumnBounds) -> list[Self]:
        """Those of some row groups."""
        ends = plain_values(bounds.least), plain_values(bounds.greatest)
        return [*map(cls, *ends, bounds.may_hold_values.tolist())]


def _certain_bounds(
    units: Sequence[_Unit], kind: pa.DataType, store: Callable[[Any], Bound | None]
) -> tuple[Bound | None, Bound | None] | None:
    """The least and the greatest value; nothing for nulls alone, and None if they are not certain."""
    held = [unit for unit in units if unit.may_hold_values]
    if not held:
        return None, None
    if any(unit.least is None or unit.greatest is None for unit in held):
        return None
    least, greatest = min(unit.least for unit in held), max(unit.greatest for unit in held)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        try:
            least, greatest = least.decode(), greatest.decode()
        except UnicodeDecodeError:
            # It was cut off within a character.
            return None
    minimum, maximum = store(least), store(greatest)
    return None if minimum is None or maximum is None else (_zero(minimum, -0.0), _zero(maximum, 0.0))


def _zero(bound: Bound, zero: float) -> Bound:
    """A bound that both zeros of floating-point numbers lie within."""
    is_zero = isinstance(bound.value, float) and bound.value == 0
    return Bound(bound.wrapper, zero) if is_zero else bound


def _counts(footer: _Footer, positions: Sequence[int]) -> dict[int, tuple[int, int, int, int] | None]:
    """Position of a column → values with nulls, nulls, compressed and uncompressed bytes; None if they are unknown, or no values."""
    metadata = footer.metadata
    with corrupt_unless_parquet(footer.path):
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        return {position: _count([group.column(position) for group in groups]) for position in positions}


def _count(chunks: Sequence[Any]) -> tuple[int, int, int, int] | None:
    values = nulls = compressed = uncompressed = 0
    for chunk in chunks:
        statistics = chunk.statistics
        if statistics is None or not statistics.has_null_count:
            return None
        values += chunk.num_values
        nulls += statistics.null_count
        compressed += chunk.total_compressed_size
        uncompressed += chunk.total_uncompressed_size
    # As Hudi, which keeps none of a file without rows.
    return (values, nulls, compressed, uncompressed) if values else None


def _is_of_other_calendar(footer: _Footer, kind: pa.DataType, units: Sequence[_Unit]) -> bool:
    """Whether a column holds days before the Gregorian calendar, counted by another one."""
    if pa.types.is_date(kind):
        start = _GREGORIAN_START // _SECONDS_OF_DAY
    elif pa.types.is_timestamp(kind):
        start = _GREGORIAN_START * _UNITS_OF_SECOND[kind.unit]
    else:
        return False
    if _OTHER_CALENDAR.isdisjoint(footer.entries):
        return False
    return any(unit.least is not None and unit.least < start for unit in units if unit.may_hold_values)


def _holding_nan(file: pq.ParquetFile, columns: list[str]) -> frozenset[str]:
    """Those of some floating-point columns that hold NaN."""
    return frozenset(
        name
        for batch in (file.iter_batches(columns=columns) if columns else ())
        for name, values in zip(batch.schema.names, batch.columns, strict=True)
        if pc.any(pc.is_nan(values)).as_py()
    )
