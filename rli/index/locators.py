"""Locators: where the records of some keys are, as of one state of a table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from rli.errors import CorruptTableError
from rli.file_group.batches import coalesce_tables
from rli.index.reports import Scope
from rli.locations import LOCATION_SCHEMA
from rli.view.file_slices import FileSlice

_SAMPLE: Final = 10

_SEPARATOR: Final = "\0"
"""Stands between a partition path and a key; no name of a folder holds it."""

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

    def trace(self, stored: pa.Table) -> pa.Table:
        """Where the index places records that were read from base files: a row for each, in order.

        Args:
            stored: locations, as the base files tell.
        """
        return stored


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
            stored = pc.binary_join_element_wise(self.found.column("partition_path"), stored, _SEPARATOR)
            wanted = pc.binary_join_element_wise(partition_paths, wanted, _SEPARATOR)
        _require_once(stored.filter(pc.is_in(stored, value_set=wanted)), self.scope)
        rows = self.found.take(pc.index_in(wanted, value_set=stored))
        return pa.table([record_keys, *rows.columns[1:]], schema=LOCATION_SCHEMA)

    def locate_all(self, record_keys: pa.Array) -> pa.Table:
        return self.found.filter(pc.is_in(self.found.column("record_key"), value_set=record_keys))


def _require_once(keys: pa.ChunkedArray, scope: Scope) -> None:
    if pc.count_distinct(keys).as_py() == len(keys):
        return
    counts = pc.value_counts(keys)
    several = counts.filter(pc.greater(counts.field("counts"), 1)).field("values").slice(0, _SAMPLE).to_pylist()
    raise CorruptTableError(
        f"record keys stand in the table more than once: scope={scope} "
        f"keys={[key.rpartition(_SEPARATOR)[2] for key in several]}; find them with rli index verify TABLE, delete these "
        "keys and insert their records again"
    )


class FileLocator(Locator):
    """Locates record keys in the table's own files. An engine may plan the probes itself, file by file.

    Attributes:
        scope: where a key is unique.
    """

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

        Runs in executors; memory is bounded by the keys and a part of a file.

        Args:
            file_slices: of the candidates.
            record_keys: string array, shape (n,), distinct.

        Raises:
            CorruptTableError: a base file is damaged.
        """
        # Each call hashes all the keys, so batches of about as many records pay.
        batches = coalesce_tables(self.stored(file_slices), max(_LEAST_ROWS, len(record_keys)), _BYTES_AT_ONCE)
        found = (batch.filter(pc.is_in(batch.column("record_key"), value_set=record_keys)) for batch in batches)
        return pa.concat_tables([LOCATION_SCHEMA.empty_table(), *found])

    def locate(self, record_keys: pa.Array, partition_paths: pa.Array) -> pa.Table:
        slices = self.candidates(pc.unique(partition_paths).to_pylist())
        return FoundLocations(self.probe(slices, record_keys), self.scope).locate(record_keys, partition_paths)

    def locate_all(self, record_keys: pa.Array) -> pa.Table:
        return self.probe(self.candidates(None), record_keys)
