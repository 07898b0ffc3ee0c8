"""Parts of a file: a window that moves over it, and a section that looks like a file of its own."""

from __future__ import annotations

import io
from typing import Any, BinaryIO, Final

_WINDOW_BYTES: Final = 64 << 10
"""Read at once: the headers of a block of the metadata table, with its schema, take 10 KB."""


class Window:
    """Small reads near each other, of which most are one read of the file.

    Args:
        source: the file, seekable.
        size: its bytes.
    """

    def __init__(self, source: BinaryIO, size: int) -> None:
        self._source = source
        self._size = size
        self._start = 0
        self._content = b""

    def take(self, place: int, length: int) -> bytes:
        """Bytes of the file, fewer at its end.

        Args:
            place: of the first.
            length: at most so many.
        """
        length = max(0, min(length, self._size - place))
        if not self._start <= place <= self._start + len(self._content) - length:
            self._source.seek(place)
            self._start = place
            self._content = self._source.read(min(max(length, _WINDOW_BYTES), self._size - place))
        at = place - self._start
        return self._content[at : at + length]

    def find(self, wanted: bytes, place: int) -> int:
        """Place of the next occurrence; the end of the file if there is none.

        Args:
            wanted: short.
            place: where the search begins.
        """
        while place + len(wanted) <= self._size:
            if not self.take(place, len(wanted)):
                break
            found = self._content.find(wanted, place - self._start)
            if found >= 0:
                return self._start + found
            # An occurrence may lie across the end of the window.
            place = max(place + 1, self._start + len(self._content) - len(wanted) + 1)
        return self._size


class Section(io.RawIOBase):
    """Bytes of a file as a file of their own, opened for reading.

    Args:
        source: the whole file, seekable; it stays open.
        start: place of the first byte.
        size: number of bytes.
    """

    def __init__(self, source: BinaryIO, start: int, size: int) -> None:
        self._source = source
        self._start = start
        self._size = size
        self._place = 0

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def tell(self) -> int:
        """Place of the next byte."""
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move; returns the place."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        self._place = max(0, start + offset)
        return self._place

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer as far as there are bytes; returns their number."""
        content = self._next(len(buffer))
        buffer[: len(content)] = content
        return len(content)

    def readall(self) -> bytes:
        """The bytes that are left."""
        return self._next(self._size)

    def _next(self, size: int) -> bytes:
        self._source.seek(self._start + self._place)
        content = self._source.read(max(0, min(size, self._size - self._place)))
        self._place += len(content)
        return content
