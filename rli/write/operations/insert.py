"""Inserting records with new keys alone: the first one wins. One operation for all engines.

Known keys are looked up, and touch no file.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Final

from rli.commit.conflicts import no_keys
from rli.commit.prepared_write import PreparedWrite
from rli.commit.write_basis import WriteBasis
from rli.file_group.work_rows import Change
from rli.hudi.table_keys import TableKeys
from rli.index.contract import ChangedKeys, TableIndex
from rli.index.placing import PlacesRecords
from rli.index.reports import SomeKeys
from rli.model import CommitResult, OnExisting, Scope, Step
from rli.view.definition import TableDefinition
from rli.write.choices import one_of
from rli.write.engine.contract import Engine, Request
from rli.write.operations.operation import Operation, require_same_key_types, run
from rli.write.operations.planning import deleted_among, deletions_of, plan_write, read_set, run_plan, tagged_rows
from rli.write.options import WriteOptions
from rli.write.rows.keying import FirstRecordKeying
from rli.write.rows.tagging import InsertTagging, UndecidedTagging

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
    return run(Insert(one_of(OnExisting, "on_existing", on_existing)), table, index, engine, source, options=options)


@dataclass(frozen=True, slots=True)
class Insert(Operation):
    """Insert records with new keys.

    Attributes:
        on_existing: what becomes of records whose key the table holds.
    """

    name: ClassVar[str] = "INSERT"

    on_existing: OnExisting

    def keying(self, keys: TableKeys, table: TableDefinition, scope: Scope, options: WriteOptions) -> FirstRecordKeying:
        return options.keying(FirstRecordKeying, keys, table, scope)

    def prepare(self, write: WriteBasis, request: Request, engine: Engine) -> PreparedWrite:
        require_same_key_types(write, request.schema)
        schema = write.schema_with(request.schema)
        deletions = deletions_of(write)
        undecided = UndecidedTagging(schema, _change(self.on_existing), deletions)
        with tagged_rows(write, request, InsertTagging(schema, self.on_existing, deletions), undecided) as rows:
            write.on_step(Step.TAGGED)
            profile = rows.profile
            context = write.context(schema, is_flushed=engine.flushes_in_tasks)
            plan = plan_write(write, context, profile, request.bytes_per_row, most_rewritten=_MOST_REWRITTEN)
            write.on_step(Step.RESOLVED)
            results = run_plan(write, rows, plan)
        # Where file groups have decided, they tell of changes too.
        looked_up = no_keys if isinstance(write.index, PlacesRecords) else partial(_changed_keys, request)
        read = read_set(profile, results, looked_up, partial(deleted_among, request), write.deleted_keys)
        return PreparedWrite(results, schema, self.name, profile.apart, read, is_flushed=engine.flushes_in_tasks)


def _change(on_existing: OnExisting) -> Change:
    return Change.INSERT_OR_FAIL if on_existing is OnExisting.FAIL else Change.INSERT_OR_SKIP


def _changed_keys(request: Request, changes: ChangedKeys) -> SomeKeys:
    """The requested keys that others changed: where one that was found was deleted, its record is to be inserted."""
    return request.some_keys(changes.among)
