"""Reads the records of a file slice with log files."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rli.arrow_arrays import one_array
from rli.errors import CorruptTableError
from rli.hudi.avro_schema import from_avro
from rli.hudi.bloom_filter import BloomFilter
from rli.hudi.footer_bounds import RowGroupChoice
from rli.hudi.log_file.base_rows import UNKNOWN
from rli.hudi.log_file.form import Header
from rli.hudi.schema import conform
from rli.storage import Storage
from rli.view.file_slice_reader import FileSliceReader
from rli.view.file_slices import DataFile, FileSlice
from rli.view.key_columns import KeyColumns
from rli.view.merging.known_merges import MOST_RECORDS, AddedColumn, KnownMerges, MergedRows
from rli.view.merging.latest_changes import NO_RECORD, POSITION
from rli.view.merging.log_blocks import DataBlock, data_blocks
from rli.view.merging.log_records import LogRecords
from rli.view.merging.merge import Merge
from rli.view.merging.rules import MergeRules
from rli.view.slice_reader import FoundRecords

_BYTES_OF_LOG_RECORD: Final = 64
"""Of a record of ten columns, compressed."""


@dataclass(frozen=True, slots=True)
class MergedTable:
    """The table as the merge of a slice needs it.

    Attributes:
        storage: of the table.
        rules: of the merge.
        schema: of the records, with meta columns.
        key_columns: where the keys of records with a stored schema stand.
        known: results of earlier merges.
    """

    storage: Storage
    rules: MergeRules
    schema: pa.Schema
    key_columns: Callable[[pa.Schema], KeyColumns]
    known: KnownMerges

    @property
    def ordering(self) -> pa.Field | None:
        """The column of ordering values; None if the later record always wins."""
        name = self.rules.ordering
        return self.schema.field(name) if name is not None and name in self.schema.names else None


class MergedReader:
    """Reads the merged records of one slice, as ``SliceReader`` says.

    Memory is bounded by a batch, a row group's columns, the keys of the log files, and the greatest block of a log file.

    Args:
        table: of the slice.
        file_slice: the slice, with log files.

    Raises:
        CorruptTableError: a file is missing or damaged. All methods raise it.
        UnsupportedTableError: a log file holds what rli does not merge. All methods raise it.
    """

    def __init__(self, table: MergedTable, file_slice: FileSlice) -> None:
        self._table = table
        self._slice = file_slice
        self._rows: MergedRows | None = None
        self._found_repeats = False
        with ExitStack() as opened:
            self._blocks = self._open_logs(opened)
            self._base = self._open_base(opened)
            self._opened = opened.pop_all()

    def _open_logs(self, opened: ExitStack) -> list[DataBlock]:
        storage, files = self._table.storage, []
        for file in self._slice.logs:
            try:
                source = storage.filesystem.open_input_file(storage.full_path(file.path))
            except FileNotFoundError as error:
                raise CorruptTableError(
                    f"a log file is missing: file={file.path}",
                    remedy="restore it from a backup, or go back to before its commit with Hudi",
                ) from error
            files.append((_whole(file, opened.enter_context(source)), source))
        return data_blocks(files, self._slice.seen)

    def _open_base(self, opened: ExitStack) -> FileSliceReader | None:
        if self._slice.base is None:
            return None
        return opened.enter_context(FileSliceReader(self._table.storage, self._slice.without_logs()))

    @property
    def rows(self) -> int:
        """Records in the slice; the keys are read for it."""
        merged = self._merged_rows()
        return (0 if self._base is None else self._base.rows - len(merged.gone)) + len(merged.added)

    @property
    def has_few_rows(self) -> bool:
        """False: their number is not known."""
        return False

    @property
    def rows_about(self) -> int:
        """Records of the base file, and about as many as log files of their size hold."""
        of_logs = sum(file.size for file in self._slice.logs) // _BYTES_OF_LOG_RECORD
        return of_logs if self._base is None else self._base.rows + of_logs

    def deletes_any(self, record_keys: pa.Array) -> bool:
        """Whether the last change of any of some distinct keys is a delete; reads blocks whose changes are not known."""
        changed = Merge.of(self._logs(pa.schema([]), takes_all=False), record_keys).latest
        return bool((changed[POSITION].to_numpy() == NO_RECORD).any())

    @property
    def has_repeats(self) -> bool:
        """Whether records that were read so far share their key with one of the base file that log files replace or delete."""
        known = self._known_rows()
        return self._found_repeats or (known is not None and known.has_repeats)

    @property
    def schema(self) -> pa.Schema:
        """Of the records as they are stored: in the base file, or in the first block if there is none."""
        if self._base is not None:
            return self._base.schema
        schemas = (one.block.headers[Header.SCHEMA] for one in self._blocks if Header.SCHEMA in one.block.headers)
        first = next(schemas, None)
        return self._table.schema if first is None else from_avro(first)

    @property
    def bloom_filter(self) -> BloomFilter | None:
        """None: that of the base file knows no keys of log files."""
        return None

    def key_range(self, columns: KeyColumns) -> tuple[str, str] | None:  # noqa: ARG002  (as in the protocol)
        """None: the base file's does not hold for log files."""
        return None

    @property
    def written_key_range(self) -> tuple[str, str] | None:
        """None: see ``key_range``."""
        return None

    def read_columns(self, schema: pa.Schema) -> pa.Table:
        """All merged records, made to fit ``schema``, in the order of ``batches``."""
        return pa.concat_tables([schema.empty_table(), *self.batches(schema)])

    def batches(self, schema: pa.Schema) -> Iterator[pa.Table]:
        """The merged records in batches, made to fit ``schema``: first those of the base file, then those of log files."""
        known = self._known_rows()
        if known is None:
            yield from self._merged(schema)
        else:
            yield from self._of_known(known, () if self._base is None else self._base.batches(schema), schema)

    def batches_that_may(self, choose: RowGroupChoice, schema: pa.Schema) -> Iterator[pa.Table]:
        """As ``batches``, without records of row groups of the base file that a caller does not choose.

        Records of log files all come: bounds of the base file say nothing of them. Which of them count is told by a merge of all keys,
        because a record in a row group that is left out may win over a record of a log file.
        """
        places = {} if self._base is None else self._base.places_of(choose)
        if self._base is None or sum(map(len, places.values())) == self._base.rows:
            yield from self.batches(schema)
            return
        known = self._merged_rows().within([*places.values()])
        yield from self._of_known(known, self._base.batches_of([*places], schema), schema)

    def _of_known(self, known: MergedRows, base: Iterable[pa.Table], schema: pa.Schema) -> Iterator[pa.Table]:
        """The records that a known merge leaves of some batches of the base file, and those of log files."""
        start = 0
        for batch in base:
            kept = known.kept(start, batch.num_rows)
            yield batch if kept is None else batch.filter(pa.array(kept))
            start += batch.num_rows
        yield from self._added(self._logs(schema, records=known.records), known)

    def _added(self, logs: LogRecords, merged: MergedRows) -> Iterator[pa.Table]:
        """The records of log files that a merge gives; keeps them for later reads, which decode no blocks then, if there is room."""
        cache, group = self._table.known.added, (self._table.storage.location, self._slice.group)
        names = [(group, field.name, field.type) for field in logs.schema]
        known = {name: found for name in names if (found := cache.get(name)) and found.slice == self._identity}
        if names and len(known) == len(names):
            yield pa.table([known[name].values for name in names], schema=logs.schema)
            return
        read, size = [logs.schema.empty_table()], 0
        for batch in logs.take(merged.added):
            yield batch
            size += batch.nbytes
            if size <= MOST_RECORDS:
                read.append(batch)
        if size <= MOST_RECORDS:
            columns = dict(zip(names, pa.concat_tables(read).columns, strict=True))
            # If there is no room for the others, those that are known stay.
            cache.keep_all({name: AddedColumn(self._identity, columns[name]) for name in names if name not in known})

    def _merged(self, schema: pa.Schema) -> Iterator[pa.Table]:
        """As ``batches``, of a slice that is merged for the first time."""
        logs = self._logs(schema)
        merge = Merge.of(logs, None)
        gone, start = [np.empty(0, np.int64)], 0
        if self._base is not None:
            columns = self._table.key_columns(self._base.schema).within(schema)
            needed, stored = self._needed(schema, None), self._base.schema.names
            # Without a stored column, nothing would say how many records there are.
            by_place = merge.is_placed and any(name in stored for name in needed.names)
            for batch in self._base.batches(needed if by_place else self._needed(schema, columns)):
                ordering = self._ordering_of(batch)
                if by_place:
                    kept = merge.kept_of(start, batch.num_rows, ordering)
                else:
                    kept = merge.kept(columns.keys_of(_only(batch, columns.schema)), ordering)
                gone.append(start + np.flatnonzero(~kept))
                start += batch.num_rows
                found = _only(batch, schema)
                yield found if not len(gone[-1]) else found.filter(pa.array(kept))
        found = MergedRows(np.concatenate(gone), merge.added(), logs.records, merge.has_repeats)
        self._rows = found
        self._table.known.slices.keep(self._identity, found)
        yield from self._added(logs, found)

    def _merged_rows(self) -> MergedRows:
        """The records that the merge gives. Reads the keys, unless an earlier merge is known."""
        while (found := self._known_rows()) is None:
            for _ in self._merged(pa.schema([self._table.schema.field(0)])):
                pass
        return found

    def _known_rows(self) -> MergedRows | None:
        return self._table.known.slices.get(self._identity) if self._rows is None else self._rows

    @cached_property
    def _identity(self) -> Hashable:
        """Identifies the slice, and the ordering column by which its records are merged."""
        base = None if self._slice.base is None else (self._slice.base.path, self._slice.base.size)
        blocks = tuple(one.identity for one in self._blocks)
        return self._table.storage.location, base, blocks, str(self._table.ordering)

    def find(
        self,
        record_keys: pa.Array,
        columns: KeyColumns,
        schema: pa.Schema,
        *,
        finds_first: bool = False,
        are_stored: bool = False,
    ) -> Iterator[FoundRecords]:
        """The merged records of some distinct keys: those of the base file are read as ``FileSliceReader.find`` reads them."""
        needed = self._needed(schema, columns)
        logs = self._logs(needed, takes_all=False)
        merge = Merge.of(logs, record_keys)
        replaced, rows = [pa.array([], pa.string())], [np.empty(0, np.int64)]
        if self._base is not None:
            # The record of a key may be in log files alone, and a row of the base file have its hash by chance.
            are_in_base = are_stored and merge.is_placed
            parts = self._base.find(record_keys, columns, needed, finds_first=finds_first, are_stored=are_in_base)
            for keys, batch, base_rows in parts:
                kept = merge.kept(keys, self._ordering_of(batch))
                self._found_repeats |= merge.has_repeats
                replaced.append(keys.filter(pa.array(~kept)))
                rows.append(base_rows[~kept])
                stays = pa.array(kept)
                yield FoundRecords(keys.filter(stays), _only(batch.filter(stays), schema), base_rows[kept])
        known, of_known = pa.concat_arrays(replaced), np.concatenate(rows)
        for batch in logs.take(merge.added()):
            keys = columns.keys_of(_only(batch, columns.schema))
            yield FoundRecords(keys, _only(batch, schema), _rows_by_key(keys, known, of_known))

    def records_at(self, positions: NDArray[np.intp], schema: pa.Schema) -> Iterator[pa.Table]:
        """The merged records at some positions (in rising order), made to fit ``schema``."""
        merged, of_base = self._merged_rows(), 0
        if self._base is not None:
            of_base = self._base.rows - len(merged.gone)
            inside = positions[: np.searchsorted(positions, of_base)]
            yield from self._base.records_at(merged.rows_of_base(inside), schema)
        added = merged.added[positions[np.searchsorted(positions, of_base) :] - of_base]
        yield from self._logs(schema, records=merged.records).take(added)

    def close(self) -> None:
        """Close the files."""
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _logs(self, schema: pa.Schema, *, takes_all: bool = True, records: tuple[int, ...] = ()) -> LogRecords:
        table = self._table
        location, known = table.storage.location, table.known
        base = None
        if self._slice.base is not None and self._base is not None:
            base = posixpath.basename(self._slice.base.path), self._base.rows
        return LogRecords(
            self._blocks, location, schema, table.key_columns, table.ordering, base, known, takes_all, records
        )

    def _needed(self, schema: pa.Schema, columns: KeyColumns | None) -> pa.Schema:
        """The wanted columns, those of the keys if these are needed, and that of ordering values.

        These have the type of the table, as those of log files: a caller may ask for the wider type that it is about to write.
        """
        ordering = self._table.ordering
        keys = pa.schema([]) if columns is None else columns.schema
        fields = [*([] if ordering is None else [ordering]), *schema, *keys]
        return pa.schema({field.name: field for field in reversed(fields)}.values())

    def _ordering_of(self, batch: pa.Table) -> pa.Array | None:
        ordering = self._table.ordering
        return None if ordering is None else one_array(batch[ordering.name])


def _whole(file: DataFile, source: pa.NativeFile) -> DataFile:
    """A file with its present size: in table version 6 others append to it, and the listing may be older than a block that counts."""
    size = source.size()
    if size < file.size:
        raise CorruptTableError(
            f"a log file has become shorter: file={file.path} bytes={size} listed={file.size}",
            remedy="restore it from a backup, or go back to before its commit with Hudi",
        )
    return replace(file, size=size)


def _rows_by_key(keys: pa.Array, known: pa.Array, of_known: NDArray[np.int64]) -> NDArray[np.int64]:
    """The positions in the base file of some keys, given those of the keys that it is known to hold; shape (n,)."""
    places = pc.fill_null(pc.index_in(keys, value_set=known), len(known)).to_numpy(zero_copy_only=False)
    return np.append(of_known, UNKNOWN)[places]


def _only(batch: pa.Table, schema: pa.Schema) -> pa.Table:
    """Some of a batch's columns, made to fit ``schema``."""
    return conform(batch.select(schema.names), schema) if schema.names else batch.select([])
