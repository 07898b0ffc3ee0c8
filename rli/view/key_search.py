"""Finding the records of keys in a base file: by bounds and filters of its row groups, by hashes of its keys, and by the keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rli.hudi.base_file_reader import BaseFileReader
from rli.hudi.meta_columns import RECORD_KEY
from rli.hudi.schema import conform
from rli.view.key_columns import KeyColumns
from rli.view.slice_reader import FoundRecords
from rli.view.sought_hashes import SoughtHashes

_FEW_ROWS: Final = 16_384
"""Decoded at once on the way to a few records, or as many as are sought: what follows the last of them is not decoded."""

_MOST_CANDIDATES: Final = 0.5
"""Of the rows of a row group, by their hashes: where more may have a sought key, all keys are compared."""

_ROWS_AT_ONCE: Final = 131_072
"""Decoded on the way to many records, as many as a row group of rli has. Other writers' row groups may not fit into memory."""

_ROWS_PER_KEY: Final = 4
"""At least so many are decoded for each sought key: each comparison hashes all of these."""

_ROWS_PER_POSITION: Final = 64
"""The same for each position of a record: few records of all columns are to take little memory."""

_KEYS_PER_ROW_GROUP: Final = 2
"""Of more keys than that, hardly a row group holds none."""

_FEW_PAGES_IN_VAIN: Final = 8
"""Pages that are decoded for keys with the hash of a sought one: with more, keys are read first, and then the columns of the sought ones."""

_FEW_MATCHES: Final = 16
"""Rows of a row group that are read by their pages. More are in so many pages that all of them are read."""

_ABSENT: Final = -1
_NO_TAILS: Final = np.empty(0, np.uint32)


class _Places(NamedTuple):
    """Where sought keys are in a row group.

    Attributes:
        rows: rising, shape (n,).
        numbers: of the sought key of each row, shape (n,).
    """

    rows: NDArray[np.intp]
    numbers: NDArray[np.intp]


class KeySearch:
    """Finds records by their keys; reads no more than the row groups that may hold one.

    Args:
        base: reads the base file.
        columns: where its keys stand.
        schema: of the records that are given.
    """

    def __init__(self, base: BaseFileReader, columns: KeyColumns, schema: pa.Schema) -> None:
        self._base = base
        self._columns = columns
        self._schema = schema
        self._others = pa.schema([field for field in schema if field.name not in columns.copies])

    def found(self, record_keys: pa.Array, *, finds_first: bool, are_stored: bool) -> Iterator[FoundRecords]:
        """The records of some keys; see ``FileSliceReader.find``."""
        places = self._places_by_hashes(record_keys) if are_stored else None
        if places is None:
            return self._compared(record_keys, finds_first=finds_first)
        return self._found_at(places, record_keys)

    def _compared(self, record_keys: pa.Array, *, finds_first: bool) -> Iterator[FoundRecords]:
        """The records whose stored keys are sought."""
        left = record_keys
        is_hashed = self._columns.ordered_as_keys == RECORD_KEY and self._are_few(record_keys)
        if is_hashed:
            self._base.keep_footer()
        # Hashed once, and only if a file has hashes.
        sought = cache(lambda: SoughtHashes(record_keys))
        for row_group, start in enumerate(self._base.row_group_starts[:-1]):
            if not len(left):
                return
            candidates = self._candidates(left, self._columns.ordered_as_keys, row_group)
            if not len(candidates):
                continue
            if len(candidates) > _FEW_MATCHES * self._base.row_groups:
                # To leave out what is found would take as long as to seek it again.
                rows = self._candidate_rows(row_group, sought)
                for found, records, positions in self._in_one_pass(candidates, row_group, rows):
                    yield FoundRecords(found, records, start + positions)
                continue
            hashed = self._hashed_rows(candidates, sought, row_group) if is_hashed else None
            positions, found, records = hashed or (
                *self._positions(candidates, row_group, finds_first=finds_first),
                None,
            )
            if not len(found):
                continue
            if records is None:
                records = self._others_at(row_group, positions)
            yield FoundRecords(found, self._with_copies(found, records), start + positions)
            if finds_first:
                left = left.filter(pc.invert(pc.is_in(left, value_set=found)))

    def _places_by_hashes(self, record_keys: pa.Array) -> list[_Places] | None:
        """Where many keys that the file has are, by row group; None if the file does not tell, or the keys are few.

        The keys of rows are compared only where two rows, or two of the keys, have the same hash and tail.
        """
        row_groups = self._base.row_groups
        if not row_groups or len(record_keys) <= _FEW_MATCHES * row_groups:
            return None
        # In an object store, a request for numbers takes about as long as one for keys.
        if self._columns.ordered_as_keys != RECORD_KEY or not self._base.is_local or not self._base.has_tails:
            return None
        sought, found = SoughtHashes(record_keys), list[_Places]()
        for row_group in range(row_groups):
            hashes = self._base.key_hashes(row_group)
            if hashes is None:
                return None
            rows = sought.candidates(hashes)
            tails = self._base.hash_tails(row_group, rows) if len(rows) else _NO_TAILS
            if tails is None:
                return None
            matches, numbers = sought.matches(hashes[rows], tails)
            found.append(_Places(rows[matches], numbers))
        times_found = np.bincount(np.concatenate([places.numbers for places in found]), minlength=len(record_keys))
        is_doubtful = (times_found > 1) | sought.are_alike
        if not is_doubtful.any():
            return found
        return [self._cleared(number, places, is_doubtful, record_keys) for number, places in enumerate(found)]

    def _cleared(
        self, row_group: int, places: _Places, is_doubtful: NDArray[np.bool_], record_keys: pa.Array
    ) -> _Places:
        """Places in a row group, those of doubtful keys as the stored keys tell."""
        doubtful = np.flatnonzero(is_doubtful[places.numbers])
        if not len(doubtful):
            return places
        stored = self._columns.keys_of(records_at(self._base, row_group, places.rows[doubtful], self._columns.schema))
        numbers = places.numbers.copy()
        numbers[doubtful] = pc.fill_null(pc.index_in(stored, value_set=record_keys), _ABSENT).to_numpy()
        return _Places(places.rows[numbers != _ABSENT], numbers[numbers != _ABSENT])

    def _found_at(self, places: Sequence[_Places], record_keys: pa.Array) -> Iterator[FoundRecords]:
        """The records of keys at some places of each row group."""
        for row_group, (rows, numbers) in enumerate(places):
            if len(rows):
                found = record_keys.take(pa.array(numbers))
                records = self._with_copies(found, self._others_at(row_group, rows))
                yield FoundRecords(found, records, self._base.row_group_starts[row_group] + rows)

    def _in_one_pass(
        self, record_keys: pa.Array, row_group: int, rows: NDArray[np.intp] | None
    ) -> Iterator[FoundRecords]:
        """The records, with positions in a row group, where hardly a page holds no key: keys and other columns are decoded together.

        Args:
            record_keys: sought.
            row_group: its number.
            rows: that may have one of the keys, rising, shape (n,); None for all.
        """
        start = 0
        needed = pa.schema({field.name: field for field in [*self._columns.schema, *self._schema]}.values())
        for batch in self._base.batches_of(row_group, needed, max(_ROWS_AT_ONCE, _ROWS_PER_KEY * len(record_keys))):
            keys = self._columns.keys_of(conform(batch, self._columns.schema))
            if rows is None:
                positions = _places_in(keys, record_keys)
            else:
                inside = rows[np.searchsorted(rows, start) : np.searchsorted(rows, start + len(keys))] - start
                positions = inside[_places_in(keys.take(pa.array(inside)), record_keys)]
            if len(positions):
                matches = pa.array(positions)
                yield FoundRecords(keys.take(matches), conform(batch.take(matches), self._schema), start + positions)
            start += len(keys)

    def _candidate_rows(self, row_group: int, sought: Callable[[], SoughtHashes]) -> NDArray[np.intp] | None:
        """The rows of a row group that have the hash of a sought key, rising; None if the file does not tell, or most rows have.

        A number is compared in a fraction of the time that a key takes, but not in that of a request to an object store.
        """
        has_keys = self._columns.ordered_as_keys == RECORD_KEY and self._base.is_local
        hashes = self._base.key_hashes(row_group) if has_keys else None
        if hashes is None:
            return None
        rows = sought().candidates(hashes)
        return rows if len(rows) <= _MOST_CANDIDATES * len(hashes) else None

    def _candidates(self, record_keys: pa.Array, column: str | None, row_group: int) -> pa.Array:
        """Those of some keys that a row group may hold, as far as its least and greatest key and its filter tell."""
        if column is None:
            return record_keys
        bounds = self._base.bounds(row_group, column)
        candidates = record_keys if bounds is None else _within(record_keys, *bounds)
        if not len(candidates) or not self._are_few(candidates):
            return candidates
        row_filter = self._base.row_group_filter(row_group, column)
        if row_filter is None:
            return candidates
        return pa.array([key for key in candidates.to_pylist() if row_filter.may_hold(key)], pa.string())

    def _are_few(self, record_keys: pa.Array) -> bool:
        """Whether many a row group holds none of some keys."""
        return len(record_keys) <= _KEYS_PER_ROW_GROUP * self._base.row_groups

    def _hashed_rows(
        self, record_keys: pa.Array, sought: Callable[[], SoughtHashes], row_group: int
    ) -> tuple[NDArray[np.intp], pa.Array, pa.Table | None] | None:
        """As ``_positions``, by the hashes of the file, with the records if these are read together with the keys.

        Args:
            record_keys: sought here.
            sought: gives the hashes of these, and perhaps of others.
            row_group: its number.

        Returns:
            Positions, keys and records; None if the hashes are missing or damaged, or lead to many rows.
        """
        hashes = self._base.key_hashes(row_group)
        if hashes is None:
            return None
        matches = sought().candidates(hashes)
        if len(matches) and self._base.is_local:
            # In an object store, one more request takes longer than pages that are read in vain.
            tails = self._base.hash_tails(row_group, matches)
            if tails is not None:
                matches = matches[sought().matches(hashes[matches], tails)[0]]
        if not len(matches):
            return matches, pa.array([], pa.string()), None
        if len(matches) > _FEW_MATCHES:
            return None
        names, whole = self._columns.schema.names, None
        if len(self._others) and (len(matches) - len(record_keys)) * len(self._others) <= _FEW_PAGES_IN_VAIN:
            all_names = dict.fromkeys([*names, *self._base.present_columns(self._others)])
            whole = self._base.rows_at(row_group, [*all_names], matches)
        keys = self._base.rows_at(row_group, names, matches) if whole is None else whole
        if keys is None:
            return None
        stored = self._columns.keys_of(conform(keys, self._columns.schema))
        is_sought = pc.is_in(stored, value_set=record_keys)
        records = None if whole is None else conform(whole.filter(is_sought), self._others)
        return matches[is_sought.to_numpy(zero_copy_only=False)], stored.filter(is_sought), records

    def _positions(
        self, record_keys: pa.Array, row_group: int, *, finds_first: bool
    ) -> tuple[NDArray[np.intp], pa.Array]:
        """Where some keys are in a row group, in rising order, and which keys are there."""
        start, positions, found = 0, list[NDArray[np.intp]](), list[pa.Array]()
        # Each comparison hashes all the sought keys.
        for batch in self._base.batches_of(row_group, self._columns.schema, max(_FEW_ROWS, len(record_keys))):
            keys = self._columns.keys_of(conform(batch, self._columns.schema))
            matches = _places_in(keys, record_keys)
            if len(matches):
                positions.append(start + matches)
                found.append(keys.take(pa.array(matches)))
            start += len(keys)
            if finds_first and _has_all(found, len(record_keys)):
                break
        if not found:
            return np.empty(0, np.intp), pa.array([], pa.string())
        return np.concatenate(positions), pa.concat_arrays(found)

    def _others_at(self, row_group: int, rows: NDArray[np.intp]) -> pa.Table:
        """The columns that do not hold keys, of some rows (rising, at least one) of a row group."""
        return records_at(self._base, row_group, rows, self._others) if len(self._others) else pa.table({})

    def _with_copies(self, keys: pa.Array, records: pa.Table) -> pa.Table:
        """Records with all columns that are given, those that hold their keys included."""
        copies = self._columns.copies
        values = (keys if field.name in copies else records.column(field.name) for field in self._schema)
        return pa.table([*values], schema=self._schema)


def records_at(base: BaseFileReader, row_group: int, positions: NDArray[np.intp], schema: pa.Schema) -> pa.Table:
    """The records at some positions (in rising order) of a row group."""
    if 0 < len(positions) <= _FEW_MATCHES:
        found = base.rows_at(row_group, base.present_columns(schema), positions)
        if found is not None:
            return conform(found, schema)
    start, parts = 0, list[pa.Table]()
    at_once = min(max(_FEW_ROWS, _ROWS_PER_POSITION * len(positions)), _ROWS_AT_ONCE)
    for batch in base.batches_of(row_group, schema, at_once):
        inside = positions[np.searchsorted(positions, start) : np.searchsorted(positions, start + batch.num_rows)]
        if len(inside):
            parts.append(conform(batch, schema).take(pa.array(inside - start)))
        start += batch.num_rows
        if start > positions[-1]:
            break
    return pa.concat_tables(parts)


def _places_in(keys: pa.Array, sought: pa.Array) -> NDArray[np.intp]:
    """The positions of those keys that are among the sought ones."""
    return np.flatnonzero(pc.is_in(keys, value_set=sought).to_numpy(zero_copy_only=False))


def _has_all(found: Sequence[pa.Array], sought: int) -> bool:
    """Whether so many distinct keys are found, of which some may be found twice."""
    if sum(map(len, found)) < sought:
        return False
    return bool(pc.count_distinct(pa.chunked_array(found, pa.string())).as_py() >= sought)


def _within(record_keys: pa.Array, least: str, greatest: str) -> pa.Array:
    """The keys between two others, in the order of their bytes, which is that of Parquet's statistics."""
    if len(record_keys) == 1:
        # Strings are in the order of their bytes, and three calls of Arrow take longer.
        return record_keys if least <= record_keys[0].as_py() <= greatest else record_keys.slice(0, 0)
    return record_keys.filter(pc.and_(pc.greater_equal(record_keys, least), pc.less_equal(record_keys, greatest)))
