"""Reading the records of a snapshot: all of them, batch by batch, or only which files may hold them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rli.errors import InvalidInputError, SchemaError
from rli.hudi.meta_columns import with_meta_columns
from rli.hudi.partition_values import partition_expression
from rli.view.definition import TableDefinition
from rli.view.file_slice_reader import dataset_of, only_base_file, require_readable
from rli.view.file_slices import FileSlice
from rli.view.file_system_view import FileSystemView
from rli.view.filters import parse_where

_FILES_AHEAD: Final = 2
_BATCHES_AHEAD: Final = 4
"""Read before they are asked for: enough to keep the disk busy, few enough for a small memory."""


@dataclass(frozen=True)
class Scan:
    """Some columns of a table's records that pass a filter, all of one snapshot; ``Table.scan`` makes it.

    Nothing is read before it is asked for. Each method may be called again, and shows the same state.

    Attributes:
        table: the definition of the table.
        slices: the live file slices of the snapshot.
        table_schema: of all columns but the meta columns; None in a table that was never written.
        schema: of the records that are read.
        expression: the filter; None for all records.
    """

    table: TableDefinition
    slices: FileSystemView
    table_schema: pa.Schema | None
    schema: pa.Schema
    expression: pc.Expression | None

    def to_table(self) -> pa.Table:
        """All records.

        Raises:
            SchemaError: the filter does not fit.
            CorruptTableError: a base file cannot be read.
        """
        live = self._live()
        if not live:
            return self.schema.empty_table()
        with self._naming_broken_files(live):
            return self._dataset(live).to_table(columns=self.schema.names, filter=self.expression)

    def to_batches(self) -> pa.RecordBatchReader:
        """The records batch by batch, so that only a few batches are in memory. The reader raises as ``to_table``."""
        return pa.RecordBatchReader.from_batches(self.schema, self._batches())

    def files(self) -> list[str]:
        """The base files that may hold such records, in order: paths of a local table, URIs of others.

        Partition paths and column statistics tell which these are. They hold Hudi's meta columns too.
        """
        storage = self.table.storage
        root = storage.root if storage.is_local else storage.location
        return [f"{root.rstrip('/')}/{only_base_file(file_slice).path}" for file_slice in self.matching_slices()]

    def matching_slices(self) -> list[FileSlice]:
        """The live slices that may hold such records, told by partition paths and column statistics."""
        live = self._live()
        if self.expression is None or not live:
            return live
        with self._naming_broken_files(live):
            dataset = self._dataset(live)
            matching = {
                fragment.path
                for fragment in dataset.get_fragments(filter=self.expression)
                if fragment.subset(filter=self.expression, schema=dataset.schema).row_groups
            }
        storage = self.table.storage
        return [file_slice for file_slice in live if storage.full_path(only_base_file(file_slice).path) in matching]

    def _batches(self) -> Iterator[pa.RecordBatch]:
        live = self._live()
        if not live:
            return
        with self._naming_broken_files(live):
            scanner = self._dataset(live).scanner(
                columns=self.schema.names,
                filter=self.expression,
                fragment_readahead=_FILES_AHEAD,
                batch_readahead=_BATCHES_AHEAD,
            )
            yield from scanner.to_batches()

    def _live(self) -> list[FileSlice]:
        return sorted(self.slices.values(), key=lambda file_slice: file_slice.group)

    def _dataset(self, live: Sequence[FileSlice]) -> Any:
        schema = with_meta_columns(self.table_schema or pa.schema([]))
        return dataset_of(
            self.table.storage,
            live,
            schema,
            lambda file_slice: partition_expression(self.table.properties, schema, file_slice.group.partition_path),
        )

    @contextmanager
    def _naming_broken_files(self, live: Sequence[FileSlice]) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, OSError) as error:
            if self.table_schema is not None:
                require_readable(self.table.storage, live, self.table_schema)
            raise SchemaError(
                f"the filter or a column's type does not fit the table ({error}); check names and types"
            ) from error


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
            f"the columns are a single text: columns={columns!r}; pass a list of names: [{columns!r}]"
        )
    full = with_meta_columns(schema)
    unknown = [name for name in columns if name not in full.names]
    if unknown:
        raise SchemaError(f"the table has no such columns: columns={unknown} found={full.names}; check the names")
    return pa.schema([full.field(name) for name in columns])


def filter_expression(filters: object, schema: pa.Schema) -> pc.Expression | None:
    """A filter as an expression.

    Args:
        filters: a ``pyarrow.compute.Expression``, tuples as ``pyarrow.parquet.read_table`` takes them, or a text as
            ``parse_where`` takes it; None for no filter.
        schema: of the records, without meta columns.

    Raises:
        SchemaError: it is not a filter.
        InvalidInputError: the text is not understood.
    """
    if filters is None or isinstance(filters, pc.Expression):
        return filters
    if isinstance(filters, str):
        return parse_where(filters, with_meta_columns(schema))
    try:
        return pq.filters_to_expression(filters)
    except (ValueError, TypeError) as error:
        raise SchemaError(
            f'this is not a filter: filters={filters!r} ({error}); give a text such as "fare > 10", a pyarrow '
            "expression or tuples (column, op, value)"
        ) from error
