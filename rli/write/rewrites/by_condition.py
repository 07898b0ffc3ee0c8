"""Rewriting a file group without, or with changes of, the records that meet a condition: a task of a write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from rli.errors import SchemaError
from rli.file_group import work_rows
from rli.file_group.work_rows import Change
from rli.file_group.write_context import FileGroupResult, FileGroupTarget, WriteContext
from rli.file_group.writer import write_file_groups
from rli.filters.filter import Filter
from rli.filters.value_expression import ValueExpression
from rli.hudi.file_names import new_write_token
from rli.hudi.meta_columns import COMMIT_TIME, RECORD_KEY
from rli.index.locators import Locator
from rli.model import FileGroupId
from rli.view.file_slices import FileSlice
from rli.view.snapshot import Snapshot
from rli.write.rewrites.placed import placed_by_index
from rli.write.rows.keyed_records import require_ordering

_AGE: Final = (RECORD_KEY, COMMIT_TIME)


@dataclass(frozen=True, slots=True)
class MatchingRecords:
    """Reads the records of a file slice that meet a condition. Picklable.

    Attributes:
        snapshot: the state of the table.
        passes: the condition.
        assigned: the columns that are set, with their values; none where records are deleted.
        ordering: the column of ordering values; None if the table has none.
        expired_before: see ``ExpiringState.expired_before``.
    """

    snapshot: Snapshot
    passes: Filter
    assigned: Mapping[str, ValueExpression]
    ordering: str | None
    expired_before: str | None

    def keys(self, file_slice: FileSlice) -> pa.Table:
        """Record keys and commit times. Reads no other column but those of the condition.

        Raises:
            SchemaError: a value of the condition cannot be computed.
            CorruptTableError: a base file cannot be read.
            InstantNotFoundError: others have removed the file.
        """
        return self._read(file_slice, list(_AGE))

    def updated(self, file_slice: FileSlice) -> pa.Table:
        """The records with their new values, without those that have expired, behind their record key and commit time.

        Raises:
            InvalidInputError: a new value cannot be computed, or does not fit its column.
            SchemaError: a column that holds no nulls, or the ordering column, would be null; also as ``keys``.
            CorruptTableError, InstantNotFoundError: as ``keys``.
        """
        schema = self.snapshot.schema or pa.schema([])
        if not self.keys(file_slice).num_rows:
            return self._read_schema(schema).empty_table()
        records = self._read(file_slice, [*_AGE, *schema.names])
        if self.expired_before is not None:
            # To a write, they are as absent.
            records = records.filter(pc.greater_equal(records.column(COMMIT_TIME), self.expired_before))
        # All values are computed of the stored ones.
        new = {name: expression.of_table(records) for name, expression in self.assigned.items()}
        for name, values in new.items():
            field = schema.field(name)
            if values.null_count and not field.nullable:
                raise SchemaError(
                    f"a column that holds no nulls would be null: column={name}", remedy="set it to a value"
                )
            records = records.set_column(records.schema.get_field_index(name), field, values)
        if self.ordering in new:
            require_ordering(records, self.ordering)
        return records

    def data(self, file_slice: FileSlice) -> pa.Table:
        """As ``updated``, without key and commit time: records as a caller gives them."""
        return self.updated(file_slice).drop_columns(list(_AGE))

    def _read(self, file_slice: FileSlice, columns: list[str]) -> pa.Table:
        scan = self.snapshot.scan(columns)
        return replace(scan, slices={file_slice.group: file_slice}, filter=self.passes).to_table()

    def _read_schema(self, schema: pa.Schema) -> pa.Schema:
        return pa.schema([*(pa.field(name, pa.string()) for name in _AGE), *schema])


@dataclass(frozen=True, slots=True)
class RewrittenGroup:
    """A file group with matching records.

    Attributes:
        result: of the attempt that wrote it.
        matching: records that met the condition.
    """

    result: FileGroupResult
    matching: int


@dataclass(frozen=True, slots=True)
class RewriteByCondition:
    """Deletes or updates the matching records of a file slice. Picklable.

    Attributes:
        context: of the write.
        matching: finds the records.
        locator: as of the state that the write builds on.
        deletes: whether the records are deleted, not updated.
    """

    context: WriteContext
    matching: MatchingRecords
    locator: Locator
    deletes: bool

    def __call__(self, file_slice: FileSlice) -> RewrittenGroup | None:
        """Write the next base file and the journal; None, and no file, if no record matches.

        Each attempt has file names of its own, so attempts may be repeated or raced. Memory is bounded by the matching
        records of the file group, its key column and a batch of its records.

        Raises:
            ConflictError: another writer has changed a record since.
            CorruptIndexError: the index does not place the records where they are.
            RliError: otherwise as ``MatchingRecords.updated``.
        """
        records = self.matching.keys(file_slice) if self.deletes else self.matching.updated(file_slice)
        if not records.num_rows:
            return None
        rows = self._work_rows(file_slice, records)
        target = FileGroupTarget(file_slice.group, file_slice, new_write_token())
        (result,) = write_file_groups(self.context, [target], rows, [rows.num_rows])
        if self.deletes:
            # Rows of expired records do nothing to the index, but their records go.
            result = replace(result, counts=replace(result.counts, deleted=rows.num_rows, unchanged=0))
        return RewrittenGroup(result, rows.num_rows)

    def _work_rows(self, file_slice: FileSlice, records: pa.Table) -> pa.Table:
        group, schema = file_slice.group, self.context.schema
        keys, times = (records.column(name).combine_chunks() for name in _AGE)
        live = self._live(times)
        # Where keys expire, the record tells their instant.
        instants = times if self.context.expired_before is not None else _repeated(file_slice.instant, len(keys))
        file_ids = _repeated(group.file_id, len(keys))
        since = self._since(group, keys, file_ids, instants, live)
        columns = {
            work_rows.RECORD_KEY: keys,
            work_rows.CHANGE: self._changes(live),
            work_rows.PARTITION_PATH: _repeated(group.partition_path, len(keys)),
            work_rows.FILE_ID: file_ids,
            work_rows.WANTED_PARTITION_PATH: _repeated(group.partition_path, len(keys)),
            work_rows.PRIOR_PARTITION_PATH: _repeated(group.partition_path, len(keys)),
            work_rows.PRIOR_FILE_ID: file_ids,
            work_rows.PRIOR_INSTANT: since,
        }
        for field in schema:
            columns[field.name] = pa.nulls(len(keys), field.type) if self.deletes else records.column(field.name)
        whole = work_rows.work_schema(schema)
        return pa.table([columns[name] for name in whole.names], schema=whole)

    def _live(self, times: pa.Array) -> pa.Array:
        """Which records have not expired."""
        if self.context.expired_before is None:
            return pa.repeat(pa.scalar(value=True), len(times))
        return pc.greater_equal(times, self.context.expired_before)

    def _changes(self, live: pa.Array) -> pa.Array:
        if not self.deletes:
            return pa.repeat(pa.scalar(int(Change.UPDATE), pa.int8()), len(live))
        # The key of an expired record may be live elsewhere: its delete is not told to the index.
        return pc.if_else(live, int(Change.DELETE), int(Change.DELETE_OR_SKIP)).cast(pa.int8())

    def _since(
        self, group: FileGroupId, keys: pa.Array, file_ids: pa.Array, instants: pa.Array, live: pa.Array
    ) -> pa.Array:
        """Since when the index has the keys where they are; null for expired ones."""
        placed = placed_by_index(self.locator, group, keys.filter(live), file_ids.filter(live), instants.filter(live))
        if placed.num_rows == len(keys):
            return placed.column("instant_time")
        found = placed.column("instant_time").combine_chunks()
        return found.take(pc.index_in(keys, value_set=keys.filter(live)))


def _repeated(text: str, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(text, pa.string()), count)
