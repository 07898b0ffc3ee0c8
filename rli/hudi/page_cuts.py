"""Cuts the pages with some rows out of a Parquet file, and reads them as a small Parquet file.

pyarrow decodes a row group from its beginning. Offset indexes say which rows each page has, so the pages with the wanted rows, put
behind the dictionary of their column, need a footer alone. The header of each page tells whether it has as many rows as the offset index
says; whatever is not as expected is a ``ValueError``, and the caller reads the whole row group. Sources of the format: parquet.thrift and PageIndex.md of
https://github.com/apache/parquet-format.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from rli.hudi.thrift_compact import (
    BINARY,
    I32,
    I64,
    LIST,
    STRUCT,
    Elements,
    Struct,
    read_struct,
    structs_of,
    value_of,
    write_struct,
)

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
_TYPE: Final = 1
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
_PAGE_OFFSET: Final = 1
_PAGE_BYTES: Final = 2
_PAGE_FIRST_ROW: Final = 3
# Fields of PageHeader, and of the header of its kind.
_PAGE_KIND: Final = 1
_PAGE_COMPRESSED: Final = 3
_PAGE_VALUES: Final = 1
_DICTIONARY_KIND: Final = 2
_KINDS: Final = {0: 5, _DICTIONARY_KIND: 7, 3: 8}
"""Kind of a page → field of PageHeader with more of it."""

_MOST_CHUNKS: Final = 4_096
"""Column chunks of a footer that is taken apart, at most: with more, this takes longer than it saves."""

_MOST_INDEX_BYTES: Final = 1 << 20
"""Of an offset index, at most: a forged footer may name more."""

_MEMORY_OF_CHUNK: Final = 2_048
_MEMORY_OF_INDEX_BYTE: Final = 6
"""An entry of an offset index has three bytes or more, and takes 16 as a page of ``_Pages``."""

Rows: TypeAlias = NDArray[np.intp]

Read: TypeAlias = Callable[[Sequence[range]], Sequence[bytes]]
"""Reads ranges of a file, all of them together."""


class _Chunk(NamedTuple):
    """A column of a row group.

    Attributes:
        described: type, encodings, path and codec.
        begin: of its dictionary, or of its pages if it has none.
        first_page: offset of its first data page.
        end: offset behind its last page.
        places: where its offset index lies.
    """

    described: Struct
    begin: int
    first_page: int
    end: int
    places: range

    @classmethod
    def of(cls, fields: Struct) -> _Chunk:
        stored: Struct = value_of(fields, _META_DATA, STRUCT)
        first_page = begin = value_of(stored, _DATA_OFFSET, I64)
        if _DICTIONARY_OFFSET in stored:
            begin = value_of(stored, _DICTIONARY_OFFSET, I64)
        offset, length = 0, 0
        if _INDEX_OFFSET in fields:
            offset, length = value_of(fields, _INDEX_OFFSET, I64), value_of(fields, _INDEX_LENGTH, I32)
        described: Struct = {number: stored[number] for number in _KEPT if number in stored}
        end = begin + value_of(stored, _COMPRESSED, I64)
        return cls(described, begin, first_page, end, range(offset, offset + length))


class _Pages(NamedTuple):
    """The data pages of a column chunk.

    Attributes:
        starts: where each begins in the file, and where the last one ends, shape (pages + 1,).
        first_rows: of each page within the row group, and how many rows there are in all, shape (pages + 1,).
    """

    starts: NDArray[np.int64]
    first_rows: NDArray[np.int64]

    @classmethod
    def of(cls, index: bytes, chunk: _Chunk, rows: int) -> _Pages:
        """The pages that an offset index names: they have to be all of the chunk, one behind the other."""
        fields, _ = read_struct(index)
        found = [
            (value_of(page, _PAGE_OFFSET, I64), value_of(page, _PAGE_BYTES, I32), value_of(page, _PAGE_FIRST_ROW, I64))
            for page in structs_of(fields, _PAGES)
        ]
        offsets, sizes, first_rows = np.array(found, np.int64).reshape(-1, 3).T
        pages = cls(np.append(offsets, chunk.end), np.append(first_rows, rows))
        is_whole = pages.starts[0] == chunk.first_page and (np.diff(pages.starts) == sizes).all() and (sizes > 0).all()
        if not is_whole or pages.first_rows[0] != 0 or (np.diff(pages.first_rows) <= 0).any():
            raise ValueError("an offset index names other pages than those of its column")
        return pages


class _Chosen(NamedTuple):
    """What is read of a column: its dictionary, if it has one, and the pages with wanted rows.

    Attributes:
        chunk: the column of the row group.
        ranges: of the dictionary and the pages.
        rows: of each page, the first one and that behind its last one, shape (2, pages).
    """

    chunk: _Chunk
    ranges: Sequence[range]
    rows: NDArray[np.int64]

    @classmethod
    def of(cls, chunk: _Chunk, pages: _Pages, numbers: NDArray[np.intp]) -> _Chosen:
        """The pages with some numbers, rising."""
        ranges = [range(*pages.starts[page : page + 2].tolist()) for page in numbers.tolist()]
        if chunk.begin != chunk.first_page:
            ranges = [range(chunk.begin, chunk.first_page), *ranges]
        return cls(chunk, ranges, np.stack([pages.first_rows[numbers], pages.first_rows[numbers + 1]]))

    def require_headers(self, contents: Sequence[bytes]) -> None:
        """Raise ``ValueError`` if what was read is not the dictionary and pages with so many values."""
        wanted: list[int | None] = np.diff(self.rows, axis=0)[0].tolist()
        if len(contents) > len(wanted):
            wanted.insert(0, None)
        for content, rows in zip(contents, wanted, strict=True):
            header, end = read_struct(content)
            kind = value_of(header, _PAGE_KIND, I32)
            if (kind == _DICTIONARY_KIND) != (rows is None) or kind not in _KINDS:
                raise ValueError(f"a page is of another kind: kind={kind}")
            values = value_of(value_of(header, _KINDS[kind], STRUCT), _PAGE_VALUES, I32)
            if end + value_of(header, _PAGE_COMPRESSED, I32) != len(content) or rows not in (None, values):
                raise ValueError(f"a page differs from its offset index: values={values} rows={rows}")


@dataclass(frozen=True, slots=True)
class PageCuts:
    """The footer of a Parquet file, taken apart.

    Attributes:
        without_key_values: the footer without its key-value metadata, but for Arrow's schema, as the whole of a file.
    """

    without_key_values: bytes
    _head: Struct
    _root: Struct
    _flat: Mapping[str, tuple[int, Struct]]
    _row_groups: Sequence[tuple[int, Sequence[_Chunk]]]
    _pages: dict[tuple[int, str], _Pages] = field(default_factory=dict)

    @classmethod
    def of(cls, metadata: pq.FileMetaData) -> PageCuts:
        """Take a footer apart.

        Raises:
            ValueError: it has too many column chunks, or cannot be understood.
        """
        if metadata.num_row_groups * metadata.num_columns > _MOST_CHUNKS:
            raise ValueError("a footer has too many column chunks")
        sink = pa.BufferOutputStream()
        metadata.write_metadata_file(sink)
        fields, _ = read_struct(sink.getvalue().to_pybytes(), len(_MAGIC))
        arrow = []
        if _KEY_VALUES in fields:
            entries = structs_of(fields, _KEY_VALUES)
            arrow = [entry for entry in entries if value_of(entry, _KEY, BINARY) == _ARROW_SCHEMA]
            fields[_KEY_VALUES] = LIST, Elements(STRUCT, arrow)
        elements = structs_of(fields, _SCHEMA)
        leaves = _leaves(elements)
        flat = {} if arrow else {name: (n, leaf) for n, (name, leaf) in enumerate(leaves) if name is not None}
        row_groups = []
        for group in structs_of(fields, _ROW_GROUPS):
            chunks = structs_of(group, _CHUNKS)
            if len(chunks) != len(leaves):
                raise ValueError(f"a row group has {len(chunks)} columns, the schema {len(leaves)}")
            row_groups.append((value_of(group, _ROWS_OF_GROUP, I64), [*map(_Chunk.of, chunks)]))
        head: Struct = {number: fields[number] for number in (_VERSION, _CREATED_BY) if number in fields}
        return cls(_file(b"", fields), head, elements[0], flat, row_groups)

    @property
    def memory(self) -> int:
        """How many bytes it takes at most, with the places of all pages."""
        chunks = [chunk for _, group in self._row_groups for chunk in group]
        index_bytes = sum(min(len(chunk.places), _MOST_INDEX_BYTES) for chunk in chunks)
        return len(self.without_key_values) + len(chunks) * _MEMORY_OF_CHUNK + index_bytes * _MEMORY_OF_INDEX_BYTE

    def rows(self, read: Read, row_group: int, columns: Sequence[str], rows: Rows) -> pa.Table:
        """Some rows of a row group.

        Args:
            read: reads the file. It is called once, or twice where it has to find out which pages there are.
            row_group: its number.
            columns: names; at least one.
            rows: numbers within the row group, rising, shape (n,), at least one.

        Returns:
            Shape (n, columns), in the order of ``columns``.

        Raises:
            ValueError, OSError, pyarrow.ArrowException: the file does not tell where the pages are, a column is part of another one
                or has several values in a record, or something cannot be read or is damaged.
        """
        chunks = {name: self._chunk(row_group, name) for name in columns}
        self._know_pages(read, row_group, chunks)
        # Most columns of a file have pages of the same rows.
        numbers_of = cache(partial(_pages_with, rows))
        chosen: dict[str, _Chosen] = {}
        for name, chunk in chunks.items():
            pages = self._pages[row_group, name]
            chosen[name] = _Chosen.of(chunk, pages, numbers_of(pages.first_rows.tobytes()))
        contents = iter(read([place for one in chosen.values() for place in one.ranges]))
        # Columns whose chosen pages have the same rows are read together.
        alike: dict[bytes, dict[str, Sequence[bytes]]] = {}
        for name, one in chosen.items():
            parts = [next(contents) for _ in one.ranges]
            one.require_headers(parts)
            alike.setdefault(one.rows.tobytes(), {})[name] = parts
        found: dict[str, pa.ChunkedArray] = {}
        for together in alike.values():
            covered = chosen[next(iter(together))].rows
            lengths = np.diff(covered, axis=0)[0]
            page = np.searchsorted(covered[0], rows, side="right") - 1
            places = rows - covered[0][page] + (np.cumsum(lengths) - lengths)[page]
            cut = self._cut({name: (chunks[name], parts) for name, parts in together.items()}, int(lengths.sum()))
            found.update(zip(cut.column_names, cut.take(pa.array(places)).columns, strict=True))
        return pa.table({name: found[name] for name in columns})

    def _cut(self, columns: Mapping[str, tuple[_Chunk, Sequence[bytes]]], rows: int) -> pa.Table:
        """The rows of some pages, the same rows of each column."""
        content, chunks, elements = bytearray(), list[Struct](), [{**self._root, _CHILDREN: (I32, len(columns))}]
        for name, (chunk, parts) in columns.items():
            start = len(_MAGIC) + len(content)
            content += b"".join(parts)
            described = dict(chunk.described)
            if chunk.begin != chunk.first_page:
                described[_DICTIONARY_OFFSET] = I64, start
            described[_DATA_OFFSET] = I64, start + chunk.first_page - chunk.begin
            length = I64, sum(map(len, parts))
            described |= {_VALUES: (I64, rows), _UNCOMPRESSED: length, _COMPRESSED: length}
            chunks.append({_FILE_OFFSET: (I64, start), _META_DATA: (STRUCT, described)})
            elements.append(self._flat[name][1])
        group = {
            _CHUNKS: (LIST, Elements(STRUCT, chunks)),
            _BYTES_OF_GROUP: (I64, len(content)),
            _ROWS_OF_GROUP: (I64, rows),
        }
        footer = {
            **self._head,
            _SCHEMA: (LIST, Elements(STRUCT, elements)),
            _ROWS: (I64, rows),
            _ROW_GROUPS: (LIST, Elements(STRUCT, [group])),
        }
        source = pa.BufferReader(_file(bytes(content), footer))
        read = pq.ParquetFile(source, pre_buffer=False, page_checksum_verification=True).read(use_threads=False)
        if read.num_rows != rows:
            raise ValueError(f"pages have {read.num_rows} rows, their index says {rows}")
        return read

    def _chunk(self, row_group: int, name: str) -> _Chunk:
        if name not in self._flat:
            raise ValueError(f"a column is no single value of each record: column={name}")
        return self._row_groups[row_group][1][self._flat[name][0]]

    def _know_pages(self, read: Read, row_group: int, chunks: Mapping[str, _Chunk]) -> None:
        """Find out which pages some columns have, where that is not known yet."""
        missing = {name: chunk for name, chunk in chunks.items() if (row_group, name) not in self._pages}
        if not missing:
            return
        places = [chunk.places for chunk in missing.values()]
        if not all(0 < len(place) <= _MOST_INDEX_BYTES for place in places):
            raise ValueError("a column has no offset index")
        for (name, chunk), index in zip(missing.items(), read(places), strict=True):
            self._pages[row_group, name] = _Pages.of(index, chunk, self._row_groups[row_group][0])


def _pages_with(rows: Rows, first_rows: bytes) -> NDArray[np.intp]:
    """The numbers of the pages with some rows, rising, given the first row of each page and the number of rows, as bytes for a cache."""
    firsts = np.frombuffer(first_rows, np.int64)
    if rows[-1] >= firsts[-1]:
        raise ValueError(f"a row group has fewer rows: row={rows[-1]} rows={firsts[-1]}")
    return np.unique(np.searchsorted(firsts, rows, side="right") - 1)


def _leaves(elements: Sequence[Struct]) -> list[tuple[str | None, Struct]]:
    """The schema element of each column; with a name if it is no part of another one and has one value in each record."""
    found, left = list[tuple[str | None, Struct]](), [value_of(elements[0], _CHILDREN, I32)] if elements else []
    for element in elements[1:]:
        while left and not left[-1]:
            left.pop()
        if not left:
            break
        left[-1] -= 1
        children = value_of(element, _CHILDREN, I32) if _CHILDREN in element else 0
        if children:
            left.append(children)
            continue
        value_of(element, _TYPE, I32)
        is_flat = len(left) == 1 and value_of(element, _REPETITION, I32) != _REPEATED
        found.append((value_of(element, _NAME, BINARY).decode() if is_flat else None, element))
    if not left or any(left):
        raise ValueError("the elements of a schema are no tree")
    return found


def _file(content: bytes, footer: Struct) -> bytes:
    written = write_struct(footer)
    return b"".join([_MAGIC, content, written, len(written).to_bytes(_LENGTH_BYTES, "little"), _MAGIC])
