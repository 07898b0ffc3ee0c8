"""Deleting by key alone. One orchestration for all engines."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import pyarrow as pa

from rli.commit.prepared_write import PreparedWrite
from rli.commit.write_transaction import WriteTransaction
from rli.hudi.table_features import require_writable
from rli.index.contract import ChangedKeys, TableIndex
from rli.index.reports import SomeKeys
from rli.model import CommitResult, Step
from rli.view.definition import TableDefinition
from rli.write.contract import Engine, Request
from rli.write.keying import KeysAlone
from rli.write.maintenance import write_and_maintain
from rli.write.options import WriteOptions
from rli.write.planning import plan_write, read_set, run_plan
from rli.write.requesting import write_request
from rli.write.tagging import DeleteTagging

_OPERATION: Final = "DELETE"


def delete(
    table: TableDefinition, index: TableIndex, engine: Engine, source: Any, options: WriteOptions
) -> CommitResult:
    """Remove records by key; see ``Table.delete``.

    Args:
        table: the definition as it is stored now.
        index: of the table.
        engine: does the work.
        source: rows with the table's record-key columns, or with whole record keys in ``_hoodie_record_key``, in the
            engine's own form.
        options: of the write.
    """
    attempts = options.attempts_of(table)
    require_writable(table.properties)

    def write(request: Request) -> CommitResult:
        return write_and_maintain(
            partial(WriteTransaction.begin, table, index, engine.tasks, options.on_step, caller=options.caller),
            partial(_write_deletes, engine, request),
            attempts,
            engine.tasks,
            _OPERATION,
        )

    return write_request(table, index, engine, source, keying_of=KeysAlone, write=write)


def _write_deletes(engine: Engine, request: Request, write: WriteTransaction) -> PreparedWrite:
    schema = write.snapshot.schema or pa.schema([])
    with request.tag(write.locator, DeleteTagging(schema)) as rows:
        write.on_step(Step.TAGGED)
        profile = rows.profile
        context = write.context(schema, is_synced=engine.syncs_in_tasks)
        plan = plan_write(write, context, profile, request.bytes_per_row)
        results = run_plan(write, rows, plan)
    read = read_set(profile, results, partial(_changed_keys, request))
    return PreparedWrite(results, schema, _OPERATION, profile.left_out, read)


def _changed_keys(request: Request, changes: ChangedKeys) -> SomeKeys:
    """The requested keys that others changed: those that were not found may have been inserted meanwhile."""
    return request.some_keys(changes.among)
