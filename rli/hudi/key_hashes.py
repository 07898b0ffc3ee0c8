"""Hashes of the record keys of a base file, in the order of its records: they tell in which row a key may be.

The hashes lie between the records and the footer, where Parquet's readers pass over them: 16 bits for each record, little-endian.
An entry of the footer says where. A hash is only a hint: a reader compares the key of each row found by hashes, and reads the
column of keys if no row is found.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Self, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rli.codec.fingerprints import fingerprints
from rli.codec.lengths import by_length
from rli.codec.record_keys import as_items
from rli.json_text import parse_json

Hashes: TypeAlias = NDArray[np.uint16]

BYTES_OF_HASH: Final = 2

_ENTRY: Final = "rli.key_hashes"
"""Of the footer."""

_SHIFT: Final = np.uint64(48)
_STRINGS_AT_ONCE: Final = 1 << 14
"""Strings that stay in the processor's cache."""


def hashes_of(keys: pa.Array) -> Hashes:
    """The hash of each key (string array, shape (n,); a null has that of the empty string)."""
    hashes = np.zeros(len(keys), np.uint16)
    for positions, matrix in by_length(keys):
        if not matrix.shape[1]:
            continue
        for start in range(0, len(positions), _STRINGS_AT_ONCE):
            some = slice(start, start + _STRINGS_AT_ONCE)
            hashes[positions[some]] = fingerprints(as_items(matrix[some])) >> _SHIFT
    return hashes


@dataclass(frozen=True, slots=True)
class StoredHashes:
    """Where the hashes of a base file lie.

    Attributes:
        offset: of the first hash in the file, bytes.
        rows: number of hashes.
    """

    offset: int
    rows: int

    @classmethod
    def from_footer(cls, footer: Mapping[bytes, bytes], file_name: str) -> Self | None:
        """What a footer says; None without an entry for this file: programs that join files may keep that of another one."""
        with suppress(ValueError, KeyError, TypeError):
            content = parse_json(footer[_ENTRY.encode()])
            offset, rows = int(content["offset"]), int(content["rows"])
            if content["file"] == file_name and offset > 0 and rows >= 0:
                return cls(offset, rows)
        return None

    def to_footer(self, file_name: str) -> dict[str, str]:
        """The entry of the footer of a base file."""
        content = {"file": file_name, "offset": self.offset, "rows": self.rows}
        return {_ENTRY: json.dumps(content, ensure_ascii=False)}
