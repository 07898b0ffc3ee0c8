"""Reading base files: Parquet files with Hudi's meta columns in front and Hudi's footer.

Only ``rli.view.file_slice_reader`` and ``rli.view.key_search`` use it: a file slice may have more than its base file.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from itertools import accumulate
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rli.errors import CorruptTableError
from rli.filters.predicates import Column
from rli.hudi.bloom_filter import BloomFilter
from rli.hudi.footer_bounds import RowGroupChoice, leaf_places, string_bounds
from rli.hudi.kept_footers import FOOTERS, KeptFooter
from rli.hudi.key_hashes import TAILS_IN_BLOCK, Hashes, StoredHashes, Tails
from rli.hudi.meta_columns import MAX_RECORD_KEY, MIN_RECORD_KEY
from rli.hudi.page_cuts import Rows
from rli.hudi.row_group_filter import MOST_FILTER_BYTES, RowGroupFilter
from rli.hudi.schema import conform
from rli.storage import Storage

_FEW_ROWS: Final = 16_384
"""Of a file with no more rows, all columns are decoded by the calling thread: others cost more than they gain."""

_REMEDY: Final = "restore it from a backup, or go back to before its commit: rli restore TABLE INSTANT"

_FOOTER_BYTES: Final = 64 * 1024
"""Arrow reads so many of each file to find its footer: a file with no more is read once, not again for each column."""

_UNLIKE_INDEX: Final = (ValueError, OSError, pa.ArrowException)
"""What reading by page indexes raises for a file that has none, or a damaged one. Who reads the whole row group tells what is wrong."""

_LARGE_FOOTER: Final = 1024 * 1024
"""Bytes of a footer that takes so long to read that it is kept."""


class BaseFileReader:
    """Reads one base file in batches; memory is bounded by a batch and a row group's columns.

    Args:
        storage: of the table.
        path: of the file.
        size: of the file as it was listed, in bytes.
        verifies_checksums: whether a page that differs from its checksum, where it has one, is an error.
    """

    def __init__(self, storage: Storage, path: str, size: int, *, verifies_checksums: bool = False) -> None:
        self.path = path
        self._storage = storage
        self._kept: KeptFooter | None = None
        # A search for damage reads the footer from the file.
        may_be_kept = (size <= 0 or size > _FOOTER_BYTES) and not verifies_checksums
        with corrupt_unless_parquet(path):
            self._source, version = storage.open_versioned(path)
            if 0 < size <= _FOOTER_BYTES:
                with self._source as file:
                    self._source = pa.BufferReader(file.read_buffer())
            self._version = version if may_be_kept else None
            if self._version is not None:
                self._kept = FOOTERS.get(storage, path, self._version)
            metadata = None if self._kept is None else self._kept.metadata
            self._file = pq.ParquetFile(self._source, metadata=metadata, page_checksum_verification=verifies_checksums)

    @property
    def is_local(self) -> bool:
        """Whether one more read takes no request to a server."""
        return self._storage.is_local

    @property
    def rows(self) -> int:
        return int(self._file.metadata.num_rows)

    @property
    def has_few_rows(self) -> bool:
        """Whether the file has so few rows that ``batches`` holds all of them in memory at once."""
        return self.rows <= _FEW_ROWS

    @cached_property
    def schema(self) -> pa.Schema:
        """As stored, without metadata."""
        return self._file.schema_arrow.remove_metadata()

    def bloom_filter(self) -> BloomFilter | None:
        """Of the record keys, from the footer; None where the file has none."""
        return BloomFilter.from_footer(self._key_values, self.path)

    def key_range(self) -> tuple[str, str] | None:
        """The least and the greatest record key, from the footer; None where the file does not say.

        In the order of UTF-8 bytes, or of UTF-16 code units: writers differ.
        """
        metadata = self._key_values
        least, greatest = metadata.get(MIN_RECORD_KEY.encode()), metadata.get(MAX_RECORD_KEY.encode())
        if least is None or greatest is None:
            return None
        try:
            return least.decode(), greatest.decode()
        except UnicodeDecodeError as error:
            raise CorruptTableError(
                f"the key range of a base file is no string: file={self.path} ({error})",
                remedy="rewrite the file, for example by updating one of its records",
            ) from error

    @cached_property
    def _key_values(self) -> Mapping[bytes, bytes]:
        """The key-value metadata of the footer."""
        if self._kept is None:
            return self._file.metadata.metadata or {}
        with corrupt_unless_parquet(self.path):
            return pq.read_metadata(self._source).metadata or {}

    def keep_footer(self) -> None:
        """Keep the footer for the next reader, if that saves work: look-ups of a few keys come again.

        Only then ``rows_at`` knows where to read in a file of rli.
        """
        if self._kept is not None or self._version is None:
            return
        hashes = self._hashes
        if hashes is None and self._file.metadata.serialized_size < _LARGE_FOOTER:
            return
        with suppress(*_UNLIKE_INDEX):
            self._kept = KeptFooter.of(self._file.metadata, hashes)
            FOOTERS.keep(self._storage, self.path, self._version, self._kept)

    @cached_property
    def _hashes(self) -> StoredHashes | None:
        if self._kept is not None:
            return self._kept.hashes
        return StoredHashes.from_footer(self._key_values, posixpath.basename(self.path))

    def key_hashes(self, row_group: int) -> Hashes | None:
        """The hash of each record key of a row group (``KeyHashes.hashes``); None if the file has none."""
        stored = self._hashes
        if stored is None:
            return None
        place = stored.place(self._row_counts[: row_group + 1])
        with suppress(*_UNLIKE_INDEX):
            return stored.checked(self._read([place])[0], row_group)
        return None

    @property
    def has_tails(self) -> bool:
        """Whether the file has the tails of the hashes of its record keys."""
        return self._hashes is not None and self._hashes.tails is not None

    def hash_tails(self, row_group: int, rows: Rows) -> Tails | None:
        """The tails of the hashes of the record keys of some rows (rising, at least one) of a row group.

        Returns:
            Shape (n,), for n rows; None if the file has none, or they are damaged.
        """
        stored = self._hashes
        if stored is None:
            return None
        counts = self._row_counts[: row_group + 1]
        of_rows = rows // TAILS_IN_BLOCK
        numbers = np.unique(of_rows)
        with suppress(*_UNLIKE_INDEX):
            blocks = [stored.block_of_tails(counts, number) for number in numbers.tolist()]
            contents = self._read([block.place for block in blocks])
            tails = np.concatenate([block.checked(content) for block, content in zip(blocks, contents, strict=True)])
            return tails[np.searchsorted(numbers, of_rows) * TAILS_IN_BLOCK + rows % TAILS_IN_BLOCK]
        return None

    def rows_at(self, row_group: int, names: Sequence[str], rows: Rows) -> pa.Table | None:
        """Some rows (rising, at least one) of a row group. Reads only the pages that hold one of them.

        Returns:
            The columns as they are stored; None if the file does not tell where the pages are, or its footer is not kept.
        """
        if self._kept is None or not names:
            return None
        with suppress(*_UNLIKE_INDEX):
            return self._kept.cuts.rows(self._read, row_group, names, rows)
        return None

    def _read(self, ranges: Sequence[range]) -> Sequence[bytes]:
        """Ranges of the file's bytes; together, where each takes a request."""
        size = self._source.size()
        if not all(0 <= place.start <= place.stop <= size for place in ranges):
            raise ValueError(f"a footer names places beyond the end of its file: file={self.path} size={size}")
        if self._storage.is_local:
            return [self._source.read_at(len(place), place.start) for place in ranges]
        return [content.to_pybytes() for content in self._storage.read_ranges(self.path, ranges)]

    def read_columns(self, schema: pa.Schema) -> pa.Table:
        """The whole file, reduced to the columns of ``schema`` and made to fit it."""
        with corrupt_unless_parquet(self.path):
            found = self._file.read(columns=self.present_columns(schema), use_threads=not self.has_few_rows)
            return conform(found, schema)

    def row_groups_of(self, choose: RowGroupChoice) -> list[int]:
        """The numbers of those row groups that a caller chooses by the footer."""
        return np.flatnonzero(choose(self._file.metadata)).tolist()

    def batches(self, schema: pa.Schema, rows: int, row_groups: Sequence[int] | None = None) -> Iterator[pa.Table]:
        """The file's records in order, in batches of ``rows``, made to fit ``schema``.

        Args:
            schema: of the records.
            rows: of a batch.
            row_groups: numbers of the row groups that are read, in rising order; None for all.
        """
        if row_groups is None and self.has_few_rows and self.rows <= rows:
            # An iterator takes twice as long for a file of few rows.
            if self.rows:
                yield self.read_columns(schema).combine_chunks()
            return
        with corrupt_unless_parquet(self.path):
            columns = self.present_columns(schema)
            threads = not self.has_few_rows
            for batch in self._file.iter_batches(rows, row_groups=row_groups, columns=columns, use_threads=threads):
                yield conform(pa.table(batch), schema)

    @property
    def row_groups(self) -> int:
        """How many there are."""
        return int(self._file.metadata.num_row_groups)

    @cached_property
    def row_group_starts(self) -> list[int]:
        """The position of the first record of each row group, and the number of all records."""
        return [0, *accumulate(self._row_counts)]

    @cached_property
    def _row_counts(self) -> list[int]:
        """How many records each row group has."""
        return [self.rows_of(number) for number in range(self.row_groups)]

    def rows_of(self, row_group: int) -> int:
        """How many records a row group has."""
        return int(self._file.metadata.row_group(row_group).num_rows)

    def bounds(self, row_group: int, column: str) -> tuple[str, str] | None:
        """Between which two values all texts of a column lie, within one row group; None where the file does not say."""
        chunk = self._chunk(row_group, column)
        found = None if chunk is None else string_bounds(chunk.statistics)
        if found is None:
            return None
        try:
            return found[0].decode(), found[1].decode()
        except UnicodeDecodeError:
            # Another writer has cut a text in the middle of a character.
            return None

    def row_group_filter(self, row_group: int, column: str) -> RowGroupFilter | None:
        """The bloom filter of a column of texts within one row group; None where the file has none."""
        chunk = self._chunk(row_group, column)
        # Older releases of pyarrow know neither of them.
        offset, length = getattr(chunk, "bloom_filter_offset", None), getattr(chunk, "bloom_filter_length", None)
        if offset is None or length is None or not 0 < length <= MOST_FILTER_BYTES:
            return None
        if not 0 <= offset <= self._source.size() - length:
            return None
        if self._storage.is_local:
            return RowGroupFilter(lambda start, size: self._bytes_at(offset + start, size), length)
        # One request takes less time than one for the header, and one for each key.
        whole = self._bytes_at(offset, length)
        return RowGroupFilter(lambda start, size: whole[start : start + size], len(whole))

    def _bytes_at(self, start: int, size: int) -> bytes:
        """Bytes of the file; fewer if it has become shorter."""
        with corrupt_unless_parquet(self.path):
            return bytes(self._source.read_at(size, start))

    def batches_of(self, row_group: int, schema: pa.Schema, rows: int) -> Iterator[pa.Table]:
        """The records of one row group as they are stored, in batches of ``rows``, with those columns that exist."""
        with corrupt_unless_parquet(self.path):
            columns = self.present_columns(schema)
            # Threads would decode all columns of a small batch ahead: that costs more than it gains.
            for batch in self._file.iter_batches(rows, row_groups=[row_group], columns=columns, use_threads=False):
                yield pa.table(batch)

    def _chunk(self, row_group: int, column: str) -> Any:
        """What the footer says of a column of texts in a row group; None for a column that the file does not have."""
        place = self._places.get((column,))
        return None if place is None else self._file.metadata.row_group(row_group).column(place[0])

    @cached_property
    def _places(self) -> Mapping[Column, tuple[int, pa.DataType]]:
        return leaf_places(self.schema)

    def present_columns(self, schema: pa.Schema) -> list[str]:
        """The names of the columns of a schema that the file has."""
        stored = set(self.schema.names)
        return [name for name in schema.names if name in stored]

    def close(self) -> None:
        self._file.close(force=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def corrupt_unless_parquet(path: str) -> Iterator[None]:
    """Turn what pyarrow raises for a damaged or missing file into ``CorruptTableError`` with the file's name."""
    try:
        yield
    except FileNotFoundError as error:
        raise CorruptTableError(f"a base file is missing: file={path}", remedy=_REMEDY) from error
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        raise CorruptTableError(
            f"a base file cannot be read as Parquet: file={path} ({error})", remedy=_REMEDY
        ) from error
