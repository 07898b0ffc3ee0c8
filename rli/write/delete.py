"""Deleting by key alone. One orchestration for all engines."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import pyarrow as pa

from rli.commit.prepared_write import PreparedWrite
from rli.commit.write_basis import WriteBasis
from rli.commit.write_transaction import WriteTransaction
from rli.errors import InvalidInputError
from rli.file_group import work_rows
from rli.hudi.table_features import require_writable
from rli.hudi.table_keys import TableKeys
from rli.index.contract import ChangedKeys, TableIndex
from rli.index.reports import SomeKeys
from rli.model import CommitResult, Step
from rli.view.definition import TableDefinition
from rli.write.contract import Engine, Request
from rli.write.dry_run import dry_run
from rli.write.keying import KeysAlone
from rli.write.maintenance import write_and_maintain
from rli.write.options import WriteOptions
from rli.write.planning import kept_deletes, plan_write, read_set, run_plan
from rli.write.requesting import write_request
from rli.write.tagging import DeleteTagging

_OPERATION: Final = "DELETE"


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
            f"ordering={ordering}; delete without ordering"
        )
    attempts = options.attempts_of(table)
    require_writable(table.properties)

    def keying_of(keys: TableKeys) -> KeysAlone:
        return KeysAlone(keys, ordering, options.compared_by)

    def write(request: Request) -> CommitResult:
        caller = options.caller_of(_OPERATION, request.received)
        work = partial(_write_deletes, engine, request, has_ordering=ordering is not None)
        if options.dry_run:
            return dry_run(table, index, options.on_step, caller, work)
        return write_and_maintain(
            partial(WriteTransaction.begin, table, index, engine.tasks, options.on_step, caller=caller),
            work,
            attempts,
            engine.tasks,
            _OPERATION,
        )

    return write_request(
        table, index, engine, source, keying_of=keying_of, write=write, may_recover=not options.dry_run
    )


def _write_deletes(engine: Engine, request: Request, write: WriteBasis, *, has_ordering: bool) -> PreparedWrite:
    schema = write.snapshot.schema or pa.schema([])
    field = write.table.properties.ordering_field if has_ordering else None
    with request.tag(write.locator, DeleteTagging(schema, field)) as rows:
        write.on_step(Step.TAGGED)
        profile = rows.profile
        context = write.context(schema, is_synced=engine.syncs_in_tasks)
        plan = plan_write(write, context, profile, request.bytes_per_row)
        results = run_plan(write, rows, plan)
    read = read_set(profile, results, partial(_changed_keys, request))
    ordering = work_rows.ORDERING if has_ordering else None
    deleted = kept_deletes(write, engine, request, schema, ordering=ordering, by_mark=False)
    return PreparedWrite(results, schema, _OPERATION, profile.apart, read, deleted_keys=deleted)


def _changed_keys(request: Request, changes: ChangedKeys) -> SomeKeys:
    """The requested keys that others changed: those that were not found may have been inserted meanwhile."""
    return request.some_keys(changes.among)
