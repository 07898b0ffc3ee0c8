"""Hashes of the record keys of a base file, in the order of its records: they tell in which row a key may be.

They lie between the records and the footer, where Parquet's readers pass over them: 16 bits for each record, little-endian. An
entry of the footer says where, and has a checksum of those of each row group: so a key is absent whose hash is, and a key whose hash
is there is compared.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Self, TypeAlias
from zlib import crc32

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rli.codec.string_fingerprints import string_fingerprints
from rli.json_text import parse_json

Hashes: TypeAlias = NDArray[np.uint16]

_BYTES_OF_HASH: Final = 2

_ENTRY: Final = "rli.key_hashes"
"""Of the footer."""

_SHIFT: Final = np.uint64(48)


def hashes_of(keys: pa.Array) -> Hashes:
    """The hash of each key (string array, shape (n,); a null has that of the empty string)."""
    return (string_fingerprints(keys) >> _SHIFT).astype(np.uint16)


@dataclass(frozen=True, slots=True)
class StoredHashes:
    """Where the hashes of a base file lie.

    Attributes:
        offset: in the file, of the first.
        checksums: CRC-32 of the hashes of each row group.
    """

    offset: int
    checksums: Sequence[int]

    @classmethod
    def write(cls, sink: pa.NativeFile, row_groups: Sequence[Hashes]) -> Self:
        """Write the hashes of each row group to where a file ends so far."""
        contents = [hashes.astype("<u2", copy=False).tobytes() for hashes in row_groups]
        stored = cls(sink.tell(), [*map(crc32, contents)])
        for content in contents:
            sink.write(content)
        return stored

    @classmethod
    def from_footer(cls, footer: Mapping[bytes, bytes], file_name: str) -> Self | None:
        """What a footer says; None without an entry for this file: programs that join files may keep that of another one."""
        with suppress(ValueError, KeyError, TypeError):
            content = parse_json(footer[_ENTRY.encode()])
            if content["file"] == file_name:
                return cls(int(content["offset"]), [*map(int, content["checksums"])])
        return None

    def to_footer(self, file_name: str) -> dict[str, str]:
        """The entry of the footer of a base file."""
        content = {"file": file_name, "offset": self.offset, "checksums": self.checksums}
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
