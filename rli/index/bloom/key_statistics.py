"""What is known of the record keys of file slices before they are read: key ranges and bloom filters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final, Protocol, TypeAlias

from rli.byte_cache import ByteCache
from rli.hudi.bloom_filter import BloomFilter
from rli.view.file_slice_reader import only_base_file
from rli.view.file_slices import FileSlice
from rli.view.slice_reader import SliceReader

_KEPT_BYTES: Final = 64 * 1024 * 1024
"""Of statistics that an index keeps: those of files with about 12 million records."""

_BYTES_BESIDE_FILTER: Final = 500

KeyRange: TypeAlias = tuple[str, str] | None
"""The least and the greatest key of a file, in the order of UTF-8 bytes or of UTF-16 code units; None if unknown."""


@dataclass(frozen=True, slots=True)
class KeyStatistics:
    """Of the record keys of one file slice.

    Attributes:
        key_range: see ``KeyRange``.
        bloom_filter: of all of them; None if there is none.
    """

    key_range: KeyRange
    bloom_filter: BloomFilter | None

    @property
    def nbytes(self) -> int:
        """About what they take in memory."""
        return _BYTES_BESIDE_FILTER + (0 if self.bloom_filter is None else self.bloom_filter.rows.nbytes)


KnownStatistics: TypeAlias = Mapping[str, KeyStatistics]
"""Statistics by the path of the base file. Those of a file without a sought key in its range may lack the filter."""


class KeyStatisticsSource(Protocol):
    """Where statistics come from: the footers of base files, or the table's metadata table. Picklable."""

    def batches(
        self, file_slices: Sequence[FileSlice], concerns: Callable[[FileSlice, KeyRange], bool]
    ) -> Iterator[tuple[Sequence[FileSlice], KnownStatistics]]:
        """File slices, each in one batch, with the statistics that are known of a batch without opening a slice.

        Args:
            file_slices: the slices.
            concerns: whether a sought key may be in a slice whose keys are in a range.
        """

    def of(self, file_slice: FileSlice, opened: Callable[[], SliceReader]) -> KeyStatistics:
        """Of one file slice. Threads may ask at the same time.

        Args:
            file_slice: the slice.
            opened: opens it, or has it open already; the caller closes it.

        Raises:
            CorruptTableError: they cannot be read.
        """


StatisticsCache: TypeAlias = ByteCache[KeyStatistics]
"""Statistics that were asked for last, by path: a base file never changes."""


def statistics_cache(most_bytes: int = _KEPT_BYTES) -> StatisticsCache:
    """Keeps statistics, at first none.

    Args:
        most_bytes: of the statistics, at most.
    """
    return ByteCache(most_bytes, attrgetter("nbytes"))


class FooterStatistics:
    """Statistics from the footers of base files, where rli and Hudi write them.

    Args:
        kept: keeps them.
    """

    def __init__(self, kept: StatisticsCache) -> None:
        self.kept = kept

    def batches(
        self,
        file_slices: Sequence[FileSlice],
        concerns: Callable[[FileSlice, KeyRange], bool],  # noqa: ARG002  (a footer has range and filter)
    ) -> Iterator[tuple[Sequence[FileSlice], KnownStatistics]]:
        yield file_slices, {}

    def of(self, file_slice: FileSlice, opened: Callable[[], SliceReader]) -> KeyStatistics:
        if file_slice.logs:
            # No footer knows the keys of log files.
            return KeyStatistics(None, None)
        path = only_base_file(file_slice).path
        statistics = self.kept.get(path)
        if statistics is None:
            reader = opened()
            statistics = KeyStatistics(reader.written_key_range, reader.bloom_filter)
            self.kept.keep(path, statistics)
        return statistics
