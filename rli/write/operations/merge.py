"""Merging a batch of changes: inserts, updates and deletes of records in one commit. One operation for all engines."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pyarrow as pa

from rli.commit.prepared_write import PreparedWrite
from rli.commit.write_basis import WriteBasis
from rli.errors import SchemaError
from rli.file_group.conditions import Condition
from rli.file_group.work_rows import Change
from rli.hudi.schema_evolution import missing_columns
from rli.hudi.table_keys import TableKeys
from rli.index.contract import TableIndex
from rli.model import CommitResult, MissingColumns, OnPartitionChange, Scope
from rli.view.definition import TableDefinition
from rli.view.snapshot import told_of_now
from rli.write.choices import chosen_partition_change, one_of
from rli.write.engine.contract import Engine, Request, Tagging
from rli.write.operations.operation import Operation, require_same_key_types, run
from rli.write.operations.planning import deletions_of
from rli.write.operations.records import RecordWrite, prepare_records
from rli.write.options import WriteOptions
from rli.write.rows.change_keying import ChangeKeying
from rli.write.rows.tagging import CompleteTagging, UndecidedTagging, UpsertTagging


@dataclass(frozen=True, slots=True)
class MergeChoices:
    """What a caller chooses for a merge alone; see ``Table.merge``.

    Attributes:
        op: the column of operations; None where other columns tell.
        when: the condition on changes of stored records; None for all.
        on_partition_change: what becomes of records whose partition changed; by default what the table's settings say.
        missing: what becomes of columns of the table that the records lack.
    """

    op: str | None = None
    when: str | None = None
    on_partition_change: OnPartitionChange | str | None = None
    missing: MissingColumns | str = MissingColumns.FAIL


def merge(
    table: TableDefinition,
    index: TableIndex,
    engine: Engine,
    source: Any,
    options: WriteOptions,
    *,
    choices: MergeChoices,
) -> CommitResult:
    """Insert, update, move and delete records; see ``Table.merge``.

    Args:
        table: the definition as it is stored now.
        index: of the table.
        engine: does the work.
        source: the changes, in the engine's own form.
        options: of the write.
        choices: of the merge.
    """
    on_change = chosen_partition_change(table.require_settings(), choices.on_partition_change)
    operation = Merge(choices.op, choices.when, on_change, one_of(MissingColumns, "missing", choices.missing))
    return run(operation, table, index, engine, source, options=options)


@dataclass(frozen=True, slots=True)
class Merge(Operation):
    """Insert, update, move and delete records.

    Attributes:
        op: the column of operations; None where other columns tell.
        when: the condition on changes of stored records; None for all.
        on_change: what becomes of records whose partition changed.
        missing: what becomes of columns of the table that the records lack.
    """

    name: ClassVar[str] = "UPSERT"
    """Hudi knows no other name for a batch that writes and deletes."""

    op: str | None
    when: str | None
    on_change: OnPartitionChange
    missing: MissingColumns

    @property
    def verb(self) -> str:
        return "merge"

    def keying(self, keys: TableKeys, table: TableDefinition, scope: Scope, options: WriteOptions) -> ChangeKeying:
        return of_operations(options.keying(ChangeKeying, keys, table, scope), table, self.op)

    def prepare(self, write: WriteBasis, request: Request, engine: Engine) -> PreparedWrite:
        require_same_key_types(write, request.schema)
        stored = write.snapshot.schema or pa.schema([])
        incoming = _with_values(request.schema, stored)
        _require_no_encoded_numbers(incoming, stored)
        lacking = missing_columns(stored, incoming)
        # Deletes need no other columns than their key: each task looks whether it has records to write.
        schema = write.schema_with(pa.schema([*incoming, *map(stored.field, lacking)]), self.missing)
        source = pa.schema([schema.field(field.name) for field in incoming])
        deletions = deletions_of(write)

        def complete(tagging: Tagging) -> Tagging:
            return CompleteTagging(tagging, stored, incoming, self.missing) if lacking else tagging

        records = RecordWrite(
            self.name,
            schema,
            self.on_change,
            complete(UpsertTagging(schema, self.on_change, deletions)),
            complete(UndecidedTagging(schema, Change.UPSERT, deletions)),
            tuple(lacking) if self.missing is MissingColumns.KEEP else (),
            may_delete=True,
            when=None if self.when is None else Condition.of(self.when, source, schema),
        )
        prepared = prepare_records(write, request, engine, records)
        # Columns come with records: deletes of unknown keys bring none.
        return prepared if prepared.stats else replace(prepared, schema=stored)


def of_operations(keying: ChangeKeying, table: TableDefinition, op: str | None) -> ChangeKeying:
    """The keying of changes whose column of operations the caller names, of a table as it is now; raises as ``Snapshot.schema``."""
    stored = told_of_now(table, lambda snapshot: snapshot.schema)
    return replace(keying, op=op, stored=frozenset(stored.names if stored else ()))


def _require_no_encoded_numbers(incoming: pa.Schema, stored: pa.Schema) -> None:
    for field in stored:
        kind = incoming.field(field.name).type if field.name in incoming.names else field.type
        if pa.types.is_binary(kind) and (pa.types.is_decimal(field.type) or pa.types.is_floating(field.type)):
            raise SchemaError(
                f"bytes came for numbers: column={field.name} table={field.type} records={kind}",
                remedy=(
                    "decode them first, or set decimal.handling.mode=string or double in Debezium's connector, and cast"
                ),
            )


def _with_values(incoming: pa.Schema, stored: pa.Schema) -> pa.Schema:
    """The columns of changes less those that are null in all rows, have no type, and are no columns of the table."""
    return pa.schema([field for field in incoming if field.name in stored.names or not pa.types.is_null(field.type)])
