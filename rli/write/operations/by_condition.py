"""Deleting and updating the records that meet a condition. One operation for all engines.

Each attempt decides anew, by the records of its own snapshot. File groups are read and rewritten one by one, each by a task of
the engine: no row travels. Only where a record changes its partition, it takes the way of an upsert.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from rli.commit.conflicts import ReadSet
from rli.commit.prepared_write import PreparedWrite
from rli.commit.write_basis import WriteBasis
from rli.errors import InvalidInputError
from rli.filters.filter import Filter
from rli.hudi.meta_columns import with_meta_columns
from rli.hudi.table_features import require_writable
from rli.index.contract import TableIndex
from rli.model import CommitResult, MissingColumns, OnPartitionChange, Step, WriteCounts
from rli.view.definition import TableDefinition
from rli.view.file_slices import FileSlice
from rli.view.lost_files import require_files
from rli.write.engine.contract import Engine
from rli.write.operations.assignments import are_assignments, assigned_values
from rli.write.operations.bound_conditions import bound_to_condition
from rli.write.operations.candidates import candidate_slices, locator_of_matches
from rli.write.operations.operation import written
from rli.write.operations.receipts import with_receipt
from rli.write.operations.upsert import Upsert
from rli.write.options import WriteOptions
from rli.write.rewrites.by_condition import MatchingRecords, RewriteByCondition
from rli.write.rows.keying import RecordKeying


def delete_where(
    table: TableDefinition, index: TableIndex, engine: Engine, where: object, options: WriteOptions
) -> CommitResult:
    """Remove the records that meet a condition; see ``Table.delete_where``.

    Args:
        table: the definition as it is stored now.
        index: of the table.
        engine: does the work.
        where: a condition, as ``Filter.of`` takes it.
        options: of the write.
    """
    return _run(ByCondition(_given(where), None), table, index, engine, options)


def update_where(  # noqa: PLR0917  (called by the façades alone)
    table: TableDefinition,
    index: TableIndex,
    engine: Engine,
    where: object,
    values: Mapping[str, str],
    options: WriteOptions,
) -> CommitResult:
    """Set columns of the records that meet a condition; see ``Table.update_where``.

    Args:
        table: the definition as it is stored now.
        index: of the table.
        engine: does the work.
        where: a condition, as ``Filter.of`` takes it.
        values: column → expression.
        options: of the write.
    """
    if not are_assignments(values):
        raise InvalidInputError(
            f"these are no columns with their values: set={values!r}",
            remedy=('give names and expressions as strings, such as {"fare": "fare * 2"}'),
        )
    return _run(ByCondition(_given(where), dict(values)), table, index, engine, options)


def _given(where: object) -> object:
    if where is None or (isinstance(where, str) and not where.strip()):
        raise InvalidInputError(f"there is no condition: where={where!r}", remedy='give one, "true" for all records')
    return where


@dataclass(frozen=True, slots=True)
class ByCondition:
    """Remove or update the records that meet a condition.

    Attributes:
        where: the condition, as a caller gives it.
        values: column → expression; None if the records are removed.
    """

    where: object
    values: Mapping[str, str] | None

    @property
    def name(self) -> str:
        """As Hudi has it in the commit."""
        return "DELETE" if self.values is None else "UPSERT"

    def prepare(self, write: WriteBasis, engine: Engine) -> PreparedWrite:
        """Have the engine rewrite file groups; may be called again for another attempt.

        Args:
            write: the attempt, or a dry run.
            engine: does the work.

        Raises:
            ConflictError: another commit changed matching records while they were read.
            InvalidInputError, SchemaError: the condition or a value does not fit the table.
        """
        schema = write.snapshot.schema
        if schema is None:
            return PreparedWrite([], pa.schema([]), self.name, WriteCounts(), ReadSet(frozenset()))
        passes = Filter.of(self.where, with_meta_columns(schema))
        if passes is None:
            raise TypeError(self.where)
        assigned = {} if self.values is None else assigned_values(write, self.values, schema)
        # A lost file may have held matching records.
        require_files(write.snapshot)
        slices = candidate_slices(write, passes)
        write.on_step(Step.TAGGED)
        snapshot = replace(write.snapshot)
        ordering = write.table.properties.ordering_field
        matching = MatchingRecords(snapshot, passes, assigned, ordering, write.expired_before)
        # Read once, before tasks get the snapshot without what the driver has listed.
        if snapshot.schema is not None and set(assigned) & set(write.table.properties.partition_fields):
            return self._moved(write, engine, slices, matching)
        return self._rewritten(write, engine, slices, matching)

    def _rewritten(
        self, write: WriteBasis, engine: Engine, slices: list[FileSlice], matching: MatchingRecords
    ) -> PreparedWrite:
        schema = matching.snapshot.schema or pa.schema([])
        context = write.context(schema, is_flushed=engine.flushes_in_tasks)
        deletes = self.values is None
        # Whatever is stored is deleted or updated: no ordering value is compared.
        context = replace(context, ordering_field=None, skips_unchanged=not deletes)
        write.on_step(Step.RESOLVED)
        rewrite = RewriteByCondition(context, matching, locator_of_matches(write), deletes)
        results = []
        for done in engine.workers.run(rewrite, slices):
            if done is not None:
                results.append(done.result)
                write.on_step(Step.FILE_GROUP_WRITTEN)
        write.on_step(Step.WRITTEN)
        read = ReadSet(frozenset(result.group for result in results))
        return PreparedWrite(results, schema, self.name, WriteCounts(), read, is_flushed=engine.flushes_in_tasks)

    def _moved(
        self, write: WriteBasis, engine: Engine, slices: list[FileSlice], matching: MatchingRecords
    ) -> PreparedWrite:
        schema = matching.snapshot.schema or pa.schema([])
        source = engine.stored_records(slices, matching.data, schema)
        keying = RecordKeying(write.snapshot.table_keys, write.table.properties.ordering_field, write.index.scope)
        with engine.request(source, keying, write.table, write.index) as request:
            return Upsert(OnPartitionChange.MOVE, MissingColumns.FAIL).prepare(write, request, engine)


def _run(
    operation: ByCondition, table: TableDefinition, index: TableIndex, engine: Engine, options: WriteOptions
) -> CommitResult:
    require_writable(table.properties)
    prepare = partial(operation.prepare, engine=engine)
    caller = bound_to_condition(options.caller, operation.where, operation.values)
    result = written(operation.name, table, index, engine, prepare, options=options, caller=caller)
    return with_receipt(table, result)
