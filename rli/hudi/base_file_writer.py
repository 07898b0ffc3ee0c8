"""Writing base files: Parquet files with Hudi's meta columns in front and Hudi's footer."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from inspect import signature
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rli.hudi.bloom_filter import FALSE_POSITIVE_RATE, BloomFilter
from rli.hudi.dictionaries import columns_with_dictionary
from rli.hudi.key_hashes import Hashes, KeyHashes, StoredHashes, Tails
from rli.hudi.meta_columns import (
    DISTINCT,
    FILE_NAME,
    MAX_RECORD_KEY,
    MIN_RECORD_KEY,
    PARTITION_PATH,
    RECORD_KEY,
    with_meta_columns,
)
from rli.json_text import parse_json
from rli.storage import Storage

_SMALLEST_BLOOM_CAPACITY: Final = 1_000

_FEW_HASHES: Final = 4
"""Of the keys in a filter that no index of ours reads: 20 bits for each key instead of 14, and less than half of the time."""

_CONSTANT: Final = pa.dictionary(pa.int32(), pa.string())

CALENDAR: Final = {"org.apache.spark.version": "3.5.0"}
"""Tells Spark 3, and Hudi in it, that dates and times are Gregorian at all times, as they are since that release writes
files. Of a file without this entry Spark 3 refuses dates before 15 October 1582 and times before 1900."""

_NAN_KEY: Final = "rli.nan"
"""Entry of the footer."""

ROWS_PER_ROW_GROUP: Final = 131_072
_PARAMETERS: Final = signature(pq.ParquetWriter.__init__).parameters
_HAS_FILTERS: Final = "bloom_filter_options" in _PARAMETERS
"""Whether this release of pyarrow writes bloom filters of row groups."""

_HAS_PAGES: Final = {"write_page_index", "max_rows_per_page"} <= _PARAMETERS.keys()
"""Whether this release of pyarrow writes pages of a given number of rows, and a page index."""

_ROWS_PER_PAGE: Final = 4_096
"""A reader of one record decodes a page of each column."""

_ROWS_WITH_PAGES: Final = 4 * _ROWS_PER_PAGE
"""A file that begins with fewer records is read whole sooner than by pages."""

_LONG_KEYS: Final = 16
"""Bytes of a key, on average in the first row group: those of shorter keys take hardly longer to decode than the tails of their hashes,
which would take a larger part of the file."""

_FILTER_FALSE_POSITIVES: Final = 0.05
"""At most. Sizes are powers of two: a full row group has a byte for each record, and a share of 0.026."""

BYTES_PER_ROW_GROUP: Final = 128 * 1024 * 1024
"""Small batches are gathered until one of the two is reached: a reader, and each dictionary, gains by it."""


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A finished base file.

    Attributes:
        rows: records in it.
        size: bytes.
    """

    rows: int
    size: int


class BaseFileWriter:
    """Writes one base file, batch by batch, in memory that a row group bounds, and six bytes for each record.

    Without ``finish`` the file is incomplete and no reader takes it.

    Args:
        storage: of the table.
        path: of the file, in a folder that is there.
        file_name: that it will have in the table.
        schema: of the records, without meta columns.
        compression: Parquet codec.
        bloom_filter: of the file's keys: ``write`` adds the new keys that it is given; all others are in the filter before.
        partition_path: of all records.
        with_dictionary: those columns of the records that are to have a dictionary; by default the first records tell.
    """

    def __init__(
        self,
        storage: Storage,
        path: str,
        schema: pa.Schema,
        *,
        file_name: str,
        compression: str,
        bloom_filter: BloomFilter,
        partition_path: str,
        with_dictionary: Sequence[str] | None = None,
    ) -> None:
        self._storage = storage
        self._path = path
        self._constants = {PARTITION_PATH: partition_path, FILE_NAME: file_name}
        # As dictionaries, whose one text is neither copied nor hashed for each record.
        fields = [
            field.with_type(_CONSTANT) if field.name in self._constants else field
            for field in with_meta_columns(schema)
        ]
        self._schema = pa.schema(fields)
        self._bloom_filter = bloom_filter
        self._smallest: str | None = None
        self._greatest: str | None = None
        self._rows = 0
        self._floating = [field.name for field in schema if field.type in {pa.float32(), pa.float64()}]
        self._with_nan: set[str] = set()
        self._pending: list[pa.Table] = []
        self._compression = compression
        self._with_dictionary = with_dictionary
        self._sink = storage.filesystem.open_output_stream(storage.full_path(path))
        self._writer: pq.ParquetWriter | None = None
        self._hashes: list[Hashes] | None = None
        self._tails: list[Tails] | None = None

    def write(self, records: pa.Table, new_record_keys: pa.Array) -> None:
        """Append records.

        Args:
            records: fits ``with_record_meta_columns(schema)``.
            new_record_keys: those keys among the records that the bloom filter does not hold yet.
        """
        if not records.num_rows:
            return
        self._pending.append(records)
        rows = sum(part.num_rows for part in self._pending)
        if sum(part.nbytes for part in self._pending) < BYTES_PER_ROW_GROUP:
            rows -= rows % ROWS_PER_ROW_GROUP
        self._flush(rows)
        self._bloom_filter.add(new_record_keys)
        smallest, greatest = _java_bounds(records.column(RECORD_KEY))
        self._smallest = smallest if self._smallest is None else min(self._smallest, smallest, key=_java_order)
        self._greatest = greatest if self._greatest is None else max(self._greatest, greatest, key=_java_order)
        self._rows += records.num_rows
        self._with_nan |= {name for name in self._floating if pc.any(pc.is_nan(records.column(name))).as_py()}

    def finish(self) -> WrittenFile:
        """Write the footer and close the file; its content survives a power cut then."""
        self._flush(sum(part.num_rows for part in self._pending))
        writer = self._writer or self._opened(self._schema.empty_table().drop_columns([*self._constants]))
        nan = nan_entry(self._constants[FILE_NAME], self._with_nan)
        footer = {**CALENDAR, **self._bloom_filter.to_footer(), **nan, **self._written_hashes()}
        if self._smallest is not None and self._greatest is not None:
            footer |= {MIN_RECORD_KEY: self._smallest, MAX_RECORD_KEY: self._greatest}
        writer.add_key_value_metadata(footer)
        writer.close()
        size = self._sink.tell()
        self._sink.close()
        self._storage.flush([self._path])
        return WrittenFile(self._rows, size)

    def _written_hashes(self) -> dict[str, str]:
        """Write the hashes of the record keys behind the records; returns the entry of the footer."""
        if not self._hashes:
            return {}
        return StoredHashes.write(self._sink, self._hashes, self._tails).to_footer(self._constants[FILE_NAME])

    def _flush(self, rows: int) -> None:
        """Write the first of the pending records, as whole row groups but for the last one of the file."""
        if rows:
            pending = pa.concat_tables(self._pending)
            first = self._with_constants(pending.slice(0, rows))
            self._opened(pending).write_table(first, row_group_size=ROWS_PER_ROW_GROUP)
            for start in range(0, rows, ROWS_PER_ROW_GROUP):
                self._hash(first.column(RECORD_KEY).slice(start, ROWS_PER_ROW_GROUP))
            # An empty slice would keep all that was written in memory.
            self._pending = [pending.slice(rows)] if rows < pending.num_rows else []

    def _hash(self, record_keys: pa.ChunkedArray) -> None:
        """Note the hashes of the record keys of a row group, if the file gets them."""
        if self._hashes is not None:
            hashes, tails = zip(*map(KeyHashes.of, record_keys.chunks), strict=True)
            self._hashes.append(np.concatenate(hashes))
            if self._tails is not None:
                self._tails.append(np.concatenate(tails))

    def _with_constants(self, records: pa.Table) -> pa.Table:
        indices = pa.array(np.zeros(records.num_rows, np.int32))
        columns = {
            name: pa.DictionaryArray.from_arrays(indices, pa.array([text], pa.string()))
            for name, text in self._constants.items()
        }
        columns |= zip(records.column_names, records.columns, strict=True)
        return pa.table([columns[name] for name in self._schema.names], schema=self._schema)

    def _opened(self, first: pa.Table) -> pq.ParquetWriter:
        """The writer; the first records decide how columns are encoded."""
        if self._writer is None:
            dictionaries = self._with_dictionary
            if dictionaries is None:
                dictionaries = repeating_columns(first)
            pages = _pages(first.num_rows)
            self._hashes = [] if pages else None
            lengths = pc.sum(pc.binary_length(first.column(RECORD_KEY))).as_py() or 0
            self._tails = [] if pages and lengths >= _LONG_KEYS * first.num_rows else None
            self._writer = pq.ParquetWriter(
                self._sink,
                self._schema,
                compression=self._compression,
                store_schema=False,
                write_page_checksum=True,
                use_dictionary=[*self._constants, *dictionaries],
                **_row_group_filters(first.num_rows),
                **pages,
            )
        return self._writer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._sink.close()
            # Its finaliser would write a footer into the closed file, and complain on standard error.
            if self._writer is not None:
                self._writer.is_open = False


def nan_entry(file_name: str, columns: Collection[str]) -> dict[str, str]:
    """The entry of a footer that names the floating-point columns with NaN, of which bounds do not tell.

    Args:
        file_name: of the base file: writers that join files may keep the entries of another one.
        columns: with NaN.
    """
    return {_NAN_KEY: json.dumps({"file": file_name, "columns": sorted(columns)}, ensure_ascii=False)}


def columns_with_nan(footer: Mapping[bytes, bytes], file_name: str) -> frozenset[str] | None:
    """The floating-point columns with NaN that are no part of others; None if the footer does not tell.

    Args:
        footer: entries of the base file's footer.
        file_name: of the base file.
    """
    with suppress(ValueError, KeyError, TypeError):
        content = parse_json(footer[_NAN_KEY.encode()])
        if content["file"] == file_name:
            return frozenset(content["columns"])
    return None


def _row_group_filters(rows: int) -> dict[str, Any]:
    """How to write filters that find the row group of a record key, in a file that begins with so many records.

    A file with a single row group needs none: the index says which file holds a key.
    """
    if not _HAS_FILTERS or rows < ROWS_PER_ROW_GROUP:
        return {}
    return {"bloom_filter_options": {RECORD_KEY: {"ndv": ROWS_PER_ROW_GROUP, "fpp": _FILTER_FALSE_POSITIVES}}}


def _pages(rows: int) -> dict[str, Any]:
    """Options of pyarrow's writer for pages that a reader of a few records finds, in a file that begins with so many records."""
    if not _HAS_PAGES or rows < _ROWS_WITH_PAGES:
        return {}
    return {"write_page_index": True, "max_rows_per_page": _ROWS_PER_PAGE}


def repeating_columns(records: pa.Table) -> list[str]:
    """Those columns of records, with meta columns, that are to have a dictionary."""
    return columns_with_dictionary(records, DISTINCT)


def new_bloom_filter(record_count: int, false_positive_rate: float = FALSE_POSITIVE_RATE) -> BloomFilter:
    """An empty filter for a file that is expected to hold that many records."""
    # Of many keys, hashing takes the time; of few, and for an index that reads them, filters are to be small.
    is_hashed_fast = record_count > _SMALLEST_BLOOM_CAPACITY and false_positive_rate >= FALSE_POSITIVE_RATE
    most_hashes = _FEW_HASHES if is_hashed_fast else None
    return BloomFilter.create(max(record_count, _SMALLEST_BLOOM_CAPACITY), false_positive_rate, most_hashes)


def _java_bounds(keys: pa.ChunkedArray) -> tuple[str, str]:
    """The least and greatest key in the order in which the JVM compares strings: by UTF-16 code units."""
    if pc.all(pc.string_is_ascii(keys)).as_py():
        bounds = pc.min_max(keys).as_py()
        return bounds["min"], bounds["max"]
    texts: list[str] = keys.to_pylist()
    return min(texts, key=_java_order), max(texts, key=_java_order)


def _java_order(text: str) -> bytes:
    return text.encode("utf-16-be")
