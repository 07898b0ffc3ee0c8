"""Comparing the record index of the metadata table with the keys in the table's files, in bounded memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rli.codec import scoped_keys
from rli.codec.key_codec import hash_keys
from rli.errors import CorruptTableError
from rli.hudi.metadata.reader import MetadataTableReader
from rli.hudi.metadata.record_index import located_keys
from rli.index.metadata_record.locator import as_locations
from rli.index.metadata_record.opening import PARTITION, broken
from rli.index.reports import VerifyReport
from rli.index.table_files.locator import locations_in
from rli.locations import named_groups
from rli.model import FileGroupId, Scope
from rli.view.definition import TableDefinition
from rli.view.snapshot import Snapshot

KEYS_PER_PASS: Final = 4_000_000
"""About the number of keys whose hashes, of table and index, are in memory at a time; larger tables are read in several passes."""

_SEEDS: Final = (0x6D657461, 0x64617461)
_OF_GROUPS: Final = np.uint64(0x9E3779B97F4A7C15)
_SAMPLE: Final = 10


def compared(snapshot: Snapshot, reader: MetadataTableReader, scope: Scope) -> VerifyReport:
    """How the entries of the record index agree with the records of the table.

    Args:
        snapshot: the table, with a list of all its files.
        reader: of the metadata table as of that state.
        scope: where a key is unique.

    Raises:
        CorruptTableError: a file of the table is damaged or missing.
        CorruptIndexError, IndexNotReadyError: as ``entries_of``.
    """
    rows = sum(_rows_of(snapshot))
    tally = _Tally()
    passes = max(1, -(-rows // KEYS_PER_PASS))
    for number in range(passes):
        _Pass(snapshot, reader, scope, passes, number).count(tally)
    return tally.report()


def entries_of(table: TableDefinition, reader: MetadataTableReader) -> Iterator[pa.Table]:
    """All entries of the record index of a table, in batches with ``LOCATION_SCHEMA``.

    Raises:
        CorruptIndexError: it is damaged.
        IndexNotReadyError: it was removed meanwhile.
    """
    try:
        for cells in reader.scan(PARTITION):
            yield as_locations(located_keys(cells))
    except CorruptTableError as error:
        raise broken(table, error) from error


def _rows_of(snapshot: Snapshot) -> Iterator[int]:
    for file_slice in snapshot.slices.values():
        with snapshot.reader(file_slice) as reader:
            yield reader.rows


@dataclass(slots=True)
class _Tally:
    """Counts of the passes so far; see ``VerifyReport``."""

    records: int = 0
    entries: int = 0
    missing: int = 0
    misplaced: int = 0
    dangling: int = 0
    repeated: int = 0
    sample: list[str] = field(default_factory=list)

    def add(self, stored: Mapping[str, list[FileGroupId]], kept: Mapping[str, list[FileGroupId]], scope: Scope) -> None:
        """Count keys that differ.

        Args:
            stored: the file groups of each key in the files.
            kept: the file groups of each key in the index.
            scope: where a key is unique.
        """
        for key in sorted(stored.keys() | kept.keys()):
            groups, entries = stored.get(key, []), kept.get(key, [])
            repeats = max(len(groups) - 1, 0)
            is_missing, is_dangling = not entries, not groups
            is_misplaced = bool(groups and entries and entries[-1] not in groups)
            self.repeated += repeats
            self.missing += is_missing
            self.misplaced += is_misplaced
            self.dangling += is_dangling
            if (repeats or is_missing or is_misplaced or is_dangling) and len(self.sample) < _SAMPLE:
                self.sample.append(key if scope is Scope.GLOBAL else scoped_keys.split(pa.array([key]))[1][0].as_py())

    def report(self) -> VerifyReport:
        return VerifyReport(
            self.records,
            self.entries,
            self.missing,
            self.misplaced,
            self.dangling,
            tuple(self.sample),
            repeated=self.repeated,
        )


@dataclass(frozen=True, slots=True)
class _Pass:
    """One part of the keys, chosen by their hashes.

    Attributes:
        snapshot, reader, scope: as for ``compared``.
        passes: how many parts there are.
        number: of this one, from 0.
    """

    snapshot: Snapshot
    reader: MetadataTableReader
    scope: Scope
    passes: int
    number: int

    def count(self, tally: _Tally) -> None:
        """Compare hashes of all keys, and then the keys themselves where the hashes differ."""
        codes: dict[FileGroupId, int] = {}
        stored, kept = (self._hashed(side, codes) for side in (self._stored(), self._kept()))
        tally.records += len(stored.keys)
        tally.entries += len(kept.keys)
        wrong = np.union1d(stored.unlike(kept), kept.unlike(stored))
        if len(wrong):
            places = self._places(self._stored(), wrong), self._places(self._kept(), wrong)
            tally.add(*places, self.scope)

    def _stored(self) -> Iterator[pa.Table]:
        for file_slice in self.snapshot.slices.values():
            for keys in self.snapshot.record_keys(file_slice):
                yield locations_in(file_slice, keys)

    def _kept(self) -> Iterator[pa.Table]:
        return entries_of(self.snapshot.table, self.reader)

    def _chosen(self, side: Iterable[pa.Table]) -> Iterator[tuple[pa.Table, pa.Array, NDArray[np.uint64]]]:
        """The locations of this pass, with the names of their keys in the scope, and hashes of these of 64 bits."""
        for locations in side:
            names = locations.column("record_key").combine_chunks()
            if self.scope is Scope.PARTITION:
                names = scoped_keys.joined(locations.column("partition_path").combine_chunks(), names)
            high, low = (hash_keys(names, seed).astype(np.uint64) for seed in _SEEDS)
            hashes = (high << np.uint64(32)) | low
            if self.passes > 1:
                chosen = low % np.uint64(self.passes) == self.number
                yield locations.filter(pa.array(chosen)), names.filter(pa.array(chosen)), hashes[chosen]
            else:
                yield locations, names, hashes

    def _hashed(self, side: Iterable[pa.Table], codes: dict[FileGroupId, int]) -> _Hashes:
        """The hashes of one side; ``codes`` numbers the file groups of both."""
        keys, places = [np.empty(0, np.uint64)], [np.empty(0, np.uint64)]
        for locations, _, hashes in self._chosen(side):
            groups, rows = groups_of_locations(locations)
            numbers = np.array([codes.setdefault(group, len(codes) + 1) for group in groups], np.uint64)
            keys.append(hashes)
            places.append(hashes ^ (numbers[rows] * _OF_GROUPS))
        return _Hashes(np.concatenate(keys), np.concatenate(places))

    def _places(self, side: Iterable[pa.Table], wrong: NDArray[np.uint64]) -> dict[str, list[FileGroupId]]:
        """The file groups of keys with some hashes."""
        found: dict[str, list[FileGroupId]] = defaultdict(list)
        for locations, names, hashes in self._chosen(side):
            chosen = np.isin(hashes, wrong)
            groups, rows = groups_of_locations(locations)
            for name, row in zip(names.filter(pa.array(chosen)).to_pylist(), rows[chosen].tolist(), strict=True):
                found[name].append(groups[row])
        return found


@dataclass(frozen=True, slots=True)
class _Hashes:
    """Of one side, table or index.

    Attributes:
        keys: hashes of keys, shape (n,).
        places: hashes of keys with their file groups, shape (n,).
    """

    keys: NDArray[np.uint64]
    places: NDArray[np.uint64]

    def unlike(self, other: _Hashes) -> NDArray[np.uint64]:
        """The hashes of keys that are elsewhere on the other side, or several times on this one."""
        distinct, counts = np.unique(self.keys, return_counts=True)
        differing = self.keys[~np.isin(self.places, other.places)]
        return np.concatenate([differing, distinct[counts > 1]])


def groups_of_locations(locations: pa.Table) -> tuple[list[FileGroupId], NDArray[np.intp]]:
    """The file groups of locations, and for each row the place of its file group among them."""
    named = named_groups(*(locations.column(name).combine_chunks() for name in ("partition_path", "file_id")))
    return [group for group in named.groups if group is not None], named.codes
