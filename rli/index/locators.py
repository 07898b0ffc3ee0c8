"""Locators: where the records of some keys are, as of one state of a table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rli.codec import scoped_keys
from rli.errors import CorruptTableError
from rli.file_group.batches import coalesce_tables
from rli.locations import LOCATION_SCHEMA
from rli.model import Scope
from rli.tasks import InThreads
from rli.view.file_slices import FileSlice
from rli.view.snapshot import Snapshot

_SAMPLE: Final = 10

_LEAST_ROWS: Final = 65_536
_BYTES_AT_ONCE: Final = 64 * 1024 * 1024
"""Of stored keys, which are compared with sought ones."""


class Locator(ABC):
    """Locates record keys as of one state of the table. Picklable: executors use it.

    Locations are tables with ``rli.locations.LOCATION_SCHEMA``.
    """

    @abstractmethod
    def locate(self, record_keys: pa.Array, partition_paths: pa.Array) -> pa.Table:
        """The location of each record: a row for each, in order, nulls where the table does not hold it.

        Args:
            record_keys: string array, shape (n,); distinct, with partition scope distinct in each partition.
            partition_paths: string array, shape (n,): where the records belong by their own values. With global scope
                they do not matter.

        Raises:
            ConflictError: a key was changed after the state.
            IndexNotReadyError: the index is behind the state.
        """

    @abstractmethod
    def locate_all(self, record_keys: pa.Array) -> pa.Table:
        """The locations of all records with some keys (distinct, shape (n,)), in any order; absent keys have no row.

        With partition scope a key may have several rows. Raises as ``locate``.
        """

    def require_known(self, partition_paths: pa.Array) -> None:  # noqa: B027  (for those that know some partitions only)
        """Pass records of some partitions (string array); raises ``InvalidInputError`` for partitions that are not known."""

    def trace(self, stored: pa.Table) -> pa.Table:
        """Where the index places records that were read from base files: a row for each, in order.

        Args:
            stored: locations, as the base files tell.
        """
        return stored


@dataclass(frozen=True, slots=True)
class Unlocated(Locator):
    """Locates no record: for tables that hold none, and for those whose index computes where records belong.

    Attributes:
        instead_of: the locator of a table without records, which judges partitions. A task that is given it finds out
            whether it has the index (P20).
    """

    instead_of: Locator | None = None

    def locate(self, record_keys: pa.Array, partition_paths: pa.Array) -> pa.Table:
        if self.instead_of is not None:
            self.instead_of.require_known(partition_paths)
        count = len(record_keys)
        unknown = (pa.nulls(count, field.type) for field in list(LOCATION_SCHEMA)[1:])
        return pa.table([record_keys, *unknown], schema=LOCATION_SCHEMA)

    def locate_all(self, record_keys: pa.Array) -> pa.Table:  # noqa: ARG002  (no key has a record)
        return LOCATION_SCHEMA.empty_table()


@dataclass(frozen=True, slots=True)
class FoundLocations(Locator):
    """Locates keys by a table of all their locations, which somebody has found before.

    ``locate`` raises ``CorruptTableError`` for a key that stands more than once in its scope.

    Attributes:
        found: locations, in any order; those of other keys may be among them.
        scope: where a key is unique.
    """

    found: pa.Table
    scope: Scope

    def locate(self, record_keys: pa.Array, partition_paths: pa.Array) -> pa.Table:
        stored, wanted = self.found.column("record_key"), record_keys
        if self.scope is Scope.PARTITION:
            stored = scoped_keys.joined(self.found.column("partition_path"), stored)
            wanted = scoped_keys.joined(partition_paths, wanted)
        _require_once(stored.filter(pc.is_in(stored, value_set=wanted)), self.scope)
        rows = self.found.take(pc.index_in(wanted, value_set=stored))
        return pa.table([record_keys, *rows.columns[1:]], schema=LOCATION_SCHEMA)

    def locate_all(self, record_keys: pa.Array) -> pa.Table:
        return self.found.filter(pc.is_in(self.found.column("record_key"), value_set=record_keys))


def _require_once(keys: pa.ChunkedArray, scope: Scope) -> None:
    if pc.count_distinct(keys).as_py() == len(keys):
        return
    counts = pc.value_counts(keys)
    several = counts.filter(pc.greater(counts.field("counts"), 1)).field("values").slice(0, _SAMPLE)
    sample = several if scope is Scope.GLOBAL else scoped_keys.split(several)[1]
    raise CorruptTableError(
        f"record keys stand in the table more than once: scope={scope} keys={sample.to_pylist()}",
        remedy="run: rli deduplicate TABLE",
    )


def joined_locations(record_keys: pa.Array, distinct: pa.Array, found: pa.Table) -> pa.Table:
    """The locations of each key, in the order of the keys; nulls for a key without one.

    Args:
        record_keys: string array, shape (n,); keys may repeat.
        distinct: the same keys, each once.
        found: all locations of these keys, in any order.
    """
    ordered = found.sort_by([("partition_path", "ascending"), ("file_id", "ascending")])
    positions = pc.index_in(ordered.column("record_key").combine_chunks(), value_set=distinct).to_numpy()
    order = np.argsort(positions, kind="stable")
    counts = np.bincount(positions, minlength=len(distinct))
    starts = np.cumsum(counts) - counts
    codes = pc.index_in(record_keys, value_set=distinct).to_numpy()
    lengths = np.maximum(counts[codes], 1)
    asked = np.repeat(np.arange(len(record_keys)), lengths)
    offsets = np.arange(len(asked)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    is_absent = counts[codes[asked]] == 0
    rows = np.where(is_absent, 0, starts[codes[asked]] + offsets)
    row_of = pa.array(order[rows] if len(order) else rows, mask=is_absent)
    columns = ordered.select(LOCATION_SCHEMA.names[1:]).take(row_of).columns
    return pa.table([record_keys.take(pa.array(asked)), *columns], schema=LOCATION_SCHEMA)


class FileLocator(Locator):
    """Locates record keys in the table's own files. An engine may plan the probes itself, file by file.

    Attributes:
        snapshot: the state of the table.
        scope: where a key is unique.
    """

    snapshot: Snapshot
    scope: Scope

    @abstractmethod
    def candidates(self, partition_paths: Collection[str] | None) -> Sequence[FileSlice]:
        """The file slices that may hold records.

        Args:
            partition_paths: where the records belong by their own values; None for records anywhere.
        """

    @abstractmethod
    def stored(self, file_slices: Sequence[FileSlice]) -> Iterator[pa.Table]:
        """The locations of all records of file slices, a batch at a time.

        Runs in executors; memory is bounded by a part of a file.

        Args:
            file_slices: of the candidates.

        Raises:
            CorruptTableError: a base file is damaged.
        """

    def probe(self, file_slices: Sequence[FileSlice], record_keys: pa.Array) -> pa.Table:
        """The locations of those of some keys that file slices hold: a row for each record, in any order.

        Runs in executors, and there on each core; memory is bounded by the keys and a part of a file for each core.

        Args:
            file_slices: of the candidates.
            record_keys: string array, shape (n,), distinct.

        Raises:
            CorruptTableError: a base file is damaged.
        """
        tasks = InThreads()
        shares = [file_slices[number :: tasks.threads] for number in range(tasks.threads)]
        found = tasks.run(lambda share: self._probed(share, record_keys), [share for share in shares if share])
        return pa.concat_tables([LOCATION_SCHEMA.empty_table(), *found])

    def _probed(self, file_slices: Sequence[FileSlice], record_keys: pa.Array) -> pa.Table:
        # Each call hashes all the keys, so batches of about as many records pay.
        batches = coalesce_tables(self.stored(file_slices), max(_LEAST_ROWS, len(record_keys)), _BYTES_AT_ONCE)
        found = (batch.filter(pc.is_in(batch.column("record_key"), value_set=record_keys)) for batch in batches)
        return pa.concat_tables([LOCATION_SCHEMA.empty_table(), *found])

    def held(self, file_slice: FileSlice, record_keys: Iterable[pa.Array]) -> Iterator[pa.Array]:
        """Those of some keys that a file slice holds. Runs in executors.

        Args:
            file_slice: of the candidates.
            record_keys: in batches; all of them distinct.

        Raises:
            CorruptTableError: a base file is damaged.
        """
        stored = pa.concat_tables([LOCATION_SCHEMA.empty_table(), *self.stored([file_slice])]).column("record_key")
        for keys in record_keys:
            yield keys.filter(pc.is_in(keys, value_set=stored))

    def locate(self, record_keys: pa.Array, partition_paths: pa.Array) -> pa.Table:
        slices = self.candidates(pc.unique(partition_paths).to_pylist())
        return FoundLocations(self.probe(slices, record_keys), self.scope).locate(record_keys, partition_paths)

    def locate_all(self, record_keys: pa.Array) -> pa.Table:
        return self.probe(self.candidates(None), record_keys)


@dataclass(frozen=True, slots=True)
class Comparisons:
    """What looking keys up in files took. A pair of a key and a file slice that may hold it is a *comparison*.

    Attributes:
        keys: that were looked up.
        file_slices: that were candidates.
        compared: of them, how many had comparisons: their keys were read.
        pairs: all comparisons.
        found: the comparisons that found a record.
    """

    keys: int
    file_slices: int
    compared: int
    pairs: int
    found: int

    @property
    def false_positives(self) -> int:
        """The comparisons that found nothing."""
        return self.pairs - self.found


class PruningLocator(FileLocator):
    """A file locator that tells which keys a file slice may hold before it reads the slice's keys.

    So an engine can share out the comparisons that are left.
    """

    @abstractmethod
    def comparisons(
        self, file_slices: Sequence[FileSlice], record_keys: pa.Array, partition_paths: pa.Array | None
    ) -> Iterator[tuple[FileSlice, pa.Array]]:
        """The file slices that may hold some keys, each with those keys (string array, shape (m,)).

        Runs in executors.

        Args:
            file_slices: of the candidates.
            record_keys: string array, shape (n,); distinct, with partition paths distinct in each partition.
            partition_paths: of the partition that each record belongs to: string array, shape (n,); other partitions
                are not searched for it. None to look for every key everywhere.

        Raises:
            CorruptTableError: a base file is damaged.
        """

    @abstractmethod
    def compare(self, file_slice: FileSlice, record_keys: pa.Array) -> pa.Table:
        """The locations of those of some keys that a file slice holds. Runs in executors; raises as ``comparisons``.

        Args:
            file_slice: of the candidates.
            record_keys: that the slice may hold.
        """

    @abstractmethod
    def report(self, comparisons: Comparisons, seconds: float) -> None:
        """Log and count what a look-up took."""
