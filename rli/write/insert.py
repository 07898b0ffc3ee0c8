"""Inserting records with new keys alone: the first one wins. One orchestration for all engines.

Known keys are looked up, and touch no file.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from rli.commit.conflicts import no_keys
from rli.commit.prepared_write import PreparedWrite
from rli.commit.write_basis import WriteBasis
from rli.commit.write_transaction import WriteTransaction
from rli.file_group.work_rows import Change
from rli.hudi.table_features import require_writable
from rli.hudi.table_keys import TableKeys
from rli.index.contract import ChangedKeys, TableIndex
from rli.index.reports import SomeKeys
from rli.model import CommitResult, OnExisting, Step
from rli.view.definition import TableDefinition
from rli.write.choices import one_of
from rli.write.contract import Engine, Request
from rli.write.dry_run import dry_run
from rli.write.keying import FirstRecordKeying
from rli.write.maintenance import write_and_maintain
from rli.write.options import WriteOptions
from rli.write.planning import deleted_among, deletions_of, plan_write, read_set, run_plan, tagged_rows
from rli.write.requesting import require_same_key_types, write_request
from rli.write.tagging import InsertTagging, UndecidedTagging

_OPERATION: Final = "INSERT"
_MOST_REWRITTEN: Final = 16.0
"""A file group of more times the bytes that arrive is left alone: a batch of mostly known records has few new ones, and
these would rewrite as much as all of them. Clustering puts the files together."""


def insert(
    table: TableDefinition,
    index: TableIndex,
    engine: Engine,
    source: Any,
    options: WriteOptions,
    *,
    on_existing: OnExisting | str = OnExisting.SKIP,
) -> CommitResult:
    """Insert records with new keys; see ``Table.insert``.

    Args:
        table: the definition as it is stored now.
        index: of the table.
        engine: does the work.
        source: the records, in the engine's own form.
        options: of the write.
        on_existing: what becomes of records whose key the table holds.
    """
    choice = one_of(OnExisting, "on_existing", on_existing)
    attempts = options.attempts_of(table)
    require_writable(table.properties)

    def keying_of(keys: TableKeys) -> FirstRecordKeying:
        return options.keying(FirstRecordKeying, keys, table, index.scope)

    def write(request: Request) -> CommitResult:
        caller = options.caller_of(_OPERATION, request.received)
        work = partial(_insert_records, engine, request, choice)
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


def _insert_records(engine: Engine, request: Request, on_existing: OnExisting, write: WriteBasis) -> PreparedWrite:
    require_same_key_types(write, request.schema)
    schema = write.schema_with(request.schema)
    deletions = deletions_of(write)
    undecided = UndecidedTagging(schema, _change(on_existing), deletions)
    with tagged_rows(write, request, InsertTagging(schema, on_existing, deletions), undecided) as rows:
        write.on_step(Step.TAGGED)
        profile = rows.profile
        context = write.context(schema, is_synced=engine.syncs_in_tasks)
        plan = plan_write(write, context, profile, request.bytes_per_row, most_rewritten=_MOST_REWRITTEN)
        write.on_step(Step.RESOLVED)
        results = run_plan(write, rows, plan)
    # Where file groups have decided, they tell of changes too.
    looked_up = no_keys if write.index.computes_file_groups else partial(_changed_keys, request)
    read = read_set(profile, results, looked_up, partial(deleted_among, request))
    return PreparedWrite(results, schema, _OPERATION, profile.apart, read)


def _change(on_existing: OnExisting) -> Change:
    return Change.INSERT_OR_FAIL if on_existing is OnExisting.FAIL else Change.INSERT_OR_SKIP


def _changed_keys(request: Request, changes: ChangedKeys) -> SomeKeys:
    """The requested keys that others changed: where one that was found was deleted, its record is to be inserted."""
    return request.some_keys(changes.among)
