"""Reading the records of a snapshot: all of them, batch by batch, or only which files may hold them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from rli.errors import CorruptTableError, InvalidInputError, SchemaError
from rli.filters.filter import Filter
from rli.hudi.meta_columns import with_meta_columns
from rli.hudi.partition_values import with_values_left_out
from rli.model import FileGroupId
from rli.read_ahead import read_ahead
from rli.tasks import InThreads
from rli.view.definition import TableDefinition
from rli.view.explanation import ScanExplanation, explained
from rli.view.file_slice_reader import dataset_of, only_base_file, require_readable
from rli.view.file_slices import FileSlice
from rli.view.key_columns import KeyColumns
from rli.view.selection import ByValues, Selected, Selection, whole_fragment
from rli.view.skipping import Skipping
from rli.view.slice_reader import SliceReader

_FILES_AHEAD: Final = 2
_BATCHES_AHEAD: Final = 4
"""Read before they are asked for: enough to keep the disk busy, few enough for a small memory."""

_MERGED_AHEAD: Final = 2
"""The same, of file groups with log files: while the caller takes two batches, the next two are read."""


@dataclass(frozen=True)
class SnapshotScan:
    """Some columns of a table's records that pass a filter, all of one snapshot; ``Snapshot.scan`` makes it.

    Nothing is read before it is asked for. Each method may be called again, and shows the same state.

    Attributes:
        table: the definition of the table.
        slices: the live file slices of the snapshot, or some of them.
        table_schema: of all columns but the meta columns; None in a table that was never written.
        schema: of the records that are read.
        filter: which records are read; None for all records.
        require_not_removed: see ``Snapshot.require_not_removed``.
        reader: opens a slice with log files; see ``Snapshot.reader``.
        skipping: asks the metadata table which files hold no such record; None where there is none.
        by_values: asks the indexes of columns in key-value stores, likewise.
        given: the filter of a table that was never written, as it was given.
    """

    table: TableDefinition
    slices: Mapping[FileGroupId, FileSlice]
    table_schema: pa.Schema | None
    schema: pa.Schema
    filter: Filter | None
    require_not_removed: Callable[[Sequence[FileSlice]], None]
    reader: Callable[[FileSlice], SliceReader]
    skipping: Skipping | None = None
    by_values: ByValues | None = None
    given: object = None

    def to_table(self) -> pa.Table:
        """All records; raises as ``Scan.to_table``."""
        live = self._live()
        if self.filter is not None or not live or any(one.logs for one in live):
            return pa.Table.from_batches(self._batches(is_stream=False), self.schema)
        with self._naming_broken_files(live):
            return self._dataset(self._whole(live)).to_table(columns=self.schema.names)

    def to_batches(self) -> pa.RecordBatchReader:
        """The records batch by batch, so that only a few batches are in memory. The reader raises as ``to_table``."""
        return pa.RecordBatchReader.from_batches(self.schema, self._batches(is_stream=True))

    def files(self) -> list[str]:
        """The base files that may hold such records, in order; see ``Scan.files``."""
        storage = self.table.storage
        root = storage.root if storage.is_local else storage.location
        return [f"{root.rstrip('/')}/{only_base_file(file_slice).path}" for file_slice in self.matching_slices()]

    def explain(self) -> ScanExplanation:
        """How many partitions and files each step leaves out; see ``Scan.explain``."""
        live = self._live()
        if self.filter is None:
            return explained(None if self.given is None else str(self.given), live, [])
        with self._naming_broken_files(live):
            return explained(str(self.filter.expression), live, self._selection(self.filter).steps(live))

    def matching_slices(self) -> list[FileSlice]:
        """The live slices that may hold such records, told by partition paths, the metadata table and footers."""
        live = self._live()
        if self.filter is None:
            return live
        with self._naming_broken_files(live):
            return [one.file_slice for some in self._selection(self.filter).among(live) for one in some]

    def merged(
        self, file_slice: FileSlice, record_keys: pa.Array | None = None
    ) -> Generator[pa.RecordBatch, None, None]:
        """The records of a slice that are read, one with log files or without; raises as ``to_table``.

        Args:
            file_slice: the slice.
            record_keys: of all records of the slice that pass the filter, and perhaps of others, distinct; None if they are not known.
        """
        full = self._full_schema
        tested = [] if self.filter is None else self.filter.names_in(full)
        # One column in any case: without one, nothing would say how many records there are.
        names = dict.fromkeys([*self.schema.names, *tested]) or dict.fromkeys(full.names[:1])
        properties, path = self.table.properties, file_slice.group.partition_path
        wanted = pa.schema([full.field(name) for name in names])
        with self.reader(file_slice) as reader:
            if self.filter is None:
                batches = reader.batches(wanted)
            elif record_keys is not None:
                columns = KeyColumns.of(self.table, lambda: self.table_schema, reader.schema)
                batches = (found.records for found in reader.find(record_keys, columns, wanted))
            else:
                batches = reader.batches_that_may(self._selection(self.filter).row_groups, wanted)
            for batch in batches:
                found = with_values_left_out(properties, batch, path)
                passing = found if self.filter is None else found.filter(self.filter.mask(found))
                yield from passing.select(self.schema.names).to_batches()

    def _batches(self, *, is_stream: bool) -> Iterator[pa.RecordBatch]:
        live = self._live()
        with self._naming_broken_files(live):
            if self.filter is None:
                yield from self._scanned(self._whole([one for one in live if not one.logs]), self.schema.names)
                chosen = [Selected(one, None) for one in live if one.logs]
            else:
                chosen = []
                for some in self._selection(self.filter).among(live):
                    yield from self._passing([one.fragment for one in some if one.fragment is not None], self.filter)
                    chosen += [one for one in some if one.fragment is None]
            yield from self._merged_in_turn(chosen) if is_stream else self._merged_at_once(chosen)

    def _merged_in_turn(self, chosen: Sequence[Selected]) -> Iterator[pa.RecordBatch]:
        sources = [partial(self.merged, one.file_slice, one.record_keys) for one in chosen]
        return read_ahead(sources, at_once=_FILES_AHEAD, most=_MERGED_AHEAD)

    def _merged_at_once(self, chosen: Sequence[Selected]) -> Iterator[pa.RecordBatch]:
        """The same, by several threads: all is in memory in the end."""
        for batches in InThreads().run(lambda one: list(self.merged(one.file_slice, one.record_keys)), chosen):
            yield from batches

    def _passing(self, fragments: Sequence[Any], passes: Filter) -> Iterator[pa.RecordBatch]:
        """The records of some fragments that pass a filter.

        pyarrow computes the filter as one more column. Given as a filter, it would leave out row groups by rules of its
        own, under which some records with NaN or -0.0 are lost.
        """
        wanted = [str(position) for position in range(len(self.schema))]
        columns = {name: pc.field(field.name) for name, field in zip(wanted, self.schema, strict=True)}
        for batch in self._scanned(fragments, {**columns, "passes": passes.expression}):
            passing = batch.filter(batch.column(len(wanted)))
            if passing.num_rows and wanted:
                yield pa.RecordBatch.from_arrays(passing.columns[:-1], schema=self.schema)
            elif passing.num_rows:
                # Arrays alone would not tell how many records there are.
                yield passing.select([])

    def _scanned(self, fragments: Sequence[Any], columns: Any) -> Iterator[pa.RecordBatch]:
        if fragments:
            scanner = self._dataset(fragments).scanner(
                columns=columns, fragment_readahead=_FILES_AHEAD, batch_readahead=_BATCHES_AHEAD
            )
            yield from scanner.to_batches()

    def _dataset(self, fragments: Sequence[Any]) -> Any:
        return dataset_of(self.table.storage, fragments, self._full_schema)

    def _whole(self, slices: Sequence[FileSlice]) -> list[Any]:
        return [whole_fragment(self.table, self._full_schema, file_slice) for file_slice in slices]

    def _live(self) -> list[FileSlice]:
        return sorted(self.slices.values(), key=lambda file_slice: file_slice.group)

    def _selection(self, passes: Filter) -> Selection:
        return Selection(self.table, self._full_schema, passes, self.skipping, self.by_values)

    @property
    def _full_schema(self) -> pa.Schema:
        return with_meta_columns(self.table_schema or pa.schema([]))

    @contextmanager
    def _naming_broken_files(self, live: Sequence[FileSlice]) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, OSError) as error:
            self.require_not_removed(live)
            if self.table_schema is not None:
                alone = [one.without_logs() for one in live if one.base is not None]
                require_readable(self.table.storage, alone, self.table_schema)
            raise SchemaError(
                f"the filter or a column's type does not fit the table ({error})", remedy="check names and types"
            ) from error
        except CorruptTableError:
            # Of a file that is missing, a reader of merged records says so itself.
            self.require_not_removed(live)
            raise


def wanted_columns(schema: pa.Schema, columns: Sequence[str] | None) -> pa.Schema:
    """The chosen columns of a table, meta columns among them if they are named; by default all others.

    Args:
        schema: of the records, without meta columns.
        columns: names.

    Raises:
        InvalidInputError: one text is given instead of several.
        SchemaError: a column does not exist.
    """
    if columns is None:
        return schema
    if isinstance(columns, str):
        raise InvalidInputError(
            f"the columns are a single string: columns={columns!r}", remedy=f"pass a list of names: [{columns!r}]"
        )
    full = with_meta_columns(schema)
    unknown = [name for name in columns if name not in full.names]
    if unknown:
        raise SchemaError(
            f"the table has no such columns: columns={unknown} found={schema.names}", remedy="check the names"
        )
    return pa.schema([full.field(name) for name in columns])
