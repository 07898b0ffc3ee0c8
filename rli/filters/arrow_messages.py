"""What pyarrow's serialised expressions hold, read without running them.

A pickled ``pyarrow.compute.Expression`` is an Arrow IPC file of one record: its columns are the literals and options, the
metadata of its schema is the expression in prefix order, ``call equal, field_ref x, literal 0, end equal``. A name occurs
many times in this metadata. pyarrow gives it as a dictionary, so it is read here from the schema's bytes (FlatBuffers).
Source: https://github.com/apache/arrow/blob/main/format/Schema.fbs and
https://flatbuffers.dev/internals/.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

_MAGIC: Final = b"ARROW1\0\0"
_HEADER_OF_MESSAGE: Final = 2
_METADATA_OF_SCHEMA: Final = 2


@dataclass(frozen=True, slots=True)
class SerialisedExpression:
    """A pyarrow expression in parts.

    Attributes:
        tokens: kind and text of each part, in prefix order.
        constants: the literals and options, a column for each.
    """

    tokens: list[tuple[str, str]]
    constants: pa.Table

    @classmethod
    def of(cls, expression: pc.Expression) -> SerialisedExpression:
        """The parts of an expression.

        Raises:
            ValueError: it is not serialised in this form; also LookupError, TypeError, struct.error and
                pyarrow.ArrowException.
        """
        _, (buffer,) = expression.__reduce__()
        data = bytes(buffer)
        if not data.startswith(_MAGIC):
            raise ValueError("no Arrow IPC file")
        message = pa.ipc.read_message(pa.py_buffer(data[len(_MAGIC) :]))
        return cls(_metadata(bytes(message.metadata)), pa.ipc.open_file(buffer).read_all())

    def constant(self, number: str) -> pa.Scalar:
        """A literal, or the options of a call as a struct."""
        return self.constants.column(int(number))[0]


def _metadata(message: bytes) -> list[tuple[str, str]]:
    """The key-value pairs of a message's schema."""
    header = _followed(message, _field(message, _followed(message, 0), _HEADER_OF_MESSAGE))
    pairs = _followed(message, _field(message, header, _METADATA_OF_SCHEMA))
    entries = [_followed(message, pairs + 4 + 4 * number) for number in range(_number(message, pairs))]
    return [
        (_string(message, _field(message, entry, 0)), _string(message, _field(message, entry, 1))) for entry in entries
    ]


def _field(data: bytes, table: int, number: int) -> int:
    """Where a field of a table is."""
    (back,) = struct.unpack_from("<i", data, table)
    size, slot = *struct.unpack_from("<H", data, table - back), 4 + 2 * number
    (offset,) = struct.unpack_from("<H", data, table - back + slot) if slot < size else (0,)
    if not offset:
        raise ValueError("a field is missing")
    return table + int(offset)


def _followed(data: bytes, position: int) -> int:
    """Where an offset at a position leads."""
    return position + _number(data, position)


def _string(data: bytes, position: int) -> str:
    begin = _followed(data, position)
    return data[begin + 4 : begin + 4 + _number(data, begin)].decode()


def _number(data: bytes, position: int) -> int:
    (number,) = struct.unpack_from("<I", data, position)
    return int(number)
