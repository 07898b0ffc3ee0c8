"""The small numbers and messages of HFiles: Protocol Buffers, and the integers of Hadoop."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from rli.errors import CorruptTableError

_VARINT: Final = 0
_BYTES: Final = 2
_VARINT_BYTES: Final = 10
"""Of the largest number of 64 bits."""

_HADOOP_LARGEST_BYTE: Final = 127
_HADOOP_POSITIVE: Final = -112
"""A first byte of this less n announces a number of n bytes."""


def damaged(problem: str) -> CorruptTableError:
    """The error for an HFile that is not what it should be.

    Args:
        problem: what is wrong in the file, with the place.
    """
    return CorruptTableError(
        f"an HFile is damaged: {problem}",
        remedy="restore the file, or drop the metadata table and let it be built anew",
    )


_ONE_BYTE: Final = [bytes([number]) for number in range(128)]


class Cursor:
    """Reads the parts of a buffer one after the other, and never beyond its end.

    Args:
        buffer: what is read.
        place: name of the buffer, for messages.
    """

    def __init__(self, buffer: bytes, place: str) -> None:
        self._buffer = buffer
        self._place = place
        self._at = 0

    @property
    def at_end(self) -> bool:
        """Whether all was read."""
        return not self.left

    @property
    def left(self) -> int:
        """Bytes that were not read."""
        return len(self._buffer) - self._at

    def take(self, length: int) -> bytes:
        """The next bytes.

        Raises:
            CorruptTableError: there are fewer.
        """
        end = self._at + length
        if length < 0 or end > len(self._buffer):
            raise damaged(f"{self._place} ends too early: wanted={length} left={self.left}")
        part = self._buffer[self._at : end]
        self._at = end
        return part

    def fixed(self, form: struct.Struct) -> tuple[int, ...]:
        """The next numbers of fixed sizes.

        Raises:
            CorruptTableError: the buffer ends before.
        """
        return form.unpack(self.take(form.size))

    def varint(self) -> int:
        """The next number of Protocol Buffers, of up to 64 bits.

        Raises:
            CorruptTableError: it does not end.
        """
        number = 0
        for position in range(_VARINT_BYTES):
            byte = self.take(1)[0]
            number |= (byte & 127) << 7 * position
            if byte < 128:
                return number
        raise damaged(f"{self._place} holds a number that does not end")

    def hadoop_length(self) -> int:
        """The next length in the form of Hadoop's variable integers.

        Raises:
            CorruptTableError: the number is negative, or the buffer ends before.
        """
        first = struct.unpack("b", self.take(1))[0]
        if first >= 0:
            return int(first)
        size = _HADOOP_POSITIVE - first
        if not 1 <= size <= 8:
            raise damaged(f"{self._place} holds a negative length")
        return int.from_bytes(self.take(size), "big")

    def message(self) -> list[tuple[int, int | bytes]]:
        """The fields of the message that fills the rest: number of the field and value, in their order.

        Raises:
            CorruptTableError: it holds anything but numbers and byte strings.
        """
        fields: list[tuple[int, int | bytes]] = []
        while not self.at_end:
            tag = self.varint()
            if tag & 7 == _VARINT:
                fields.append((tag >> 3, self.varint()))
            elif tag & 7 == _BYTES:
                fields.append((tag >> 3, self.take(self.varint())))
            else:
                raise damaged(f"{self._place} holds a field of an unknown kind: kind={tag & 7}")
        return fields


def as_varint(number: int) -> bytes:
    """A number that is not negative in seven bits a byte, the lowest first, as in Protocol Buffers and Avro."""
    if number < len(_ONE_BYTE):
        return _ONE_BYTE[number]
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def as_hadoop_length(length: int) -> bytes:
    """A length in the form of Hadoop's variable integers."""
    if length <= _HADOOP_LARGEST_BYTE:
        return bytes([length])
    digits = length.to_bytes((length.bit_length() + 7) // 8, "big")
    return struct.pack("b", _HADOOP_POSITIVE - len(digits)) + digits


def as_message(fields: Iterable[tuple[int, int | bytes]]) -> bytes:
    """A message of Protocol Buffers, of pairs of the number of a field and its value."""
    return b"".join(map(_as_field, fields))


def with_length(message: bytes) -> bytes:
    """A message with its length in front."""
    return as_varint(len(message)) + message


def _as_field(field: tuple[int, int | bytes]) -> bytes:
    number, value = field
    if isinstance(value, int):
        return as_varint(number << 3 | _VARINT) + as_varint(value)
    return as_varint(number << 3 | _BYTES) + with_length(value)
