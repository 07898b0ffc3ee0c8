"""The state of a table at an instant: its schema, its live file slices, and how to read them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rli.errors import SchemaError, UnsupportedTableError
from rli.layout.avro_schema import from_avro
from rli.layout.base_file import BaseFileReader, corrupt_unless_parquet
from rli.layout.file_slices import FileSlice, latest_slices
from rli.layout.meta_columns import META_COLUMNS, RECORD_KEY, with_meta_columns
from rli.layout.partition_values import partition_expression
from rli.model import FileGroupId
from rli.table.state.definition import TableDefinition
from rli.table.state.live_slices import LiveSlices
from rli.timeline.commit_metadata import CommitMetadata
from rli.timeline.instant import Instant
from rli.timeline.timeline import Timeline, read_commit


@dataclass(frozen=True)
class Snapshot:
    """A table as of one moment of its timeline.

    Attributes:
        table: its definition.
        timeline: the instants that count.
    """

    table: TableDefinition
    timeline: Timeline

    @classmethod
    def now(cls, table: TableDefinition) -> Snapshot:
        """The table as its timeline shows it at this moment."""
        return cls(table, table.load_timeline())

    def as_of(self, instant: str) -> Snapshot:
        """The table as it was at an instant."""
        return Snapshot(self.table, self.timeline.at(instant))

    def reduced_to(self, instants: frozenset[str]) -> Snapshot:
        """The table as if, of the completed instants, only these existed."""
        kept = tuple(i for i in self.timeline.instants if not i.is_completed or i.time in instants)
        return Snapshot(self.table, replace(self.timeline, instants=kept))

    def commit(self, instant: Instant) -> CommitMetadata:
        return read_commit(self.table.storage, self.timeline, instant)

    @cached_property
    def schema(self) -> pa.Schema | None:
        """Schema of the records without meta columns; None in a table that was never written."""
        for instant in reversed(self.timeline.completed_writes):
            avro = self.commit(instant).avro_schema
            if avro:
                return _without_meta(from_avro(avro))
        if self.table.properties.create_schema:
            return _without_meta(from_avro(self.table.properties.create_schema))
        newest = max(self.slices.values(), key=lambda file_slice: file_slice.instant, default=None)
        if newest is None:
            return None
        with self.table.storage.filesystem.open_input_file(self.table.storage.full_path(newest.path)) as source:
            return _without_meta(pq.read_schema(source).remove_metadata())

    @cached_property
    def slices(self) -> LiveSlices:
        """The live slice of each file group."""
        return LiveSlices(self.table.storage, self.live_slices)

    def live_slices(self, base_files: Sequence[FileSlice]) -> dict[FileGroupId, FileSlice]:
        """The live ones of some base files."""
        return latest_slices(base_files, self.timeline, self.replaced)

    @cached_property
    def replaced(self) -> dict[FileGroupId, str]:
        """Replaced file groups with the instant of their replacement."""
        found: dict[FileGroupId, str] = {}
        for instant in self.timeline.completed_writes:
            if instant.action == "replacecommit":
                for partition_path, file_ids in self.commit(instant).replaced_file_ids.items():
                    found.update({FileGroupId(partition_path, file_id): instant.time for file_id in file_ids})
        return found

    def record_keys(self, file_slice: FileSlice) -> Iterator[pa.Array]:
        """The record keys of a file slice, in batches.

        Raises:
            UnsupportedTableError: the table keeps no meta columns and its keys cannot be formed again.
        """
        storage, properties = self.table.storage, self.table.properties
        with BaseFileReader(storage, file_slice.path) as reader:
            # Tables without meta fields may have the meta columns all the same, holding nulls.
            if properties.populate_meta_fields and RECORD_KEY in reader.column_names:
                for batch in reader.batches(pa.schema([pa.field(RECORD_KEY, pa.string())])):
                    yield batch.column(RECORD_KEY).combine_chunks()
                return
            if not properties.record_key_fields or self.schema is None:
                raise UnsupportedTableError(
                    f"the table has neither meta columns nor record-key fields: table={self.table.location}; "
                    "an index needs one of them"
                )
            schema = pa.schema([self.schema.field(name) for name in properties.record_key_fields])
            for batch in reader.batches(schema):
                yield self.table.key_generator.record_keys(batch)

    def read(self, columns: Sequence[str] | None = None, filters: object = None) -> pa.Table:
        """The records, or some columns of those that pass a filter.

        Args:
            columns: names, meta columns among them if wanted; by default all columns but the meta columns.
            filters: a ``pyarrow.compute.Expression``, or tuples as ``pyarrow.parquet.read_table`` takes them.

        Raises:
            SchemaError: a column does not exist, or a filter does not fit.
            CorruptTableError: a base file cannot be read.
        """
        if self.schema is None:
            return pa.table({})
        full = with_meta_columns(self.schema)
        wanted = list(columns) if columns is not None else self.schema.names
        unknown = [name for name in wanted if name not in full.names]
        if unknown:
            raise SchemaError(f"the table has no such columns: columns={unknown} found={full.names}; check the names")
        return self._read_files(full, wanted, filter_expression(filters))

    def matching_slices(self, expression: pc.Expression | None) -> list[FileSlice]:
        """The live slices that may hold records that pass a filter, told by partition paths and column statistics."""
        live = sorted(self.slices.values(), key=lambda file_slice: file_slice.path)
        if expression is None or self.schema is None or not live:
            return live
        with self._naming_broken_files(live):
            dataset = self._dataset(live, with_meta_columns(self.schema))
            matching = {
                fragment.path
                for fragment in dataset.get_fragments(filter=expression)
                if fragment.subset(filter=expression, schema=dataset.schema).row_groups
            }
        return [file_slice for file_slice in live if self.table.storage.full_path(file_slice.path) in matching]

    def _read_files(self, full: pa.Schema, wanted: list[str], expression: pc.Expression | None) -> pa.Table:
        live = sorted(self.slices.values(), key=lambda file_slice: file_slice.path)
        if not live:
            return pa.schema([full.field(name) for name in wanted]).empty_table()
        with self._naming_broken_files(live):
            return self._dataset(live, full).to_table(columns=wanted, filter=expression)

    def _dataset(self, live: Sequence[FileSlice], schema: pa.Schema) -> Any:
        import pyarrow.dataset as ds  # noqa: PLC0415  (it loads pandas where that is installed)

        storage, properties = self.table.storage, self.table.properties
        parquet = ds.ParquetFileFormat()
        fragments = [
            parquet.make_fragment(
                storage.full_path(file_slice.path),
                storage.filesystem,
                partition_expression(properties, schema, file_slice.group.partition_path),
            )
            for file_slice in live
        ]
        return ds.FileSystemDataset(fragments, schema, parquet, storage.filesystem)

    @contextmanager
    def _naming_broken_files(self, live: Sequence[FileSlice]) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, OSError) as error:
            self._name_broken_file([file_slice.path for file_slice in live])
            raise SchemaError(
                f"the filter or a column's type does not fit the table ({error}); check names and types"
            ) from error

    def _name_broken_file(self, files: list[str]) -> None:
        """Raise ``CorruptTableError`` for the first file that cannot be read, if there is one."""
        for path in files:
            with corrupt_unless_parquet(path), BaseFileReader(self.table.storage, path) as reader:
                if self.schema is not None:
                    for _ in reader.batches(self.schema):
                        pass


def filter_expression(filters: object) -> pc.Expression | None:
    """A filter as an expression; raises ``SchemaError`` for what is none."""
    if filters is None or isinstance(filters, pc.Expression):
        return filters
    try:
        return pq.filters_to_expression(filters)
    except (ValueError, TypeError) as error:
        raise SchemaError(
            f"the filter is none: filters={filters!r} ({error}); give a pyarrow expression or tuples (column, op, value)"
        ) from error


def _without_meta(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field for field in schema if field.name not in META_COLUMNS])
