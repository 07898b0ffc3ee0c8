"""Deleting by key alone. One operation for all engines."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import pyarrow as pa

from rli.commit.prepared_write import PreparedWrite
from rli.commit.write_basis import WriteBasis
from rli.errors import InvalidInputError
from rli.file_group import work_rows
from rli.hudi.table_keys import TableKeys
from rli.index.contract import ChangedKeys, TableIndex
from rli.index.reports import SomeKeys
from rli.model import CommitResult, Scope, Step
from rli.view.definition import TableDefinition
from rli.write.engine.contract import Engine, Request
from rli.write.operations.operation import Operation, run
from rli.write.operations.planning import kept_deletes, plan_write, read_set, requested_among, run_plan
from rli.write.options import WriteOptions
from rli.write.rows.keying import KeysAlone
from rli.write.rows.tagging import DeleteTagging


def delete(  # noqa: PLR0917  (called by the façades alone)
    table: TableDefinition,
    index: TableIndex,
    engine: Engine,
    source: Any,
    options: WriteOptions,
    ordering: str | None = None,
) -> CommitResult:
    """Remove records by key; see ``Table.delete``.

    Args:
        table: the definition as it is stored now.
        index: of the table.
        engine: does the work.
        source: rows with the table's record-key columns, or with whole record keys in ``_hoodie_record_key``, in the
            engine's own form.
        options: of the write.
        ordering: the column of ordering values; None if whatever is stored is to be deleted.
    """
    if ordering is not None and table.properties.ordering_field is None:
        raise InvalidInputError(
            f"the table has no ordering column, with which deletes could be compared: table={table.location} "
            f"ordering={ordering}",
            remedy="delete without ordering",
        )
    return run(Delete(ordering), table, index, engine, source, options=options)


@dataclass(frozen=True, slots=True)
class Delete(Operation):
    """Remove records by key.

    Attributes:
        ordering: the column of ordering values; None if whatever is stored is to be deleted.
    """

    name: ClassVar[str] = "DELETE"

    ordering: str | None

    def keying(self, keys: TableKeys, table: TableDefinition, scope: Scope, options: WriteOptions) -> KeysAlone:  # noqa: ARG002
        return KeysAlone(keys, self.ordering, options.compared_by)

    def prepare(self, write: WriteBasis, request: Request, engine: Engine) -> PreparedWrite:
        has_ordering = self.ordering is not None
        schema = write.snapshot.schema or pa.schema([])
        field = write.table.properties.ordering_field if has_ordering else None
        with request.tag(write.locator, DeleteTagging(schema, field)) as rows:
            write.on_step(Step.TAGGED)
            profile = rows.profile
            context = write.context(schema, is_flushed=engine.flushes_in_tasks)
            plan = plan_write(write, context, profile, request.bytes_per_row)
            results = run_plan(write, rows, plan)
        kept = work_rows.ORDERING if has_ordering else None
        deleted = kept_deletes(write, engine, request, schema, ordering=kept, by_mark=False)
        known = write.deleted_keys if deleted else None
        read = read_set(
            profile,
            results,
            partial(_changed_keys, request),
            known_deletes=known,
            requested_keys=partial(requested_among, request),
        )
        return PreparedWrite(
            results, schema, self.name, profile.apart, read, deleted_keys=deleted, is_flushed=engine.flushes_in_tasks
        )


def _changed_keys(request: Request, changes: ChangedKeys) -> SomeKeys:
    """The requested keys that others changed: those that were not found may have been inserted meanwhile."""
    return request.some_keys(changes.among)
