"""Locating the keys of a request with an index that prunes: two jobs, of which the first decides what the second reads.

The tasks of the first job share the table's files out. Each reads the footers of its files, tests all keys of the request
against them, and writes the comparisons that are left: pairs of a key and a file that may hold it. A footer is read by one
task, and no key column is. (To send each key to the files of its range, as Hudi does, would shuffle every key to every
file where keys are random.) The tasks of the second job share the files with comparisons out, balanced by the work that
each of them is, and compare.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from rli.coordination.requests import RequestFolder
from rli.file_group import work_rows
from rli.index.locators import Comparisons, PruningLocator
from rli.model import Scope
from rli.storage import Storage
from rli.view.file_slices import FileSlice
from rli.write.rows.tally import Tally, require_same
from rli_spark.planning.execution_plan import ExecutionPlan
from rli_spark.requests.file_probes import (
    LOCATION_COLUMNS,
    LocatedInFiles,
    keys_of,
    partition_paths_of,
    shared_slices,
)
from rli_spark.requests.request_files import RequestFile, key_range, read_rows, tally_of_files
from rli_spark.requests.request_parts import PARTS, Parts, write_part
from rli_spark.rows.row_batches import shared_out
from rli_spark.session.batches import map_numbers

_SLICE: Final = "_rli_slice"
"""Of a comparison: the number of the file slice among the candidates."""

_COMPARISON: Final = pa.schema([(work_rows.RECORD_KEY, pa.string()), (_SLICE, pa.int32())])

_PRUNED: Final = pa.schema([*PARTS, ("slices", pa.list_(pa.int32())), ("comparisons", pa.list_(pa.int64()))])
"""What a task of the first job says: its comparisons, and how many of them each file slice has."""

_COMPARED: Final = pa.schema([*PARTS, ("read_keys", pa.int64()), ("read_hashes", pa.int64())])
"""What a task of the second job says: the locations that it found, and the comparisons that it read."""

_BYTES_PER_KEY: Final = 100
"""Of a base file. To read a stored key costs about as much as to compare a sought one."""


def compare_files(
    spark: SparkSession,
    execution: ExecutionPlan,
    folder: RequestFolder,
    requested: Sequence[RequestFile],
    locator: PruningLocator,
) -> LocatedInFiles:
    """Look for the keys of a request in those of the table's files that may hold them.

    Args:
        spark: the session.
        execution: decides how many tasks work, and how many keys each looks for at once.
        folder: of the request; takes the comparisons and the locations.
        requested: the request's own files.
        locator: names the candidate files, prunes and compares.

    Raises:
        VoidAttemptError: the tasks have read other comparisons than were written.
    """
    began = time.monotonic()
    slices = locator.candidates(partition_paths_of(requested))
    keys = tally_of_files(requested).keys
    if not slices or not keys:
        return LocatedInFiles(folder.storage, (), locator.scope)
    pruned = _prune(spark, execution, folder, requested, locator, slices=slices)
    files = _compare(spark, execution, folder, pruned, locator, slices=slices)
    located = LocatedInFiles(folder.storage, files, locator.scope)
    counts = Comparisons(keys, len(slices), len(pruned.counts), pruned.tally.keys, located.tally.keys)
    locator.report(counts, time.monotonic() - began)
    return located


@dataclass(frozen=True, slots=True)
class _Pruned:
    """The comparisons that are left.

    Attributes:
        files: that hold them.
        counts: the number of a file slice → how many comparisons it has; slices without any are left out.
    """

    files: tuple[RequestFile, ...]
    counts: Mapping[int, int]

    @property
    def tally(self) -> Tally:
        return tally_of_files(self.files)


def _prune(
    spark: SparkSession,
    execution: ExecutionPlan,
    folder: RequestFolder,
    requested: Sequence[RequestFile],
    locator: PruningLocator,
    *,
    slices: Sequence[FileSlice],
) -> _Pruned:
    storage, path = folder.storage, folder.path
    numbers = {file_slice.group: number for number, file_slice in enumerate(slices)}
    shares = shared_slices(slices, execution.parallelism.for_files(len(slices)))
    ranges = execution.key_ranges(tally_of_files(requested).keys)
    by_partition = locator.scope is Scope.PARTITION and partition_paths_of(requested) is not None

    def left(share: Sequence[FileSlice], counts: Counter[int]) -> Iterator[pa.Table]:
        for part in range(ranges):
            sought = _sought(storage, requested, *key_range(part, ranges), by_partition=by_partition)
            for file_slice, found in locator.comparisons(share, *sought):
                number = numbers[file_slice.group]
                counts[number] += len(found)
                yield pa.table([found, pa.repeat(pa.scalar(number, pa.int32()), len(found))], schema=_COMPARISON)

    def prune(tasks: Iterator[int]) -> Iterator[pa.Table]:
        for task in tasks:
            counts = Counter[int]()
            for part in write_part(storage, path, left(shares[task], counts)):
                yield pa.table([*part.columns, [list(counts)], [list(counts.values())]], schema=_PRUNED)

    rows = map_numbers(spark, len(shares), prune, _PRUNED).collect()
    counts = {number: count for row in rows for number, count in zip(row.slices, row.comparisons, strict=True)}
    return _Pruned(Parts.accepted(rows, path).files, counts)


def _compare(
    spark: SparkSession,
    execution: ExecutionPlan,
    folder: RequestFolder,
    pruned: _Pruned,
    locator: PruningLocator,
    *,
    slices: Sequence[FileSlice],
) -> tuple[RequestFile, ...]:
    """Files with the locations that the comparisons find."""
    storage, path = folder.storage, folder.path
    if not pruned.counts:
        return ()
    ranges = execution.key_ranges(pruned.tally.keys)
    shares = _balanced(pruned.counts, slices, execution.parallelism.for_files(len(pruned.counts)))

    def found(wanted: pa.Table) -> Iterator[pa.Table]:
        for number in pc.unique(wanted.column(_SLICE)).to_pylist():
            keys = wanted.filter(pc.equal(wanted.column(_SLICE), number)).column(work_rows.RECORD_KEY)
            yield locator.compare(slices[number], keys.combine_chunks()).rename_columns(LOCATION_COLUMNS)

    def compare(tasks: Iterator[int]) -> Iterator[pa.Table]:
        for task in tasks:
            wanted = _comparisons_of(storage, pruned, shares[task], ranges)
            read = Tally.of(wanted.column(work_rows.RECORD_KEY))
            parts = list(write_part(storage, path, found(wanted))) or [pa.Table.from_pylist([{"task": task}], PARTS)]
            for part in parts:
                yield pa.table([*part.columns, [read.keys], [read.hashes]], schema=_COMPARED)

    rows = map_numbers(spark, len(shares), compare, _COMPARED).collect()
    require_same("compared", pruned.tally, Tally.total(Tally(row.read_keys, row.read_hashes) for row in rows))
    return Parts.accepted([row for row in rows if row.path is not None], path).files


def _balanced(counts: Mapping[int, int], slices: Sequence[FileSlice], tasks: int) -> list[list[int]]:
    """The numbers of the file slices of each task, of about the same work."""
    work = {number: count + slices[number].size / _BYTES_PER_KEY for number, count in counts.items()}
    shares: list[list[int]] = [[] for _ in range(tasks)]
    for number, task in shared_out(work, tasks).items():
        shares[task].append(number)
    return shares


def _comparisons_of(storage: Storage, pruned: _Pruned, numbers: Sequence[int], ranges: int) -> pa.Table:
    """The comparisons of some file slices, whose keys are read in so many ranges."""
    wanted = pa.array(numbers, pa.int32())
    parts = (
        rows.filter(pc.is_in(rows.column(_SLICE), value_set=wanted))
        for number in range(ranges)
        for rows in read_rows(storage, pruned.files, *key_range(number, ranges))
    )
    return pa.concat_tables([_COMPARISON.empty_table(), *parts])


def _sought(
    storage: Storage, requested: Sequence[RequestFile], start: int, stop: int, *, by_partition: bool
) -> tuple[pa.Array, pa.Array | None]:
    """The keys of a request in a range of hashes, each once; with the partitions of their records, once in each."""
    if not by_partition:
        return keys_of(storage, requested, start, stop), None
    columns = [work_rows.RECORD_KEY, work_rows.WANTED_PARTITION_PATH]
    none = pa.schema([(name, pa.string()) for name in columns]).empty_table()
    rows = pa.concat_tables([none, *read_rows(storage, requested, start, stop, columns=columns)])
    distinct = rows.group_by(columns).aggregate([])
    keys, paths = (distinct.column(name).combine_chunks() for name in columns)
    return keys, paths
