"""What is known of the record keys of file slices before they are read: key ranges and bloom filters."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Final, Protocol

from rli.hudi.bloom_filter import BloomFilter
from rli.view.file_slice_reader import only_base_file
from rli.view.file_slices import FileSlice
from rli.view.slice_reader import SliceReader

_KEPT_BYTES: Final = 64 * 1024 * 1024
"""Of statistics that an index keeps: those of files with about 12 million records."""

_BYTES_BESIDE_FILTER: Final = 500


@dataclass(frozen=True, slots=True)
class KeyStatistics:
    """Of the record keys of one file slice.

    Attributes:
        key_range: the least and the greatest one, in the order of UTF-8 bytes or of UTF-16 code units; None if unknown.
        bloom_filter: of all of them; None if there is none.
    """

    key_range: tuple[str, str] | None
    bloom_filter: BloomFilter | None

    @property
    def nbytes(self) -> int:
        """About what they take in memory."""
        return _BYTES_BESIDE_FILTER + (0 if self.bloom_filter is None else self.bloom_filter.rows.nbytes)


class KeyStatisticsSource(Protocol):
    """Where statistics come from: the footers of base files, or later the table's metadata table. Picklable."""

    def of(self, file_slice: FileSlice, opened: Callable[[], SliceReader]) -> KeyStatistics:
        """Of one file slice. Threads may ask at the same time.

        Args:
            file_slice: the slice.
            opened: opens it, or has it open already; the caller closes it.

        Raises:
            CorruptTableError: they cannot be read.
        """


class FooterStatistics:
    """Statistics from the footers of base files, where rli and Hudi write them.

    Those that were asked for last are kept: a base file never changes. Pickled without them.

    Args:
        kept_bytes: of the statistics that are kept, at most.
    """

    def __init__(self, kept_bytes: int = _KEPT_BYTES) -> None:
        self._kept_bytes = kept_bytes
        self._kept: OrderedDict[str, KeyStatistics] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def of(self, file_slice: FileSlice, opened: Callable[[], SliceReader]) -> KeyStatistics:
        if file_slice.logs:
            # No footer knows the keys of log files.
            return KeyStatistics(None, None)
        path = only_base_file(file_slice).path
        with self._lock:
            if path in self._kept:
                self._kept.move_to_end(path)
                return self._kept[path]
        reader = opened()
        statistics = KeyStatistics(reader.written_key_range, reader.bloom_filter)
        self._keep(path, statistics)
        return statistics

    def _keep(self, path: str, statistics: KeyStatistics) -> None:
        with self._lock:
            if path in self._kept:
                return
            self._kept[path] = statistics
            self._bytes += statistics.nbytes
            while self._bytes > self._kept_bytes:
                _, forgotten = self._kept.popitem(last=False)
                self._bytes -= forgotten.nbytes

    def __reduce__(self) -> tuple[object, ...]:
        return FooterStatistics, (self._kept_bytes,)
