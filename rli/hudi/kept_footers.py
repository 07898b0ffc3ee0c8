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
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from rli.hudi.key_hashes import StoredHashes
from rli.hudi.page_cuts import PageCuts, read_footer
from rli.storage import Storage

Version: TypeAlias = tuple[int | None, ...]
"""Tells a file from any other one at its path."""

_MOST_BYTES: Final = 128 * 1024 * 1024
_MEMORY_OF_BYTE: Final = 32
"""Bytes of memory for each byte of a footer that is taken apart, about."""


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
    def read(cls, source: pa.NativeFile, metadata: pq.FileMetaData, hashes: StoredHashes | None) -> KeptFooter | None:
        """The footer of a file; None if it cannot be taken apart.

        Args:
            source: the file.
            metadata: its footer.
            hashes: where the footer says that they lie.
        """
        chunks = metadata.num_row_groups * metadata.num_columns
        footer = read_footer(source)
        cuts = None if footer is None else PageCuts.of(footer, chunks)
        if cuts is None:
            return None
        return cls(pq.read_metadata(pa.BufferReader(cuts.without_key_values)), cuts, hashes)

    @property
    def memory(self) -> int:
        """About how many bytes it takes."""
        return len(self.cuts.without_key_values) * _MEMORY_OF_BYTE


class KeptFooters:
    """The footers that were needed last, up to an amount of memory. Threads may share it.

    Args:
        most_bytes: of memory.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._kept: OrderedDict[Hashable, tuple[Version, KeptFooter]] = OrderedDict()
        self._lock = Lock()

    def version(self, storage: Storage, path: str, *, wanted: bool = False) -> Version | None:
        """The version of a file. Ask for it before the file is opened.

        Args:
            storage: of the file.
            path: of the file.
            wanted: whether to ask an object store also for a file whose footer is not kept: that takes a request.

        Returns:
            None if there is no file, or the store was not asked.
        """
        if storage.is_local:
            return _local_version(storage, path)
        with self._lock:
            is_kept = _name(storage, path) in self._kept
        return _version(storage, path) if is_kept or wanted else None

    def get(self, storage: Storage, path: str, version: Version | None) -> KeptFooter | None:
        """The footer of a version of a file, None if it is not kept. The footer of another version is forgotten."""
        name = _name(storage, path)
        with self._lock:
            kept_version, footer = self._kept.get(name, (None, None))
            if footer is not None and kept_version == version:
                self._kept.move_to_end(name)
                return footer
            self._forget(name)
        return None

    def keep(self, storage: Storage, path: str, version: Version, footer: KeptFooter) -> None:
        """Keep a footer for the next reader. The footers that were unused for the longest time make room."""
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


def _name(storage: Storage, path: str) -> Hashable:
    if storage.is_local:
        return storage.full_path(path)
    return storage.location, hash(frozenset(storage.options.items())), path


def _local_version(storage: Storage, path: str) -> Version | None:
    try:
        found = os.stat(storage.full_path(path))
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _version(storage: Storage, path: str) -> Version | None:
    info = storage.filesystem.get_file_info(storage.full_path(path))
    return None if info.type is fs.FileType.NotFound else (info.size, info.mtime_ns)
