"""Locating the keys of a request in the table's own files: file by file, then range by range.

An index of files (``FileLocator``) would have each task of keys read every candidate file. So a job goes before: its
tasks share the candidate files out, look in each for all keys of the request, and write what they find beside the
request's own files, arranged by the same hashes. A task of keys then reads the locations of its own range.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark.sql import SparkSession

from rli.coordination.requests import RequestFolder
from rli.file_group import work_rows
from rli.index.locators import FileLocator, FoundLocations, Locator
from rli.locations import LOCATION_SCHEMA
from rli.model import Scope
from rli.storage import Storage
from rli.view.file_slices import FileSlice
from rli.write.rows.tally import Tally
from rli_spark.planning.execution_plan import ExecutionPlan
from rli_spark.requests.request_files import RequestFile, key_range, read_rows, tally_of_files
from rli_spark.requests.request_parts import PARTS, Parts, write_part
from rli_spark.rows.row_batches import shared_out
from rli_spark.session.batches import map_numbers

LOCATION_COLUMNS: Final = [work_rows.RECORD_KEY, *LOCATION_SCHEMA.names[1:]]
"""Of locations in files of a request."""


class LocatorOfRange(NamedTuple):
    """Locates the keys of one range.

    Attributes:
        locator: for the keys of the range alone.
        tally: of the keys that it was read for; empty for one that looks keys up itself.
    """

    locator: Locator
    tally: Tally


class Located(ABC):
    """How the tasks of a request locate their keys. Picklable."""

    @property
    @abstractmethod
    def tally(self) -> Tally:
        """Of all locations that the tasks are to read."""

    @abstractmethod
    def within(self, start: int, stop: int) -> LocatorOfRange:
        """The locator for keys whose hashes are in a range."""


@dataclass(frozen=True, slots=True)
class LocatedInTasks(Located):
    """Each task looks its keys up."""

    locator: Locator

    @property
    def tally(self) -> Tally:
        return Tally()

    def within(self, start: int, stop: int) -> LocatorOfRange:  # noqa: ARG002  (the keys tell)
        return LocatorOfRange(self.locator, Tally())


@dataclass(frozen=True, slots=True)
class LocatedInFiles(Located):
    """Locations that a job has found.

    Attributes:
        storage: of the table.
        files: of locations.
        scope: of the index.
    """

    storage: Storage
    files: tuple[RequestFile, ...]
    scope: Scope

    @property
    def tally(self) -> Tally:
        return tally_of_files(self.files)

    def within(self, start: int, stop: int) -> LocatorOfRange:
        tables = [_empty(), *read_rows(self.storage, self.files, start, stop)]
        found = pa.concat_tables([table.rename_columns(LOCATION_SCHEMA.names) for table in tables])
        tally = Tally.of(found.column("record_key"))
        return LocatorOfRange(FoundLocations(found.combine_chunks(), self.scope), tally)


def probe_files(
    spark: SparkSession,
    execution: ExecutionPlan,
    folder: RequestFolder,
    requested: Sequence[RequestFile],
    locator: FileLocator,
) -> LocatedInFiles:
    """Look for the keys of a request in the table's files.

    Args:
        spark: the session.
        execution: decides how many tasks work, and how many keys each looks for at once.
        folder: of the request; takes the locations.
        requested: the request's own files.
        locator: names the candidate files.
    """
    storage, path = folder.storage, folder.path
    slices = locator.candidates(partition_paths_of(requested))
    keys = tally_of_files(requested).keys
    if not slices or not keys:
        return LocatedInFiles(storage, (), locator.scope)
    tasks = execution.parallelism.for_files(len(slices))
    shares = shared_slices(slices, tasks)
    ranges = execution.key_ranges(keys)

    def probed(numbers: Iterator[int]) -> Iterator[pa.Table]:
        for number in numbers:
            for part in range(ranges):
                found = locator.probe(shares[number], keys_of(storage, requested, *key_range(part, ranges)))
                if found.num_rows:
                    yield found.rename_columns(LOCATION_COLUMNS)

    parts = map_numbers(spark, tasks, lambda numbers: write_part(storage, path, probed(numbers)), PARTS)
    return LocatedInFiles(storage, Parts.accepted(parts.collect(), path).files, locator.scope)


def partition_paths_of(requested: Sequence[RequestFile]) -> set[str] | None:
    """Where the records of a request belong by their own values; None where keys come alone."""
    named: set[str] = set()
    for file in requested:
        if file.partition_paths is None:
            return None
        named.update(file.partition_paths)
    return named


def shared_slices(slices: Sequence[FileSlice], tasks: int) -> list[list[FileSlice]]:
    """The file slices of each task, of about the same size."""
    by_group = {file_slice.group: file_slice for file_slice in slices}
    shares: list[list[FileSlice]] = [[] for _ in range(tasks)]
    for group, task in shared_out({group: float(found.size) for group, found in by_group.items()}, tasks).items():
        shares[task].append(by_group[group])
    return shares


def keys_of(storage: Storage, requested: Sequence[RequestFile], start: int, stop: int) -> pa.Array:
    """The distinct keys of a request in a range of hashes."""
    column = work_rows.RECORD_KEY
    tables = read_rows(storage, requested, start, stop, columns=[column])
    return pa.chunked_array([chunk for table in tables for chunk in table.column(column).chunks], pa.string()).unique()


def _empty() -> pa.Table:
    return LOCATION_SCHEMA.empty_table()
