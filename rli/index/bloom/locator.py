"""Looking record keys up in the files that may hold them, as key ranges and bloom filters tell."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rli.index.bloom.key_statistics import KeyRange, KeyStatisticsSource, KnownStatistics
from rli.index.bloom.sought_keys import SoughtKeys
from rli.index.locators import Comparisons, FoundLocations, PruningLocator
from rli.index.reports import Scope
from rli.index.table_files.locator import KeyColumnLocator, locations_in
from rli.locations import LOCATION_SCHEMA
from rli.tasks import InThreads
from rli.telemetry import events, metrics
from rli.view.file_slice_reader import only_base_file
from rli.view.file_slices import FileSlice
from rli.view.slice_reader import SliceReader
from rli.view.snapshot import Snapshot

_Result = TypeVar("_Result")


class BloomLocator(KeyColumnLocator, PruningLocator):
    """Reads the stored keys of those files alone that may hold a sought one, and of them the row groups that may.

    A file without a range or without a filter may hold every key, as far as it does not say.

    Args:
        snapshot: the state of the table.
        scope: where a key is unique.
        statistics: of the keys of file slices.
    """

    def __init__(self, snapshot: Snapshot, scope: Scope, statistics: KeyStatisticsSource) -> None:
        super().__init__(snapshot, scope)
        self._statistics = statistics

    def locate(self, record_keys: pa.Array, partition_paths: pa.Array) -> pa.Table:
        slices = self.candidates(pc.unique(partition_paths).to_pylist())
        paths = partition_paths if self.scope is Scope.PARTITION else None
        return FoundLocations(self._found(slices, record_keys, paths), self.scope).locate(record_keys, partition_paths)

    def probe(self, file_slices: Sequence[FileSlice], record_keys: pa.Array) -> pa.Table:
        return self._found(file_slices, record_keys, None)

    def held(self, file_slice: FileSlice, record_keys: Iterable[pa.Array]) -> Iterator[pa.Array]:
        with self._opened(file_slice) as opened:
            statistics = self._statistics.of(file_slice, opened)
            some = [SoughtKeys(keys).in_slice(statistics) for keys in record_keys]
            if any(map(len, some)):
                yield self._compared(opened(), pa.concat_arrays(some))

    def comparisons(
        self, file_slices: Sequence[FileSlice], record_keys: pa.Array, partition_paths: pa.Array | None
    ) -> Iterator[tuple[FileSlice, pa.Array]]:
        sought = _Sought.of(record_keys, partition_paths)

        def claimed(known: KnownStatistics, file_slice: FileSlice) -> tuple[FileSlice, pa.Array]:
            with self._opened(file_slice) as opened:
                return file_slice, self._claimed(file_slice, sought, opened, known)

        for file_slice, keys in self._of_each(claimed, file_slices, sought):
            if len(keys):
                yield file_slice, keys

    def compare(self, file_slice: FileSlice, record_keys: pa.Array) -> pa.Table:
        with self._opened(file_slice) as opened:
            return locations_in(file_slice, self._compared(opened(), record_keys))

    def report(self, comparisons: Comparisons, seconds: float) -> None:
        metrics.COMPARISONS.add(comparisons.found, outcome="found")
        metrics.COMPARISONS.add(comparisons.false_positives, outcome="false_positive")
        table = self.snapshot.table
        events.INDEX_PROBED.log(
            table=table.location,
            index=table.index_url,
            keys=comparisons.keys,
            files=comparisons.file_slices,
            files_read=comparisons.compared,
            comparisons=comparisons.pairs,
            false_positives=comparisons.false_positives,
            seconds=seconds,
        )

    def _found(
        self, file_slices: Sequence[FileSlice], record_keys: pa.Array, partition_paths: pa.Array | None
    ) -> pa.Table:
        """The locations of those of some keys that file slices hold: each slice is opened once at most."""
        began = time.monotonic()
        sought = _Sought.of(record_keys, partition_paths)

        def look(known: KnownStatistics, file_slice: FileSlice) -> tuple[int, pa.Table]:
            with self._opened(file_slice) as opened:
                keys = self._claimed(file_slice, sought, opened, known)
                found = self._compared(opened(), keys) if len(keys) else keys
                return len(keys), locations_in(file_slice, found)

        compared, pairs, found = 0, 0, [LOCATION_SCHEMA.empty_table()]
        for comparisons, locations in self._of_each(look, file_slices, sought):
            pairs += comparisons
            compared += comparisons > 0
            found.append(locations)
        located = pa.concat_tables(found)
        counts = Comparisons(len(record_keys), len(file_slices), compared, pairs, located.num_rows)
        self.report(counts, time.monotonic() - began)
        return located

    def _of_each(
        self,
        function: Callable[[KnownStatistics, FileSlice], _Result],
        file_slices: Sequence[FileSlice],
        sought: _Sought,
    ) -> Iterator[_Result]:
        """What a function returns of each slice, in threads, in any order of the slices."""
        for some, known in self._statistics.batches(file_slices, sought.may_be_in):
            yield from InThreads().run(partial(function, known), some)

    @contextmanager
    def _opened(self, file_slice: FileSlice) -> Iterator[Callable[[], SliceReader]]:
        """Opens a file slice when it is called first."""
        with ExitStack() as stack:
            yield cache(lambda: stack.enter_context(self.snapshot.reader(file_slice)))

    def _claimed(
        self, file_slice: FileSlice, sought: _Sought, opened: Callable[[], SliceReader], known: KnownStatistics
    ) -> pa.Array:
        """The sought keys that a file slice may hold."""
        keys = sought.in_partition(file_slice.group.partition_path)
        if keys is None:
            return _no_keys()
        statistics = None if file_slice.logs else known.get(only_base_file(file_slice).path)
        return keys.in_slice(self._statistics.of(file_slice, opened) if statistics is None else statistics)

    def _compared(self, reader: SliceReader, record_keys: pa.Array) -> pa.Array:
        """Those of some keys that a file slice holds."""
        columns = self.snapshot.key_columns(reader.schema)
        found = [part.keys for part in reader.find(record_keys, columns, pa.schema([]))]
        return pa.concat_arrays([_no_keys(), *found])


def _no_keys() -> pa.Array:
    return pa.array([], pa.string())


@dataclass(frozen=True, slots=True)
class _Sought:
    """Keys with where they are sought.

    Attributes:
        everywhere: keys to look for in every partition.
        by_partition: keys to look for in one partition alone.
    """

    everywhere: SoughtKeys | None
    by_partition: Mapping[str, SoughtKeys]

    @classmethod
    def of(cls, record_keys: pa.Array, partition_paths: pa.Array | None) -> _Sought:
        if not len(record_keys):
            return cls(None, {})
        if partition_paths is None:
            return cls(SoughtKeys(record_keys), {})
        encoded = pc.dictionary_encode(partition_paths)
        codes = encoded.indices.to_numpy()
        order = np.argsort(codes, kind="stable")
        arranged = record_keys.take(pa.array(order))
        bounds = np.searchsorted(codes[order], np.arange(len(encoded.dictionary) + 1)).tolist()
        parts = (SoughtKeys(arranged.slice(start, end - start)) for start, end in pairwise(bounds))
        return cls(None, dict(zip(encoded.dictionary.to_pylist(), parts, strict=True)))

    def may_be_in(self, file_slice: FileSlice, key_range: KeyRange) -> bool:
        """Whether one of the keys may be in a slice whose keys are in a range."""
        keys = self.in_partition(file_slice.group.partition_path)
        return keys is not None and keys.may_be_within(key_range)

    def in_partition(self, partition_path: str) -> SoughtKeys | None:
        return self.by_partition.get(partition_path, self.everywhere)
