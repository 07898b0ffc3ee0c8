"""Upserting: insert, update and move records. One operation for all engines."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Final

import pyarrow as pa

from rli.commit.conflicts import no_keys
from rli.commit.prepared_write import PreparedWrite
from rli.commit.write_basis import WriteBasis
from rli.file_group.work_rows import Change
from rli.hudi.meta_columns import IS_DELETED
from rli.hudi.table_keys import TableKeys
from rli.index.contract import ChangedKeys, TableIndex
from rli.index.reports import SomeKeys
from rli.model import CommitResult, MissingColumns, OnPartitionChange, Scope, Step, WriteCounts
from rli.view.definition import TableDefinition
from rli.write.choices import chosen_partition_change, one_of
from rli.write.engine.contract import Engine, Request, TaggedRows
from rli.write.operations.named_slices import require_slices
from rli.write.operations.operation import Operation, require_same_key_types, run
from rli.write.operations.planning import (
    deleted_among,
    deletions_of,
    kept_deletes,
    plan_write,
    read_set,
    run_plan,
    tagged_rows,
)
from rli.write.options import WriteOptions
from rli.write.rows.keying import RecordKeying
from rli.write.rows.late_moves import LateMoves, require_no_moves
from rli.write.rows.tagging import UndecidedTagging, UpsertTagging

_SAMPLE: Final = 5


def upsert(
    table: TableDefinition,
    index: TableIndex,
    engine: Engine,
    source: Any,
    options: WriteOptions,
    *,
    on_partition_change: OnPartitionChange | str | None = None,
    missing: MissingColumns | str = MissingColumns.FAIL,
) -> CommitResult:
    """Insert, update and move records; see ``Table.upsert``.

    Args:
        table: the definition as it is stored now.
        index: of the table.
        engine: does the work.
        source: the records, in the engine's own form.
        options: of the write.
        on_partition_change: what becomes of records whose partition changed; by default what the table's settings say.
        missing: what becomes of columns of the table that the records lack.
    """
    on_change = chosen_partition_change(table.require_settings(), on_partition_change)
    operation = Upsert(on_change, one_of(MissingColumns, "missing", missing))
    return run(operation, table, index, engine, source, options=options)


@dataclass(frozen=True, slots=True)
class Upsert(Operation):
    """Insert, update and move records.

    Attributes:
        on_change: what becomes of records whose partition changed.
        missing: what becomes of columns of the table that the records lack.
    """

    name: ClassVar[str] = "UPSERT"

    on_change: OnPartitionChange
    missing: MissingColumns

    def keying(self, keys: TableKeys, table: TableDefinition, scope: Scope, options: WriteOptions) -> RecordKeying:
        return options.keying(RecordKeying, keys, table, scope)

    def prepare(self, write: WriteBasis, request: Request, engine: Engine) -> PreparedWrite:
        require_same_key_types(write, request.schema)
        schema = write.schema_with(request.schema, self.missing)
        kept = write.missing_in(request.schema) if self.missing is MissingColumns.KEEP else ()
        deletions = deletions_of(write)
        with tagged_rows(
            write,
            request,
            UpsertTagging(schema, self.on_change, deletions),
            UndecidedTagging(schema, Change.UPSERT, deletions),
        ) as tagged:
            write.on_step(Step.TAGGED)
            before = tagged.profile
            rows = _in_time(tagged, write, schema, self.on_change, kept)
            late = sum(before.leaving.values()) - sum(rows.profile.arriving.values())
            context = write.context(schema, is_synced=engine.syncs_in_tasks, kept=kept)
            plan = plan_write(write, context, rows.profile, request.bytes_per_row)
            write.on_step(Step.RESOLVED)
            results = run_plan(write, rows, plan)
        apart = before.apart + WriteCounts(unchanged=late)
        # For another writer, the key of a record that changes nothing may have expired, and be in another file group by now.
        unchanged = apart.unchanged + sum(result.counts.unchanged for result in results)
        is_told = write.expired_before is None or not unchanged
        read = read_set(
            before,
            results,
            no_keys if is_told else partial(_changed_keys, request),
            partial(deleted_among, request),
            write.deleted_keys,
        )
        ordering = deletions.ordering if IS_DELETED in request.schema.names else None
        deleted = kept_deletes(write, engine, request, schema, ordering=ordering, by_mark=True)
        return PreparedWrite(
            results, schema, self.name, apart, read, deleted_keys=deleted, is_synced=engine.syncs_in_tasks
        )


def _changed_keys(request: Request, changes: ChangedKeys) -> SomeKeys:
    return request.some_keys(changes.among)


def _in_time(
    tagged: TaggedRows,
    write: WriteBasis,
    schema: pa.Schema,
    on_change: OnPartitionChange,
    kept: tuple[str, ...],
) -> TaggedRows:
    """The rows less late moves, with the stored values that moves keep; raises ``PartitionChangeError`` if records move that may not."""
    leaving = tagged.profile.leaving
    if not leaving:
        return tagged
    ordering = write.table.properties.ordering_field
    slices = require_slices(write.snapshot.slices, leaving)
    field = None if ordering is None else pa.field(ordering, schema.field(ordering).type)
    late = LateMoves(write.table.storage, slices, field, tuple(schema.field(name) for name in kept))
    rows = tagged.without_late_moves(late)
    moving = sum(rows.profile.arriving.values())
    if moving and on_change is OnPartitionChange.FAIL:
        require_no_moves(moving, rows.keys_of_moves(_SAMPLE))
    return rows
