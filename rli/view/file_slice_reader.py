"""Reading file slices without log files; ``rli.view.merging`` reads slices with log files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, cached_property
from itertools import accumulate
from typing import Any, Final, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rli.errors import UnsupportedTableError
from rli.hudi.base_file_reader import BaseFileReader, corrupt_unless_parquet
from rli.hudi.bloom_filter import BloomFilter
from rli.hudi.footer_bounds import RowGroupChoice
from rli.hudi.meta_columns import RECORD_KEY
from rli.hudi.schema import conform
from rli.storage import Storage
from rli.view.file_slices import DataFile, FileSlice
from rli.view.key_columns import KeyColumns
from rli.view.slice_reader import FoundRecords
from rli.view.sought_hashes import SoughtHashes

READ_BATCH_ROWS: Final = 65_536

_FEW_ROWS: Final = 16_384
"""Decoded at once on the way to a few records, or as many as are sought: what follows the last of them is not decoded."""

_MOST_CANDIDATES: Final = 0.5
"""Of the rows of a row group, by their hashes: where more may have a sought key, all keys are compared."""

_ROWS_AT_ONCE: Final = 131_072
"""Decoded on the way to many records, as many as a row group of rli has. Other writers' row groups may not fit into memory."""

_ROWS_PER_KEY: Final = 4
"""At least so many are decoded for each sought key: each comparison hashes all of these."""

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
        keys: the number of the sought key of each row, shape (n,).
    """

    rows: NDArray[np.intp]
    keys: NDArray[np.intp]


class FileSliceReader:
    """Reads the records of one file slice; memory is bounded by a batch and a row group's columns.

    Args:
        storage: of the table.
        file_slice: the slice.
        verifies_checksums: whether a page that differs from its checksum, where it has one, is an error.

    Raises:
        CorruptTableError: a file is missing or damaged. All methods raise it.
        UnsupportedTableError: the slice has log files.
    """

    def __init__(self, storage: Storage, file_slice: FileSlice, *, verifies_checksums: bool = False) -> None:
        base = only_base_file(file_slice)
        self._base = BaseFileReader(storage, base.path, base.size, verifies_checksums=verifies_checksums)

    @property
    def rows(self) -> int:
        """Records in the slice."""
        return self._base.rows

    @property
    def has_few_rows(self) -> bool:
        """Whether the slice has so few records that ``batches`` holds all of them in memory at once."""
        return self._base.has_few_rows

    @property
    def rows_about(self) -> int:
        """As ``rows``: there are no log files."""
        return self.rows

    def deletes_any(self, record_keys: pa.Array) -> bool:  # noqa: ARG002  (as in the protocol)
        """No: there are no log files."""
        return False

    @property
    def has_repeats(self) -> bool:
        """No: there are no log files."""
        return False

    @property
    def schema(self) -> pa.Schema:
        """Of the records as they are stored, meta columns included where there are any."""
        return self._base.schema

    @property
    def bloom_filter(self) -> BloomFilter | None:
        """Of the stored record keys; None if the slice has none."""
        return self._base.bloom_filter()

    def key_range(self, columns: KeyColumns) -> tuple[str, str] | None:
        """The least and the greatest record key, in the order of their bytes; None where the footers do not tell.

        Args:
            columns: where the keys of this slice stand.
        """
        if columns.ordered_as_keys is None:
            return None
        bounds = [self._base.bounds(group, columns.ordered_as_keys) for group in range(self._base.row_groups)]
        known = [found for found in bounds if found is not None]
        if not known or len(known) < len(bounds):
            return None
        return min(least for least, _ in known), max(greatest for _, greatest in known)

    @property
    def written_key_range(self) -> tuple[str, str] | None:
        """The least and the greatest record key as the writer has noted them; None if it has not.

        In the order of UTF-8 bytes or of UTF-16 code units: writers differ.
        """
        return self._base.key_range()

    def read_columns(self, schema: pa.Schema) -> pa.Table:
        """All records, reduced to the columns of ``schema`` and made to fit it."""
        return self._base.read_columns(schema)

    def batches(self, schema: pa.Schema) -> Iterator[pa.Table]:
        """The records in order, in batches of ``READ_BATCH_ROWS``, made to fit ``schema``."""
        return self._base.batches(schema, READ_BATCH_ROWS)

    @cached_property
    def _row_group_starts(self) -> list[int]:
        """The position of the first record of each row group, and the number of all records."""
        return [0, *accumulate(self._base.rows_of(number) for number in range(self._base.row_groups))]

    def places_of(self, choose: RowGroupChoice) -> dict[int, range]:
        """The row groups that a caller chooses, by number, each with the positions of its records."""
        ends = self._row_group_starts
        return {number: range(ends[number], ends[number + 1]) for number in self._base.row_groups_of(choose)}

    def batches_that_may(self, choose: RowGroupChoice, schema: pa.Schema) -> Iterator[pa.Table]:
        """As ``batches``, without records of row groups that a caller does not choose."""
        return self.batches_of([*self.places_of(choose)], schema)

    def batches_of(self, row_groups: Sequence[int], schema: pa.Schema) -> Iterator[pa.Table]:
        """As ``batches``, of some row groups alone, by their numbers in rising order."""
        return self._base.batches(schema, READ_BATCH_ROWS, row_groups) if row_groups else iter(())

    def find(
        self,
        record_keys: pa.Array,
        columns: KeyColumns,
        schema: pa.Schema,
        *,
        finds_first: bool = False,
        are_stored: bool = False,
    ) -> Iterator[FoundRecords]:
        """The records of some keys: reads no more than the row groups that may hold one.

        Args:
            record_keys: distinct string array, shape (n,).
            columns: where the keys of this slice stand.
            schema: of the records.
            finds_first: whether the first record of each key will do: others, and what follows the last of these, may be left out.
            are_stored: whether the index places all the keys in this file. Then a row with hash and tail of a key is its record, if no
                other row has both: no key is read.

        Returns:
            Parts of the slice, in its order.
        """
        places = self._places_by_hashes(record_keys, columns) if are_stored else None
        if places is None:
            return self._compared(record_keys, columns, schema, finds_first=finds_first)
        return self._found_at(places, record_keys, columns, schema)

    def _compared(
        self, record_keys: pa.Array, columns: KeyColumns, schema: pa.Schema, *, finds_first: bool
    ) -> Iterator[FoundRecords]:
        """The records whose stored keys are sought; see ``find``."""
        left = record_keys
        is_hashed = columns.ordered_as_keys == RECORD_KEY and self._are_few(record_keys)
        if is_hashed:
            self._base.keep_footer()
        others = _without_copies(schema, columns)
        # Hashed once, and only if a file has hashes.
        sought = cache(lambda: SoughtHashes(record_keys))
        for row_group, start in enumerate(self._row_group_starts[:-1]):
            if not len(left):
                return
            candidates = self._candidates(left, columns.ordered_as_keys, row_group)
            if not len(candidates):
                continue
            if len(candidates) > _FEW_MATCHES * self._base.row_groups:
                # To leave out what is found would take as long as to seek it again.
                is_candidate = self._are_candidates(row_group, sought, columns)
                for found, records, positions in self._in_one_pass(
                    candidates, columns, schema, row_group, is_candidate
                ):
                    yield FoundRecords(found, records, start + positions)
                continue
            hashed = self._hashed_rows(candidates, sought(), columns, others, row_group) if is_hashed else None
            positions, found, records = hashed or (
                *self._positions(candidates, columns, row_group, finds_first=finds_first),
                None,
            )
            if not len(found):
                continue
            if records is None:
                records = self._records_at(positions, others, row_group) if len(others) else pa.table({})
            yield FoundRecords(found, _with_copies(found, records, columns, schema), start + positions)
            if finds_first:
                left = left.filter(pc.invert(pc.is_in(left, value_set=found)))

    def _places_by_hashes(self, record_keys: pa.Array, columns: KeyColumns) -> list[_Places] | None:
        """Where many keys that the file has are, by row group; None if the file does not tell, or the keys are few.

        The keys of rows are compared only where two rows, or two of the keys, have the same hash and tail.
        """
        are_many = len(record_keys) > _FEW_MATCHES * self._base.row_groups > 0
        if not are_many or columns.ordered_as_keys != RECORD_KEY or not self._base.has_tails:
            return None
        sought, found = SoughtHashes(record_keys), list[_Places]()
        for row_group in range(self._base.row_groups):
            hashes = self._base.key_hashes(row_group)
            if hashes is None or len(hashes) != self._base.rows_of(row_group):
                return None
            rows = sought.candidates(hashes)
            tails = self._base.hash_tails(row_group, rows) if len(rows) else _NO_TAILS
            if tails is None:
                return None
            matches, keys = sought.matches(hashes[rows], tails)
            found.append(_Places(rows[matches], keys))
        times_found = np.bincount(np.concatenate([places.keys for places in found]), minlength=len(record_keys))
        is_doubtful = (times_found > 1) | sought.are_alike
        if not is_doubtful.any():
            return found
        return [self._cleared(number, places, is_doubtful, record_keys, columns) for number, places in enumerate(found)]

    def _cleared(
        self,
        row_group: int,
        places: _Places,
        is_doubtful: NDArray[np.bool_],
        record_keys: pa.Array,
        columns: KeyColumns,
    ) -> _Places:
        """Places in a row group, those of doubtful keys as the stored keys tell."""
        doubtful = np.flatnonzero(is_doubtful[places.keys])
        if not len(doubtful):
            return places
        stored = columns.keys_of(self._records_at(places.rows[doubtful], columns.schema, row_group))
        numbers = pc.fill_null(pc.index_in(stored, value_set=record_keys), _ABSENT).to_numpy()
        keys = places.keys.copy()
        keys[doubtful] = numbers
        return _Places(places.rows[keys != _ABSENT], keys[keys != _ABSENT])

    def _found_at(
        self, places: Sequence[_Places], record_keys: pa.Array, columns: KeyColumns, schema: pa.Schema
    ) -> Iterator[FoundRecords]:
        """The records of keys at some places of each row group."""
        others = _without_copies(schema, columns)
        for row_group, (rows, keys) in enumerate(places):
            if len(rows):
                found = record_keys.take(pa.array(keys))
                records = self._records_at(rows, others, row_group) if len(others) else pa.table({})
                start = self._row_group_starts[row_group]
                yield FoundRecords(found, _with_copies(found, records, columns, schema), start + rows)

    def _in_one_pass(
        self,
        record_keys: pa.Array,
        columns: KeyColumns,
        schema: pa.Schema,
        row_group: int,
        is_candidate: NDArray[np.bool_] | None,
    ) -> Iterator[FoundRecords]:
        """As ``find``, with positions in a row group, where hardly a page holds no key: keys and other columns are decoded together.

        Args:
            record_keys: sought.
            columns: where the keys stand.
            schema: of the records.
            row_group: its number.
            is_candidate: which rows may have one of the keys, shape (n,); None for all.
        """
        start = 0
        needed = pa.schema({field.name: field for field in [*columns.schema, *schema]}.values())
        for batch in self._base.batches_of(row_group, needed, max(_ROWS_AT_ONCE, _ROWS_PER_KEY * len(record_keys))):
            keys = columns.keys_of(conform(batch, columns.schema))
            if is_candidate is None:
                positions = _places_in(keys, record_keys)
            else:
                candidates = np.flatnonzero(is_candidate[start : start + len(keys)])
                positions = candidates[_places_in(keys.take(pa.array(candidates)), record_keys)]
            if len(positions):
                matches = pa.array(positions)
                yield FoundRecords(keys.take(matches), conform(batch.take(matches), schema), start + positions)
            start += len(keys)

    def _are_candidates(
        self, row_group: int, sought: Callable[[], SoughtHashes], columns: KeyColumns
    ) -> NDArray[np.bool_] | None:
        """Which rows of a row group have the hash of a sought key, shape (n,); None if the file does not tell, or most have.

        A number is compared in a fraction of the time that a key takes, but not in that of a request to an object store.
        """
        has_keys = columns.ordered_as_keys == RECORD_KEY and self._base.is_local
        hashes = self._base.key_hashes(row_group) if has_keys else None
        if hashes is None or len(hashes) != self._base.rows_of(row_group):
            return None
        rows = sought().candidates(hashes)
        if len(rows) > _MOST_CANDIDATES * len(hashes):
            return None
        found = np.zeros(len(hashes), np.bool_)
        found[rows] = True
        return found

    def records_at(self, positions: NDArray[np.intp], schema: pa.Schema) -> Iterator[pa.Table]:
        """The records at some positions (in rising order), made to fit ``schema``: reads only the row groups that hold one."""
        start = 0
        for row_group in range(self._base.row_groups):
            end = start + self._base.rows_of(row_group)
            inside = positions[np.searchsorted(positions, start) : np.searchsorted(positions, end)]
            if len(inside):
                yield self._records_at(inside - start, schema, row_group)
            start = end

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
        self, record_keys: pa.Array, sought: SoughtHashes, columns: KeyColumns, others: pa.Schema, row_group: int
    ) -> tuple[NDArray[np.intp], pa.Array, pa.Table | None] | None:
        """As ``_positions``, by the hashes of the file, with the records if these are read together with the keys.

        Args:
            record_keys: sought here.
            sought: hashes of these, and perhaps of others.
            columns: where the keys stand.
            others: the schema of the records.
            row_group: its number.

        Returns:
            Positions, keys and records; None if the hashes are missing or damaged, or lead to many rows.
        """
        hashes = self._base.key_hashes(row_group)
        if hashes is None:
            return None
        matches = sought.candidates(hashes)
        if len(matches) and self._base.is_local:
            # In an object store, one more request takes longer than pages that are read in vain.
            tails = self._base.hash_tails(row_group, matches)
            if tails is not None:
                matches = matches[sought.matches(hashes[matches], tails)[0]]
        if not len(matches):
            return matches, pa.array([], pa.string()), None
        if len(matches) > _FEW_MATCHES:
            return None
        names, whole = columns.schema.names, None
        if len(others) and (len(matches) - len(record_keys)) * len(others) <= _FEW_PAGES_IN_VAIN:
            all_names = dict.fromkeys([*names, *self._base.present_columns(others)])
            whole = self._base.rows_at(row_group, [*all_names], matches)
        keys = self._base.rows_at(row_group, names, matches) if whole is None else whole
        if keys is None:
            return None
        stored = columns.keys_of(conform(keys, columns.schema))
        is_sought = pc.is_in(stored, value_set=record_keys)
        records = None if whole is None else conform(whole.filter(is_sought), others)
        return matches[is_sought.to_numpy(zero_copy_only=False)], stored.filter(is_sought), records

    def _positions(
        self, record_keys: pa.Array, columns: KeyColumns, row_group: int, *, finds_first: bool
    ) -> tuple[NDArray[np.intp], pa.Array]:
        """Where some keys are in a row group, in rising order, and which keys are there."""
        start, positions, found = 0, list[NDArray[np.intp]](), list[pa.Array]()
        # Each comparison hashes all the sought keys.
        for batch in self._base.batches_of(row_group, columns.schema, max(_FEW_ROWS, len(record_keys))):
            keys = columns.keys_of(conform(batch, columns.schema))
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

    def _records_at(self, positions: NDArray[np.intp], schema: pa.Schema, row_group: int) -> pa.Table:
        """The records at some positions (in rising order) of a row group."""
        if 0 < len(positions) <= _FEW_MATCHES:
            found = self._base.rows_at(row_group, self._base.present_columns(schema), positions)
            if found is not None:
                return conform(found, schema)
        start, parts = 0, list[pa.Table]()
        at_once = _FEW_ROWS if len(positions) <= _FEW_MATCHES else _ROWS_AT_ONCE
        for batch in self._base.batches_of(row_group, schema, at_once):
            inside = positions[np.searchsorted(positions, start) : np.searchsorted(positions, start + batch.num_rows)]
            if len(inside):
                parts.append(conform(batch, schema).take(pa.array(inside - start)))
            start += batch.num_rows
            if start > positions[-1]:
                break
        return pa.concat_tables(parts)

    def close(self) -> None:
        self._base.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _without_copies(schema: pa.Schema, columns: KeyColumns) -> pa.Schema:
    """The columns of records that do not hold their keys."""
    return pa.schema([field for field in schema if field.name not in columns.copies])


def _with_copies(keys: pa.Array, records: pa.Table, columns: KeyColumns, schema: pa.Schema) -> pa.Table:
    """Records with all columns of a schema, those that hold their keys included."""
    values = (keys if field.name in columns.copies else records.column(field.name) for field in schema)
    return pa.table([*values], schema=schema)


def _places_in(keys: pa.Array, sought: pa.Array) -> NDArray[np.intp]:
    """The positions of those keys that are among the sought ones."""
    return np.flatnonzero(pc.is_in(keys, value_set=sought).to_numpy(zero_copy_only=False))


def _has_all(found: Sequence[pa.Array], sought: int) -> bool:
    """Whether so many distinct keys are found, of which some may be found twice."""
    if sum(map(len, found)) < sought:
        return False
    return bool(pc.count_distinct(pa.chunked_array(found, pa.string())).as_py() >= sought)


def fragment_of(storage: Storage, file_slice: FileSlice, guarantee: pc.Expression) -> Any:
    """The records of a slice as a ``pyarrow.dataset.Fragment``.

    Args:
        storage: of the table.
        file_slice: the slice.
        guarantee: gives the values of columns that the slice's files leave out. pyarrow takes it for true.
    """
    path = storage.full_path(only_base_file(file_slice).path)
    return _parquet().make_fragment(path, storage.filesystem, guarantee)


def dataset_of(storage: Storage, fragments: Sequence[Any], schema: pa.Schema) -> Any:
    """The records of some fragments as a ``pyarrow.dataset.Dataset``; ``schema`` is that of the records."""
    import pyarrow.dataset as ds  # noqa: PLC0415  (it loads pandas where that is installed)

    return ds.FileSystemDataset(fragments, schema, _parquet(), storage.filesystem)


def _parquet() -> Any:
    import pyarrow.dataset as ds  # noqa: PLC0415  (it loads pandas where that is installed)

    return ds.ParquetFileFormat()


def require_readable(storage: Storage, slices: Sequence[FileSlice], schema: pa.Schema) -> None:
    """Raise ``CorruptTableError`` for the first slice that cannot be read, if there is one."""
    for file_slice in slices:
        with corrupt_unless_parquet(only_base_file(file_slice).path), FileSliceReader(storage, file_slice) as reader:
            for _ in reader.batches(schema):
                pass


def only_base_file(file_slice: FileSlice) -> DataFile:
    """The base file of a slice that has nothing else; raises ``UnsupportedTableError`` for others."""
    if file_slice.base is None or file_slice.logs:
        raise UnsupportedTableError(
            "the file group has log files, so its base file alone does not tell its records: "
            f"partition={file_slice.group.partition_path} file_id={file_slice.group.file_id}",
            remedy="read with query='read_optimized', or run Hudi's compaction first",
        )
    return file_slice.base


def _within(record_keys: pa.Array, least: str, greatest: str) -> pa.Array:
    """The keys between two others, in the order of their bytes, which is that of Parquet's statistics."""
    if len(record_keys) == 1:
        # Strings are in the order of their bytes, and three calls of Arrow take longer.
        return record_keys if least <= record_keys[0].as_py() <= greatest else record_keys.slice(0, 0)
    return record_keys.filter(pc.and_(pc.greater_equal(record_keys, least), pc.less_equal(record_keys, greatest)))
