"""Upserting: insert, update and move records. One operation for all engines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from rli.commit.prepared_write import PreparedWrite
from rli.commit.write_basis import WriteBasis
from rli.file_group.work_rows import Change
from rli.hudi.meta_columns import IS_DELETED
from rli.hudi.table_keys import TableKeys
from rli.index.contract import TableIndex
from rli.model import CommitResult, MissingColumns, OnPartitionChange, Scope
from rli.view.definition import TableDefinition
from rli.write.choices import chosen_partition_change, one_of
from rli.write.engine.contract import Engine, Request
from rli.write.operations.operation import Operation, require_same_key_types, run
from rli.write.operations.planning import deletions_of
from rli.write.operations.records import RecordWrite, prepare_records
from rli.write.options import WriteOptions
from rli.write.rows.keying import RecordKeying
from rli.write.rows.tagging import UndecidedTagging, UpsertTagging


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
        records = RecordWrite(
            self.name,
            schema,
            self.on_change,
            UpsertTagging(schema, self.on_change, deletions),
            UndecidedTagging(schema, Change.UPSERT, deletions),
            kept,
            may_delete=IS_DELETED in request.schema.names,
        )
        return prepare_records(write, request, engine, records)
