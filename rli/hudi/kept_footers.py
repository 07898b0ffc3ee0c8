"""Footers of base files that a process keeps in memory: look-ups of a few keys come again and again to the same files.

A footer is kept without its key-value metadata, in which Hudi's bloom filter takes more room than all the rest. A path does not
identify a footer, because another engine may write a file again that was rolled back: a footer belongs to a version of a file.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from rli.byte_cache import ByteCache
from rli.hudi.key_hashes import StoredHashes
from rli.hudi.page_cuts import PageCuts
from rli.storage import FileVersion, Storage

_MOST_BYTES: Final = 128 * 1024 * 1024
_MEMORY_OF_BYTE: Final = 8
"""pyarrow takes about so many times the bytes of a footer."""

_MEMORY_OF_ENTRY: Final = 4_096


@dataclass(frozen=True, slots=True)
class KeptFooter:
    """The footer of a base file without its key-value metadata.

    Attributes:
        metadata: the footer.
        cuts: the same, taken apart.
        hashes: where the hashes of the record keys lie; None if the file has none.
    """

    metadata: pq.FileMetaData
    cuts: PageCuts
    hashes: StoredHashes | None

    @classmethod
    def of(cls, metadata: pq.FileMetaData, hashes: StoredHashes | None) -> KeptFooter:
        """A footer to be kept.

        Args:
            metadata: the footer of a file.
            hashes: those that it names.

        Raises:
            ValueError: it cannot be taken apart.
        """
        cuts = PageCuts.of(metadata)
        return cls(pq.read_metadata(pa.BufferReader(cuts.without_key_values)), cuts, hashes)

    @property
    def memory(self) -> int:
        """About how many bytes it takes, with the places of pages that are still to be found."""
        return _MEMORY_OF_ENTRY + len(self.cuts.without_key_values) * _MEMORY_OF_BYTE + self.cuts.memory


class KeptFooters:
    """The footers that were needed last, up to an amount of memory. Threads may share it.

    Args:
        most_bytes: of memory.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._kept = ByteCache[tuple[FileVersion, KeptFooter]](most_bytes, _memory_of)

    def get(self, storage: Storage, path: str, version: FileVersion) -> KeptFooter | None:
        """The footer of a version of a file, if it is kept."""
        kept_version, footer = self._kept.get(_name(storage, path)) or (None, None)
        return footer if kept_version == version else None

    def keep(self, storage: Storage, path: str, version: FileVersion, footer: KeptFooter) -> None:
        """Keep a footer for the next reader, in the place of that of another version."""
        self._kept.keep(_name(storage, path), (version, footer))


def _memory_of(kept: tuple[FileVersion, KeptFooter]) -> int:
    return kept[1].memory


FOOTERS: Final = KeptFooters()
"""The footers that this process keeps."""


def _name(storage: Storage, path: str) -> Hashable:
    if storage.is_local:
        return storage.full_path(path)
    return storage.location, hash(frozenset(storage.options.items())), path
