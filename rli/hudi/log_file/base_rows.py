"""Positions in the base file of the records that a block changes: readers of rli find these records by them, and not by their keys.

Other engines pass over them. A block of records has them in the footer of its Parquet file, a block of deletes behind its list.
They hold for one base file, which they name: behind a compaction or a clustering, records are found by their keys again.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Self
from zlib import crc32

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rli.json_text import parse_json

UNKNOWN: Final = -1
"""Position of a record that is not in the base file."""

_ENTRY: Final = "rli.base_rows"
"""Of the footer of a Parquet file."""

_CODEC: Final = pa.Codec("zstd")
_STORED: Final = np.dtype("<i4")
_MOST: Final = np.iinfo(_STORED).max - 1
"""Differences of positions fit, also that of ``UNKNOWN``."""


@dataclass(frozen=True, slots=True)
class BaseRows:
    """The positions of a block's records, in the order of the block.

    Attributes:
        file_name: of the base file.
        rows: positions in it, shape (n,); ``UNKNOWN`` for a record that it lacks.
    """

    file_name: str
    rows: NDArray[np.int64]

    def part(self, start: int, count: int) -> Self:
        """The positions of some consecutive records."""
        return type(self)(self.file_name, self.rows[start : start + count])

    def to_footer(self) -> dict[str, str]:
        """The entry of a footer; none if a position is too great for it."""
        return {_ENTRY: self._text()} if self._fits() else {}

    def to_tail(self) -> bytes:
        """What stands behind a list of deletes; nothing if a position is too great for it."""
        return self._text().encode() if self._fits() else b""

    @classmethod
    def from_footer(cls, footer: Mapping[bytes, bytes] | None, records: int) -> Self | None:
        """What a footer says; None if it says nothing, or is damaged.

        Args:
            footer: key-value metadata.
            records: of the block.
        """
        return cls.from_tail((footer or {}).get(_ENTRY.encode(), b""), records)

    @classmethod
    def from_tail(cls, content: bytes, records: int) -> Self | None:
        """What stands behind a list of deletes; None if nothing does, or it is damaged.

        Args:
            content: the bytes behind the list.
            records: of the block.
        """
        with suppress(ValueError, KeyError, TypeError, OSError, pa.ArrowException):
            entry = parse_json(content)
            packed = base64.b64decode(entry["rows"], validate=True)
            if crc32(packed) == entry["checksum"] and records == entry["records"]:
                return cls(str(entry["file"]), _unpacked(packed, records))
        return None

    def _fits(self) -> bool:
        return bool(len(self.rows) and self.rows.max() <= _MOST)

    def _text(self) -> str:
        packed = _packed(self.rows)
        rows = base64.b64encode(packed).decode()
        entry = {"file": self.file_name, "records": len(self.rows), "rows": rows, "checksum": crc32(packed)}
        return json.dumps(entry, ensure_ascii=False)


def _packed(rows: NDArray[np.int64]) -> bytes:
    """Differences of neighbours, compressed: first the lowest bytes of all, then the next ones."""
    differences = np.diff(rows, prepend=0).astype(_STORED)
    return bytes(_CODEC.compress(_by_byte(differences.view(np.uint8), len(rows)).tobytes(), asbytes=True))


def _unpacked(packed: bytes, records: int) -> NDArray[np.int64]:
    content = _CODEC.decompress(packed, decompressed_size=records * _STORED.itemsize, asbytes=True)
    columns = np.frombuffer(content, np.uint8).reshape(_STORED.itemsize, records)
    return np.cumsum(np.ascontiguousarray(columns.T).view(_STORED).ravel(), dtype=np.int64)


def _by_byte(content: NDArray[np.uint8], records: int) -> NDArray[np.uint8]:
    return np.ascontiguousarray(content.reshape(records, _STORED.itemsize).T)
