"""Key ranges and bloom filters from the metadata table: those of many files in few requests, without opening one."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

import pyarrow as pa

from rli.column_index.key_filters import decoded_filter
from rli.column_index.trust import bounds_of_files
from rli.errors import CorruptTableError
from rli.hudi.bloom_filter import BloomFilter
from rli.hudi.meta_columns import RECORD_KEY
from rli.hudi.metadata.partitions import PartitionKind
from rli.hudi.metadata.views import DataFile, bloom_filters, statistics_by_column
from rli.index.bloom.key_statistics import FooterStatistics, KeyRange, KeyStatistics, KnownStatistics, StatisticsCache
from rli.view.file_slice_reader import only_base_file
from rli.view.file_slices import FileSlice
from rli.view.slice_reader import SliceReader
from rli.view.snapshot import Snapshot
from rli.view.table_metadata import TableMetadata

_FILE_BYTES_AT_ONCE: Final = 2 << 30
"""Of base files whose filters are in memory at a time. A filter may have a tenth of the bytes of its file."""


def has_statistics(partitions: Sequence[str]) -> bool:
    """Whether a metadata table with some partitions tells of keys in files."""
    return not {PartitionKind.COLUMN_STATS, PartitionKind.BLOOM_FILTERS}.isdisjoint(partitions)


class MetadataStatistics:
    """Statistics from the metadata table as of one state; those of files that it does not know are from their footers.

    A file's name never comes again, so what the metadata table says of a file holds in every state. Only slices without log
    files are looked up there.

    Args:
        snapshot: the state.
        footers: of base files. Their statistics are kept together.
        ranges: keeps key ranges without filters.
        fewest: slices whose ranges or filters are asked for; the footers of fewer are read sooner.
    """

    def __init__(self, snapshot: Snapshot, footers: FooterStatistics, ranges: StatisticsCache, fewest: int) -> None:
        self._snapshot = snapshot
        self._footers = footers
        self._ranges = ranges
        self._fewest = fewest

    def batches(
        self, file_slices: Sequence[FileSlice], concerns: Callable[[FileSlice, KeyRange], bool]
    ) -> Iterator[tuple[Sequence[FileSlice], KnownStatistics]]:
        unknown = {
            _path(one): one for one in file_slices if not one.logs and self._footers.kept.get(_path(one)) is None
        }
        known = self._known_ranges(unknown)
        sought = {path: one for path, one in unknown.items() if concerns(one, _range(known.get(path)))}
        others = [one for one in file_slices if one.logs or _path(one) not in sought]
        yield others, {path: found for path, found in known.items() if path not in sought}
        if len(sought) < self._fewest:
            yield list(sought.values()), {}
            return
        for some in _shared(sought):
            yield list(some.values()), self._with_filters(some, known)

    def of(self, file_slice: FileSlice, opened: Callable[[], SliceReader]) -> KeyStatistics:
        return self._footers.of(file_slice, opened)

    @cached_property
    def _metadata(self) -> TableMetadata:
        if self._snapshot.metadata is not None:
            return self._snapshot.metadata
        # Writers look at the files themselves. Read behind the timeline: what is listed now has each of its commits.
        table = self._snapshot.table.reloaded()
        return TableMetadata(table, self._snapshot.timeline, table.properties.metadata_partitions)

    def _known_ranges(self, unknown: Mapping[str, FileSlice]) -> KnownStatistics:
        known = {path: found for path in unknown if (found := self._ranges.get(path)) is not None}
        missing = [path for path in unknown if path not in known]
        if len(missing) < self._fewest:
            return known
        files = [_file(path) for path in missing]
        told = self._metadata.ask(
            PartitionKind.COLUMN_STATS, lambda reader: statistics_by_column(reader, [RECORD_KEY], files)
        )
        if told is None:
            return known
        bounds = bounds_of_files(told[RECORD_KEY], pa.string())
        for path, *ends in zip(missing, bounds.least.to_pylist(), bounds.greatest.to_pylist(), strict=True):
            key_range = _decoded(*ends)
            if key_range is not None:
                known[path] = KeyStatistics(key_range, None)
                self._ranges.keep(path, known[path])
        return known

    def _with_filters(self, slices: Mapping[str, FileSlice], known: KnownStatistics) -> KnownStatistics:
        """The statistics of slices whose filters the metadata table has."""
        files = {_file(path): path for path in slices}
        told = self._metadata.ask(PartitionKind.BLOOM_FILTERS, lambda reader: bloom_filters(reader, files))
        found: dict[str, KeyStatistics] = {}
        for file, stored in (told or {}).items():
            try:
                bloom_filter: BloomFilter | None = decoded_filter(stored, file)
            except CorruptTableError as error:
                self._metadata.distrust(PartitionKind.BLOOM_FILTERS, error)
                break
            if bloom_filter is not None:
                path = files[file]
                found[path] = KeyStatistics(_range(known.get(path)), bloom_filter)
                self._footers.kept.keep(path, found[path])
        return found


def _shared(slices: Mapping[str, FileSlice]) -> Iterator[Mapping[str, FileSlice]]:
    """Slices in shares whose filters fit in memory."""
    share: dict[str, FileSlice] = {}
    size = 0
    for path, one in slices.items():
        if share and size + only_base_file(one).size > _FILE_BYTES_AT_ONCE:
            yield share
            share, size = {}, 0
        share[path] = one
        size += only_base_file(one).size
    if share:
        yield share


def _path(file_slice: FileSlice) -> str:
    return only_base_file(file_slice).path


def _file(path: str) -> DataFile:
    return posixpath.dirname(path), posixpath.basename(path)


def _range(statistics: KeyStatistics | None) -> KeyRange:
    return None if statistics is None else statistics.key_range


def _decoded(least: bytes | None, greatest: bytes | None) -> KeyRange:
    if least is None or greatest is None:
        return None
    try:
        return least.decode(), greatest.decode()
    except UnicodeDecodeError:
        return None
