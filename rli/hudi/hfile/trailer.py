"""The trailer of an HFile: its last 4,096 bytes.

They are a magic of 8 bytes, a message with its length in front, zeros, and the version: minor version in one byte, then
the major version, 3, in three.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

from rli.errors import UnsupportedTableError
from rli.hudi.hfile.blocks import Codec, known_codec
from rli.hudi.hfile.encoding import Cursor, as_message, damaged, with_length

TRAILER_BYTES: Final = 4096

NO_BLOCK: Final = 2**64 - 1
"""Place of a block that is not there: -1 without sign."""

_MAGIC: Final = b'TRABLK"$'
_MAJOR_VERSION: Final = 3
_VERSION_BYTES: Final = 3
_COMPARATOR: Final = b"org.apache.hudi.io.storage.HoodieHBaseKVComparator"
_MOST_LEVELS: Final = 16
"""More than any index has: each level divides the blocks by a hundred and more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trailer:
    """What the trailer says.

    Attributes:
        info: place of the block of file info.
        load_on_open: place of the root index; the data blocks lie before.
        uncompressed_bytes: of all data blocks.
        index_entries: of the root index.
        entries: cells of the file.
        levels: of the index; 1 if the root index names data blocks.
        first_block: place of the first data block, ``NO_BLOCK`` if there is none.
        last_block: place of the last one.
        codec: compression of all blocks.
    """

    info: int
    load_on_open: int
    uncompressed_bytes: int
    index_entries: int
    entries: int
    levels: int
    first_block: int
    last_block: int
    codec: Codec

    @classmethod
    def parse(cls, content: bytes) -> Self:
        """The trailer from its bytes.

        Raises:
            CorruptTableError: they are no trailer.
            UnsupportedTableError: the file has another version or compression.
        """
        cursor = Cursor(content, "the trailer")
        if cursor.take(len(_MAGIC)) != _MAGIC:
            raise damaged("the file does not end with a trailer")
        version = int.from_bytes(content[-_VERSION_BYTES:], "big")
        if version != _MAJOR_VERSION:
            raise UnsupportedTableError(
                f"an HFile has another version: version={version}",
                remedy=f"have it written with version {_MAJOR_VERSION}",
            )
        fields = dict(Cursor(cursor.take(cursor.varint()), "the trailer").message())
        numbers = {number: value for number, value in fields.items() if isinstance(value, int)}
        trailer = cls(
            info=numbers.get(1, 0),
            load_on_open=numbers.get(2, 0),
            uncompressed_bytes=numbers.get(3, 0),
            index_entries=numbers.get(5, 0),
            entries=numbers.get(7, 0),
            levels=numbers.get(8, 0),
            first_block=numbers.get(9, 0),
            last_block=numbers.get(10, 0),
            codec=known_codec(numbers.get(12, Codec.NONE)),
        )
        if not 1 <= trailer.levels <= _MOST_LEVELS:
            raise damaged(f"the trailer gives the index impossible levels: levels={trailer.levels}")
        return trailer

    def encode(self) -> bytes:
        """The bytes of the trailer; the file has no meta blocks."""
        message = as_message([
            (1, self.info), (2, self.load_on_open), (3, self.uncompressed_bytes), (5, self.index_entries), (6, 0),
            (7, self.entries), (8, self.levels), (9, self.first_block), (10, self.last_block), (11, _COMPARATOR), (12, self.codec),
        ])  # fmt: skip
        filled = (_MAGIC + with_length(message)).ljust(TRAILER_BYTES - _VERSION_BYTES, b"\0")
        return filled + _MAJOR_VERSION.to_bytes(_VERSION_BYTES, "big")
