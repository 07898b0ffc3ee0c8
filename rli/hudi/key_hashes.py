"""Hashes of the record keys of a base file, in the order of its records: they tell in which row a key may be.

They lie between the records and the footer, where Parquet's readers pass over them, little-endian:

- the first 16 bits of the hash of each record's key. An entry of the footer says where they begin, and has a checksum of those of each
  row group. So a key is absent whose hash is, and a key whose hash is there is compared;
- behind all of these, where keys are long, the next 32 bits of each hash: its tail. The tails of each row group lie in blocks of
  ``TAILS_IN_BLOCK``, each followed by a CRC-32 seeded with the number of the block in the file, so that a block in the place of another
  one is refused. A key that is not among the million of a
  file shares hash and tail with one of them by a chance of one in 280 million.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple, Self, TypeAlias
from zlib import crc32

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rli.codec.string_fingerprints import string_fingerprints
from rli.json_text import parse_json

Hashes: TypeAlias = NDArray[np.uint16]
Tails: TypeAlias = NDArray[np.uint32]

TAILS_IN_BLOCK: Final = 4_096

_BYTES_OF_HASH: Final = 2
_BYTES_OF_TAIL: Final = 4
_BYTES_OF_BLOCK: Final = TAILS_IN_BLOCK * _BYTES_OF_TAIL
_BYTES_OF_CHECKSUM: Final = 4

_ENTRY: Final = "rli.key_hashes"
"""Of the footer."""

_HASH_SHIFT: Final = np.uint64(48)
_TAIL_SHIFT: Final = np.uint64(16)


class KeyHashes(NamedTuple):
    """The hash of each of some keys, in two parts.

    Attributes:
        hashes: the first 16 bits, shape (n,).
        tails: the next 32 bits, shape (n,).
    """

    hashes: Hashes
    tails: Tails

    @classmethod
    def of(cls, keys: pa.Array) -> Self:
        """The hashes and tails of some keys (string array, shape (n,); a null has those of the empty string)."""
        whole = string_fingerprints(keys)
        return cls((whole >> _HASH_SHIFT).astype(np.uint16), (whole >> _TAIL_SHIFT).astype(np.uint32))


@dataclass(frozen=True, slots=True)
class StoredHashes:
    """Where the hashes of a base file lie.

    Attributes:
        offset: in the file, of the first.
        checksums: CRC-32 of the hashes of each row group.
        tails: offset of the first tail; None if the file has none.
    """

    offset: int
    checksums: Sequence[int]
    tails: int | None = None

    @classmethod
    def write(cls, sink: pa.NativeFile, hashes: Sequence[Hashes], tails: Sequence[Tails] | None) -> Self:
        """Write the hashes of each row group to where a file ends so far, and their tails if they are given."""
        contents = [part.astype("<u2", copy=False).tobytes() for part in hashes]
        offset, checksums = sink.tell(), [*map(crc32, contents)]
        for content in contents:
            sink.write(content)
        of_tails = None if tails is None else sink.tell()
        number = 0
        for part in tails or ():
            content = part.astype("<u4", copy=False).tobytes()
            for start in range(0, len(content), _BYTES_OF_BLOCK):
                block = content[start : start + _BYTES_OF_BLOCK]
                sink.write(block + crc32(block, number).to_bytes(_BYTES_OF_CHECKSUM, "little"))
                number += 1
        return cls(offset, checksums, of_tails)

    @classmethod
    def from_footer(cls, footer: Mapping[bytes, bytes], file_name: str) -> Self | None:
        """What a footer says; None without an entry for this file: programs that join files may keep that of another one."""
        with suppress(ValueError, KeyError, TypeError, OverflowError):
            content = parse_json(footer[_ENTRY.encode()])
            if content["file"] == file_name:
                tails = content.get("tails")
                checksums = [*map(int, content["checksums"])]
                return cls(int(content["offset"]), checksums, None if tails is None else int(tails))
        return None

    def to_footer(self, file_name: str) -> dict[str, str]:
        """The entry of the footer of a base file."""
        content = {"file": file_name, "offset": self.offset, "checksums": self.checksums}
        if self.tails is not None:
            content["tails"] = self.tails
        return {_ENTRY: json.dumps(content, ensure_ascii=False)}

    def place(self, rows: Sequence[int]) -> range:
        """Where the hashes of a row group lie; ``rows`` are the numbers of records of the row groups up to it."""
        start = self.offset + sum(rows[:-1]) * _BYTES_OF_HASH
        return range(start, start + rows[-1] * _BYTES_OF_HASH)

    def checked(self, content: bytes, row_group: int) -> Hashes:
        """The hashes of a row group.

        Raises:
            ValueError: the content of their place differs from the checksum.
        """
        if row_group >= len(self.checksums) or crc32(content) != self.checksums[row_group]:
            raise ValueError(f"hashes of record keys are damaged: row_group={row_group}")
        return np.frombuffer(content, "<u2")

    def block_of_tails(self, rows: Sequence[int], number: int) -> TailBlock:
        """A block of the tails of a row group, by its number there; ``rows`` as for ``place``.

        Raises:
            ValueError: the file has no tails.
        """
        if self.tails is None:
            raise ValueError("a base file has no tails of hashes")
        start = self.tails + sum(map(_bytes_of_tails, rows[:-1])) + _bytes_of_tails(number * TAILS_IN_BLOCK)
        size = _bytes_of_tails(min(TAILS_IN_BLOCK, rows[-1] - number * TAILS_IN_BLOCK))
        return TailBlock(sum(map(_blocks_of, rows[:-1])) + number, range(start, start + size))


class TailBlock(NamedTuple):
    """A block of tails.

    Attributes:
        number: of the block in the file.
        place: where it lies, with its checksum.
    """

    number: int
    place: range

    def checked(self, content: bytes) -> Tails:
        """The tails, given the content of their place.

        Raises:
            ValueError: they differ from their checksum.
        """
        block, checksum = content[:-_BYTES_OF_CHECKSUM], content[-_BYTES_OF_CHECKSUM:]
        if crc32(block, self.number) != int.from_bytes(checksum, "little"):
            raise ValueError(f"tails of hashes of record keys are damaged: block={self.number}")
        return np.frombuffer(block, "<u4")


def _blocks_of(rows: int) -> int:
    """The number of blocks that hold the tails of so many rows of a row group."""
    return -(-rows // TAILS_IN_BLOCK)


def _bytes_of_tails(rows: int) -> int:
    """The bytes of the tails of so many rows of a row group, with their checksums."""
    return rows * _BYTES_OF_TAIL + _blocks_of(rows) * _BYTES_OF_CHECKSUM
