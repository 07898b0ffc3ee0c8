"""Deleting and updating the records that meet a condition. One operation for all engines.

Each attempt decides anew, by the records of its own snapshot. File groups are read and rewritten one by one, each by a task of
the engine: no row travels. Only where a record changes its partition, it takes the way of an upsert.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from rli.commit.conflicts import ReadSet
from rli.commit.prepared_write import PreparedWrite
from rli.commit.write_basis import WriteBasis
from rli.errors import InvalidInputError
from rli.filters.filter import Filter
from rli.filters.tuples import parse_tuples
from rli.filters.value_expression import ValueExpression
from rli.hudi.meta_columns import with_meta_columns
from rli.hudi.schema import RESERVED_PREFIX
from rli.hudi.table_features import require_writable
from rli.index.contract import TableIndex
from rli.index.locators import FileLocator, Unlocated
from rli.model import CommitResult, MissingColumns, OnPartitionChange, Scope, Step, WriteCounts
from rli.view.caller_metadata import BoundRequest, CallerMetadata, ComparedBy
from rli.view.definition import TableDefinition
from rli.view.file_slices import FileSlice
from rli.view.lost_files import require_files
from rli.write.engine.contract import Engine
from rli.write.operations.candidates import candidate_slices
from rli.write.operations.operation import written
from rli.write.operations.receipts import with_receipt
from rli.write.operations.upsert import Upsert
from rli.write.options import WriteOptions
from rli.write.rewrites.by_condition import MatchingRecords, RewriteByCondition
from rli.write.rows.keying import RecordKeying

_META_PREFIX = "_hoodie_"


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
    if not _are_assignments(values):
        raise InvalidInputError(
            f"these are no columns with their values: set={values!r}; give names and expressions as strings, such as "
            '{"fare": "fare * 2"}'
        )
    return _run(ByCondition(_given(where), dict(values)), table, index, engine, options)


def _content(where: object) -> str:
    """All that a condition says: printed expressions leave constants out."""
    if isinstance(where, str):
        return where
    expression = where if isinstance(where, pc.Expression) else parse_tuples(where).expression()
    _, (serialised,) = expression.__reduce__()
    return bytes(serialised).hex()


def _are_assignments(values: object) -> bool:
    if not isinstance(values, Mapping) or not values:
        return False
    return all(isinstance(part, str) for pair in values.items() for part in pair)


def _given(where: object) -> object:
    if where is None or (isinstance(where, str) and not where.strip()):
        raise InvalidInputError(f'there is no condition: where={where!r}; give one, "true" for all records')
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

    def bound_to(self, options: WriteOptions) -> CallerMetadata:
        """What is kept with the commit, a transaction bound to the condition and the values."""
        caller = options.caller
        if caller.transaction is None:
            return caller
        verb = "delete_where" if self.values is None else "update_where"
        content = repr((_content(self.where), None if self.values is None else sorted(self.values.items())))
        hashes = int.from_bytes(hashlib.sha256(content.encode("utf-8", "surrogatepass")).digest()[:8], "big")
        return replace(caller, request=BoundRequest(verb, ComparedBy.CONDITION, 0, hashes))

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
        assigned = {} if self.values is None else _assigned(write, self.values, schema)
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
        context = write.context(schema, is_synced=engine.syncs_in_tasks)
        deletes = self.values is None
        # Whatever is stored is deleted or updated: no ordering value is compared.
        context = replace(context, ordering_field=None, skips_unchanged=not deletes)
        write.on_step(Step.RESOLVED)
        # An index of files says what the files say. Its locator brings a list of all of them along.
        locator = Unlocated() if isinstance(write.locator, FileLocator) else write.locator
        rewrite = RewriteByCondition(context, matching, locator, deletes)
        results = []
        for done in engine.workers.run(rewrite, slices):
            if done is not None:
                results.append(done.result)
                write.on_step(Step.FILE_GROUP_WRITTEN)
        write.on_step(Step.WRITTEN)
        read = ReadSet(frozenset(result.group for result in results))
        return PreparedWrite(results, schema, self.name, WriteCounts(), read, is_synced=engine.syncs_in_tasks)

    def _moved(
        self, write: WriteBasis, engine: Engine, slices: list[FileSlice], matching: MatchingRecords
    ) -> PreparedWrite:
        schema = matching.snapshot.schema or pa.schema([])
        source = engine.stored_records(slices, partial(_data_of, matching), schema)
        keying = RecordKeying(write.snapshot.table_keys, write.table.properties.ordering_field, write.index.scope)
        with engine.request(source, keying, write.table, write.index) as request:
            return Upsert(OnPartitionChange.MOVE, MissingColumns.FAIL).prepare(write, request, engine)


def _run(
    operation: ByCondition, table: TableDefinition, index: TableIndex, engine: Engine, options: WriteOptions
) -> CommitResult:
    require_writable(table.properties)
    prepare = partial(operation.prepare, engine=engine)
    caller = operation.bound_to(options)
    result = written(operation.name, table, index, engine, prepare, options=options, caller=caller)
    return with_receipt(table, result)


def _data_of(matching: MatchingRecords, file_slice: FileSlice) -> pa.Table:
    records = matching.updated(file_slice)
    return records.select([name for name in records.column_names if not name.startswith(_META_PREFIX)])


def _assigned(write: WriteBasis, values: Mapping[str, str], schema: pa.Schema) -> dict[str, ValueExpression]:
    """The values of columns that may be set."""
    properties = write.table.properties
    full = with_meta_columns(schema)
    for name in values:
        if name.startswith((_META_PREFIX, RESERVED_PREFIX)):
            raise InvalidInputError(f"the column is Hudi's or rli's own: column={name}; set other columns")
        if name not in schema.names:
            raise InvalidInputError(
                f"the table has no such column to set: column={name} found={schema.names}; check the name"
            )
        if name in properties.record_key_fields:
            raise InvalidInputError(
                f"a record keeps its key: column={name}; delete the record, and insert it with its new key"
            )
    moved = [name for name in values if name in properties.partition_fields]
    if moved and write.index.scope is Scope.PARTITION:
        raise InvalidInputError(
            f"a key is unique in its partition, so that a record cannot move to another one: columns={moved} "
            f"index={write.index.url}; insert it there, and delete it here"
        )
    if moved and properties.ordering_field in values:
        raise InvalidInputError(
            f"a partition column and the ordering column are set in one update: columns={[*moved, properties.ordering_field]}; "
            "update one after the other"
        )
    return {name: ValueExpression.assigned(text, full, schema.field(name)) for name, text in values.items()}
