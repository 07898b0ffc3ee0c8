"""Reading of log files, a block at a time."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO, Final

from rli.errors import UnsupportedTableError
from rli.hudi.log_file.form import FORM_VERSION, INT, LONG, MAGIC, TWO_INTS, BlockKind, Header, damaged
from rli.hudi.log_file.sources import Section, Window

_START: Final = len(MAGIC) + LONG.size
"""Bytes of a block that its size leaves out."""

_SMALLEST: Final = TWO_INTS.size + INT.size + LONG.size + INT.size + LONG.size
"""Bytes of a block without entries and content, as its size counts them."""


@dataclass(frozen=True, slots=True)
class LogBlock:
    """A block whose header is in memory; the content is read on demand.

    Attributes:
        kind: what the content is; ``CORRUPT`` for the bytes of a writer that died: they are no whole block.
        headers: entries of the header by their numbers, of ``Header`` as far as known; empty if corrupt.
        size: bytes of the content; 0 if corrupt.
        place: of the content in the file; of the first byte if corrupt.
    """

    kind: BlockKind
    headers: Mapping[int, str]
    size: int
    _source: BinaryIO = field(repr=False)
    place: int

    def open(self) -> BinaryIO:
        """The content as a file, whose parts are read as they are asked for."""
        return io.BufferedReader(Section(self._source, self.place, self.size))

    def content(self) -> bytes:
        """The whole content.

        Raises:
            CorruptTableError: the file has become shorter.
        """
        content = Section(self._source, self.place, self.size).readall()
        if len(content) != self.size:
            raise damaged(f"the content of a block ends too early: place={self.place} wanted={self.size}")
        return content

    def header(self, name: Header) -> str:
        """An entry of the header.

        Raises:
            CorruptTableError: the block lacks it.
        """
        value = self.headers.get(name)
        if value is None:
            raise damaged(f"a block lacks an entry of its header: kind={self.kind.name} entry={name.name}")
        return value


class LogFileReader:
    """A log file, of which one header at a time is in memory.

    >>> import io
    >>> from rli.hudi.log_file.delete_block import NO_DELETES, delete_block
    >>> file = io.BytesIO(delete_block("20250102030405006", NO_DELETES))
    >>> [block.kind.name for block in LogFileReader(file, len(file.getvalue())).blocks()]
    ['DELETE']

    Args:
        source: the file, seekable; it stays open, and must do so while contents of its blocks are read.
        size: its bytes; the file may have grown since.
    """

    def __init__(self, source: BinaryIO, size: int) -> None:
        self._source = source
        self._size = size
        self._window = Window(source, size)

    def blocks(self) -> Iterator[LogBlock]:
        """The blocks in their order. Bytes between whole blocks are a block of kind ``CORRUPT``.

        Raises:
            CorruptTableError: a whole block is damaged inside.
            UnsupportedTableError: a block has a form that Hudi does not write up to table version 9.
        """
        place = 0
        while place < self._size:
            end = self._end_of(place)
            if end is None:
                yield LogBlock(BlockKind.CORRUPT, {}, 0, self._source, place)
                place = self._window.find(MAGIC, place + 1)
            else:
                yield self._block(place, end)
                place = end

    def _end_of(self, place: int) -> int | None:
        """End of the block at a place; None if there is no whole block."""
        start = self._window.take(place, _START)
        if len(start) < _START or not start.startswith(MAGIC):
            return None
        (size,) = LONG.unpack_from(start, len(MAGIC))
        end: int = place + _START + size
        if size < _SMALLEST or end > self._size:
            return None
        # The last number of the block, and the magic of the next one, or less than a magic at the end of the file. As Hudi
        # judges. Read beside the window, which stays at the block.
        closing = Section(self._source, end - LONG.size, min(_START, self._size - end + LONG.size)).readall()
        is_closed = closing[: LONG.size] == LONG.pack(size + len(MAGIC))
        return end if is_closed and (len(closing) < _START or closing.endswith(MAGIC)) else None

    def _block(self, start: int, end: int) -> LogBlock:
        version, kind = TWO_INTS.unpack(self._window.take(start + _START, TWO_INTS.size))
        if version != FORM_VERSION or kind not in set(BlockKind):
            raise UnsupportedTableError(
                f"a block of a log file has a form that rli does not read: version={version} kind={kind}",
                remedy="downgrade the table to version 9 with Hudi's command line (downgrade table)",
            )
        header = _Header(self._window, start + _START + TWO_INTS.size, end - LONG.size)
        entries = header.entries()
        (size,) = LONG.unpack(header.take(LONG.size))
        if not 0 <= size <= header.left - INT.size:
            raise damaged(f"the content of a block is longer than the block: place={start} bytes={size}")
        return LogBlock(BlockKind(kind), entries, size, self._source, header.place)


class _Header:
    """Reads the parts of a block in front of its content, and never beyond the block's end."""

    def __init__(self, window: Window, place: int, end: int) -> None:
        self._window = window
        self.place = place
        self._end = end

    @property
    def left(self) -> int:
        return self._end - self.place

    def entries(self) -> dict[int, str]:
        (count,) = INT.unpack(self.take(INT.size))
        if count < 0:
            raise damaged(f"a header has a negative number of entries: place={self.place} entries={count}")
        entries = {}
        for _ in range(count):
            name, length = TWO_INTS.unpack(self.take(TWO_INTS.size))
            try:
                entries[name] = self.take(length).decode()
            except UnicodeDecodeError as error:
                raise damaged(f"an entry of a header is no string: place={self.place} entry={name}") from error
        return entries

    def take(self, length: int) -> bytes:
        if not 0 <= length <= self.left:
            raise damaged(f"a part of a header is longer than its block: place={self.place} bytes={length}")
        part = self._window.take(self.place, length)
        self.place += length
        if len(part) != length:
            raise damaged(f"the file ends too early: place={self.place}")
        return part
