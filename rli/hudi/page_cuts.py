"""Cuts the pages with some rows out of a Parquet file, and reads them as a small Parquet file.

pyarrow decodes a row group from its beginning. Offset indexes say which rows each page has. So the pages with the wanted rows, put
behind the dictionary of their column, become a Parquet file with a footer of its own. Sources of the format:
parquet.thrift and PageIndex.md of https://github.com/apache/parquet-format.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from rli.hudi.thrift_compact import I32, I64, LIST, STRUCT, Elements, Struct, read_struct, write_struct

_MAGIC: Final = b"PAR1"
_LENGTH_BYTES: Final = 4

# Fields of FileMetaData.
_VERSION: Final = 1
_SCHEMA: Final = 2
_ROWS: Final = 3
_ROW_GROUPS: Final = 4
_KEY_VALUES: Final = 5
_CREATED_BY: Final = 6
# Of a key-value pair.
_KEY: Final = 1
_ARROW_SCHEMA: Final = b"ARROW:schema"
"""Changes what pyarrow makes of columns; written by Arrow's writers, unless they are told not to."""
# Fields of SchemaElement.
_REPETITION: Final = 3
_REPEATED: Final = 2
_NAME: Final = 4
_CHILDREN: Final = 5
# Fields of RowGroup.
_CHUNKS: Final = 1
_BYTES_OF_GROUP: Final = 2
_ROWS_OF_GROUP: Final = 3
# Fields of ColumnChunk.
_FILE_OFFSET: Final = 2
_META_DATA: Final = 3
_INDEX_OFFSET: Final = 4
_INDEX_LENGTH: Final = 5
# Fields of ColumnMetaData: type, encodings, path and codec are kept.
_KEPT: Final = (1, 2, 3, 4)
_VALUES: Final = 5
_UNCOMPRESSED: Final = 6
_COMPRESSED: Final = 7
_DATA_OFFSET: Final = 9
_DICTIONARY_OFFSET: Final = 11
# Fields of OffsetIndex and PageLocation.
_PAGES: Final = 1
_OF_PAGE: Final = (1, 2, 3)
"""Offset in the file, bytes, first row."""

_MOST_CHUNKS: Final = 4_096
"""Column chunks of a footer that is taken apart, at most: with more, this takes longer than it saves."""

_MOST_INDEX_BYTES: Final = 1 << 20
"""Of an offset index, at most: a forged footer may name more."""

Rows: TypeAlias = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class _Pages:
    """The data pages of a column chunk.

    Attributes:
        offsets: in the file, shape (pages,).
        sizes: bytes, shape (pages,).
        first_rows: number of each page's first row in the row group, then the number of all rows, shape (pages + 1,).
    """

    offsets: NDArray[np.int64]
    sizes: NDArray[np.int64]
    first_rows: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PageCuts:
    """The footer of a Parquet file, taken apart.

    Attributes:
        without_key_values: a Parquet file of the footer alone, without its key-value metadata except Arrow's schema.
        footer: the fields of the same footer.
        leaves: the schema element of each leaf.
        flat: column → number of its leaf, for columns that are no part of another one and have one value in each record; empty if
            the footer has Arrow's schema.
    """

    without_key_values: bytes
    footer: Struct
    leaves: Sequence[Struct]
    flat: dict[str, int]
    _pages: dict[tuple[int, int], _Pages | None] = field(default_factory=dict)

    @classmethod
    def of(cls, footer: pa.Buffer, chunks: int) -> PageCuts | None:
        """Take a footer apart; None if it has too many column chunks, or cannot be understood.

        Args:
            footer: its bytes.
            chunks: how many column chunks it names.
        """
        if chunks > _MOST_CHUNKS:
            return None
        try:
            fields, _ = read_struct(footer.to_pybytes())
            entries = fields.pop(_KEY_VALUES, (LIST, Elements(STRUCT, [])))[1].values
            arrow = [entry for entry in entries if entry[_KEY][1] == _ARROW_SCHEMA]
            if arrow:
                fields[_KEY_VALUES] = LIST, Elements(STRUCT, arrow)
            elements = fields[_SCHEMA][1].values
            leaves = [element for element in elements if _CHILDREN not in element]
            return cls(_file(b"", fields), fields, leaves, {} if arrow else _flat_leaves(elements))
        except (ValueError, KeyError, AttributeError, TypeError):
            return None

    def rows(self, source: pa.NativeFile, row_group: int, columns: Sequence[str], rows: Rows) -> pa.Table | None:
        """Some rows of a row group.

        Args:
            source: the file.
            row_group: its number.
            columns: names; each of a column of the file.
            rows: numbers within the row group, rising, shape (n,), at least one.

        Returns:
            Shape (n, columns), in the order of ``columns``; None if the file does not tell where the pages are.

        Raises:
            pyarrow.ArrowException, OSError: the pages cannot be read.
        """
        if any(name not in self.flat for name in columns):
            return None
        alike: dict[bytes, list[tuple[str, _Pages, NDArray[np.intp]]]] = {}
        for name in columns:
            pages = self._pages_of(source, row_group, self.flat[name])
            if pages is None or rows[-1] >= pages.first_rows[-1]:
                return None
            chosen = np.unique(np.searchsorted(pages.first_rows, rows, side="right") - 1)
            covered = np.stack([pages.first_rows[chosen], pages.first_rows[chosen + 1]])
            # Columns whose chosen pages have the same rows are read together.
            alike.setdefault(covered.tobytes(), []).append((name, pages, chosen))
        found: dict[str, pa.ChunkedArray] = {}
        for together in alike.values():
            _, pages, chosen = together[0]
            lengths = np.diff(pages.first_rows)[chosen]
            starts = np.cumsum(lengths) - lengths
            page = np.searchsorted(pages.first_rows[chosen], rows, side="right") - 1
            places = rows - pages.first_rows[chosen][page] + starts[page]
            read = self._cut(source, row_group, together, int(lengths.sum())).take(pa.array(places))
            found.update(zip(read.column_names, read.columns, strict=True))
        return pa.table({name: found[name] for name in columns})

    def _cut(
        self,
        source: pa.NativeFile,
        row_group: int,
        columns: Sequence[tuple[str, _Pages, NDArray[np.intp]]],
        rows: int,
    ) -> pa.Table:
        """The rows of some pages, the same rows of each column."""
        content, chunks = bytearray(_MAGIC), list[Struct]()
        schema = self.footer[_SCHEMA][1].values
        elements = [{**schema[0], _CHILDREN: (I32, len(columns))}]
        for name, pages, chosen in columns:
            chunk = self._chunk(row_group, self.flat[name])
            start, stored = len(content), chunk[_META_DATA][1]
            described = {number: stored[number] for number in _KEPT}
            if _DICTIONARY_OFFSET in stored:
                begin = stored[_DICTIONARY_OFFSET][1]
                described[_DICTIONARY_OFFSET] = I64, start
                content += source.read_at(int(pages.offsets[0]) - begin, begin)
            described[_DATA_OFFSET] = I64, len(content)
            for offset, size in _runs(pages, chosen):
                content += source.read_at(size, offset)
            length = I64, len(content) - start
            described |= {_VALUES: (I64, rows), _UNCOMPRESSED: length, _COMPRESSED: length}
            chunks.append({_FILE_OFFSET: (I64, start), _META_DATA: (STRUCT, described)})
            elements.append(self.leaves[self.flat[name]])
        group = {
            _CHUNKS: (LIST, Elements(STRUCT, chunks)),
            _BYTES_OF_GROUP: (I64, len(content)),
            _ROWS_OF_GROUP: (I64, rows),
        }
        footer = {
            _VERSION: self.footer[_VERSION],
            _SCHEMA: (LIST, Elements(STRUCT, elements)),
            _ROWS: (I64, rows),
            _ROW_GROUPS: (LIST, Elements(STRUCT, [group])),
        }
        if _CREATED_BY in self.footer:
            footer[_CREATED_BY] = self.footer[_CREATED_BY]
        cut = pa.BufferReader(_file(bytes(content[len(_MAGIC) :]), footer))
        read = pq.ParquetFile(cut, pre_buffer=False).read(use_threads=False)
        if read.num_rows != rows:
            raise pa.ArrowInvalid(f"pages have {read.num_rows} rows, their index says {rows}")
        return read

    def _chunk(self, row_group: int, leaf: int) -> Struct:
        chunk: Struct = self.footer[_ROW_GROUPS][1].values[row_group][_CHUNKS][1].values[leaf]
        return chunk

    def _pages_of(self, source: pa.NativeFile, row_group: int, leaf: int) -> _Pages | None:
        key = row_group, leaf
        if key not in self._pages:
            self._pages[key] = self._read_pages(source, row_group, leaf)
        return self._pages[key]

    def _read_pages(self, source: pa.NativeFile, row_group: int, leaf: int) -> _Pages | None:
        chunk = self._chunk(row_group, leaf)
        offset, length = (chunk.get(number, (0, 0))[1] for number in (_INDEX_OFFSET, _INDEX_LENGTH))
        if _META_DATA not in chunk or not offset or not 0 < length <= _MOST_INDEX_BYTES:
            return None
        try:
            index, _ = read_struct(source.read_at(length, offset))
            pages = [[page[number][1] for number in _OF_PAGE] for page in index[_PAGES][1].values]
        except (ValueError, KeyError, AttributeError, TypeError):
            return None
        rows = self.footer[_ROW_GROUPS][1].values[row_group][_ROWS_OF_GROUP][1]
        numbers = np.array(pages, np.int64).reshape(len(pages), len(_OF_PAGE))
        offsets, sizes, first_rows = numbers.T
        firsts = np.append(first_rows, rows)
        if not pages or firsts[0] != 0 or (np.diff(firsts) <= 0).any() or not _is_within(chunk, offsets, sizes):
            return None
        return _Pages(offsets, sizes, firsts)


def _is_within(chunk: Struct, offsets: NDArray[np.int64], sizes: NDArray[np.int64]) -> bool:
    """Whether pages, in their order, are all parts of their column chunk."""
    stored: dict[int, tuple[int, Any]] = chunk[_META_DATA][1]
    begin = stored.get(_DICTIONARY_OFFSET, stored[_DATA_OFFSET])[1]
    end = begin + stored[_COMPRESSED][1]
    ends = offsets + sizes
    in_order = bool((sizes > 0).all()) and bool((offsets[1:] >= ends[:-1]).all())
    return in_order and begin <= int(offsets[0]) and int(ends[-1]) <= end


def _runs(pages: _Pages, chosen: NDArray[np.intp]) -> list[tuple[int, int]]:
    """Offset and bytes of chosen pages; pages that follow each other are joined."""
    runs: list[tuple[int, int]] = []
    for offset, size in zip(pages.offsets[chosen].tolist(), pages.sizes[chosen].tolist(), strict=True):
        if runs and sum(runs[-1]) == offset:
            runs[-1] = runs[-1][0], runs[-1][1] + size
        else:
            runs.append((offset, size))
    return runs


def _flat_leaves(elements: Sequence[Struct]) -> dict[str, int]:
    """Column → number of its leaf, of the columns that are no part of others and have one value in each record."""
    flat, leaf, left = dict[str, int](), 0, list[int]()
    for element in elements[1:]:
        is_top = not left
        if left:
            left[-1] -= 1
        children = element.get(_CHILDREN, (I32, 0))[1]
        if children:
            left.append(children)
        else:
            if is_top and element.get(_REPETITION, (I32, 0))[1] != _REPEATED:
                flat[element[_NAME][1].decode()] = leaf
            leaf += 1
        while left and not left[-1]:
            left.pop()
    return flat


def _file(content: bytes, footer: Struct) -> bytes:
    written = write_struct(footer)
    return b"".join([_MAGIC, content, written, len(written).to_bytes(_LENGTH_BYTES, "little"), _MAGIC])


def read_footer(source: pa.NativeFile) -> pa.Buffer | None:
    """The bytes of a Parquet file's footer; None if there is none, or an encrypted one."""
    size = source.size()
    tail = _LENGTH_BYTES + len(_MAGIC)
    end = source.read_at(tail, max(0, size - tail))
    length = int.from_bytes(end[:_LENGTH_BYTES], "little")
    if len(end) < tail or end[_LENGTH_BYTES:] != _MAGIC or not 0 < length <= size - tail:
        return None
    return pa.py_buffer(source.read_at(length, size - tail - length))
