"""Reads Avro's binary encoding value by value."""

from __future__ import annotations

import struct
from typing import Final

from rli.hudi.log_file.form import damaged

_NUMBER_BITS: Final = 64
_FLOATING: Final = {4: struct.Struct("<f"), 8: struct.Struct("<d")}


class AvroCursor:
    """A place in a content, which moves on with each value. Nothing is read beyond the end.

    Args:
        content: of a block.
        place: where values begin.

    Attributes:
        place: of the next value.
    """

    def __init__(self, content: bytes, place: int) -> None:
        self._content = content
        self.place = place

    def number(self) -> int:
        """The next ``int`` or ``long``, or the branch of a union.

        Raises:
            CorruptTableError: the content ends before the number does, or the number has more than 64 bits.
        """
        number = 0
        for shift in range(0, _NUMBER_BITS, 7):
            byte = self._take(1)[0]
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (number >> 1) ^ -(number & 1)
        raise damaged(f"a number of more than 64 bits: place={self.place}")

    def text(self) -> bytes:
        """The bytes of the next ``string`` or ``bytes``.

        Raises:
            CorruptTableError: they are not there.
        """
        return self._take(self.number())

    def flag(self) -> bool:
        """The next ``boolean``.

        Raises:
            CorruptTableError: the content ends before.
        """
        return self._take(1) != b"\0"

    def floating(self, size: int) -> float:
        """The next ``float`` or ``double``.

        Args:
            size: its bytes, 4 or 8.

        Raises:
            CorruptTableError: the content ends before.
        """
        (value,) = _FLOATING[size].unpack(self._take(size))
        return float(value)

    def block_count(self) -> int:
        """Elements of the next block of an array; 0 at the end of the array.

        Raises:
            CorruptTableError: the content ends before.
        """
        count = self.number()
        if count < 0:
            # The bytes of the block follow, for readers that pass over them.
            self.number()
        return abs(count)

    def _take(self, size: int) -> bytes:
        part = self._content[self.place : self.place + size] if size >= 0 else b""
        if len(part) != size:
            raise damaged(f"a value ends too early: place={self.place} bytes={size}")
        self.place += size
        return part
