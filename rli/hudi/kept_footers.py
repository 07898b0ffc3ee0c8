"""Footers of base files that a process keeps in memory: look-ups of a few keys come again and again to the same files.

A footer is kept without its key-value metadata, in which Hudi's bloom filter takes more room than all the rest. A path does not
identify a footer, because another engine may write a file again that was rolled back: a footer belongs to a version of a file.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from threading import Lock
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

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
        self._most_bytes = most_bytes
        self._bytes = 0
        self._kept: OrderedDict[Hashable, tuple[FileVersion, KeptFooter]] = OrderedDict()
        self._lock = Lock()

    def forget_after_fork(self) -> None:
        """A thread of the parent may have had the lock, and never gives it back here."""
        self._lock = Lock()
        self._kept, self._bytes = OrderedDict(), 0

    def get(self, storage: Storage, path: str, version: FileVersion) -> KeptFooter | None:
        """The footer of a version of a file, if it is kept; that of another version is forgotten."""
        name = _name(storage, path)
        with self._lock:
            kept_version, footer = self._kept.get(name, (None, None))
            if footer is not None and kept_version == version:
                self._kept.move_to_end(name)
                return footer
            self._forget(name)
        return None

    def keep(self, storage: Storage, path: str, version: FileVersion, footer: KeptFooter) -> None:
        """Keep a footer for the next reader; those that were not needed for the longest time make room."""
        name = _name(storage, path)
        with self._lock:
            self._forget(name)
            self._kept[name] = version, footer
            self._bytes += footer.memory
            while self._bytes > self._most_bytes:
                self._forget(next(iter(self._kept)))

    def _forget(self, name: Hashable) -> None:
        """Called with the lock held."""
        found = self._kept.pop(name, None)
        if found is not None:
            self._bytes -= found[1].memory


FOOTERS: Final = KeptFooters()
"""The footers that this process keeps."""

os.register_at_fork(after_in_child=FOOTERS.forget_after_fork)


def _name(storage: Storage, path: str) -> Hashable:
    if storage.is_local:
        return storage.full_path(path)
    return storage.location, hash(frozenset(storage.options.items())), path
