"""Building, following, repairing, changing and dropping the index of an open table."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from rli.commit.recovery import exclusive, recover
from rli.commit.torn import undo_torn
from rli.errors import (
    CorruptIndexError,
    IndexNotFoundError,
    IndexNotReadyError,
    RepeatedKeyError,
    UnsupportedTableError,
)
from rli.index.any_index import repaired
from rli.index.contract import IndexState, SyncOptions, TableIndex
from rli.index.kinds import (
    IndexKind,
    IndexOptions,
    InMetadataTable,
    KeptKind,
    opened_to_relocate,
    rebuilt,
    require_valid,
)
from rli.index.registry import default_lease, index_kind
from rli.index.reports import VerifyReport
from rli.index.roles import IndexesColumns, KeptInStore, KnowsPlaces
from rli.model import MigrationResult, OnRepeatedKey
from rli.publication.fence import Fence
from rli.table.index_partition import build_again, built_partition, drop_partition
from rli.table.migration import Migration, migrate
from rli.table.new_index import OnMigrationStep, target_of
from rli.table.opened import OpenTable
from rli.table.repeated_keys import remove_repeats
from rli.tasks import TaskRunner
from rli.telemetry import events
from rli.view.definition import TableDefinition
from rli.view.index_location import default_index_url
from rli.view.registration import adopt
from rli.write.operations.deduplicate import Deduplicated


def bootstrap(
    table: OpenTable,
    url: str | None,
    options: IndexOptions,
    tasks: TaskRunner,
    patience: float,
    *,
    on_deduplicated: Callable[[Deduplicated], None] | None,
) -> int:
    """Build the index again, at a URL; see ``Table.bootstrap_index``."""
    table.follow()
    if url is None and table.definition.settings is None:
        url = default_index_url(table.definition.storage)
    chosen = table.definition.index_url if url is None else url
    require_valid(index_kind(chosen), chosen, options)
    index_kind(chosen).require_own(table.definition, chosen)
    table.definition = adopt(table.definition, url, default_lease(chosen))
    definition = table.reloaded()
    if not definition.properties.record_key_fields and not definition.properties.populate_meta_fields:
        raise UnsupportedTableError(
            f"the table has neither meta columns nor record-key fields: table={definition.location}",
            remedy="an index needs one of them",
        )
    _undo_torn(table, definition, patience)
    table.close()
    build = partial(_built, table.kind, options=options, tasks=tasks, patience=patience)
    try:
        index, records = build(definition)
    except RepeatedKeyError:
        if options.on_repeated is OnRepeatedKey.FAIL:
            raise
        done = remove_repeats(definition, patience)
        # Another process may have removed them meanwhile.
        if on_deduplicated is not None and done.instant is not None:
            on_deduplicated(done)
        definition = definition.reloaded()
        index, records = build(definition)
    table.use(definition, index)
    return records


def _built(
    kind: IndexKind, table: TableDefinition, options: IndexOptions, tasks: TaskRunner, patience: float
) -> tuple[TableIndex, int]:
    """The index of a table, built from the files, and how many records it has."""
    if isinstance(kind, InMetadataTable):
        index = kind.open(table)
        return index, built_partition(kind, table, index, tasks, patience)
    return rebuilt(kind, table, options, tasks)


def change(
    table: OpenTable,
    to: str,
    options: IndexOptions,
    tasks: TaskRunner,
    *,
    drop_old: bool,
    patience: float,
    on_step: OnMigrationStep,
) -> MigrationResult:
    """Give the table another index while others use it; see ``Table.migrate_index``."""
    definition, index = table.refreshed()
    target = target_of(definition, to, options)
    migration = Migration(definition.durable(), index, target.durable(), options, tasks, patience, on_step)
    now, new, done = migrate(migration, drop_old=drop_old)
    if new is not index:
        table.use(replace(now.adopted(), storage=target.storage), new)
    return done


def sync(table: OpenTable, tasks: TaskRunner, patience: float) -> IndexState:
    """Apply all completed instants, after clearing up what dead writers left; see ``Table.sync_index``."""
    return table.look_up_with(partial(_sync, tasks, patience))


def _sync(tasks: TaskRunner, patience: float, definition: TableDefinition, index: TableIndex) -> IndexState:
    writer = _writer("sync")
    recover(definition, index, writer, patience=patience)
    undo_torn(definition, index, writer, patience=patience)
    began = time.monotonic()
    state = index.sync(definition.reloaded(), SyncOptions(tasks))
    if isinstance(index, IndexesColumns):
        index.follow_columns(definition, tasks)
    events.SYNC_DONE.log(
        table=definition.location,
        index=index.url,
        instants=state.applied,
        sequence=state.sequence,
        seconds=time.monotonic() - began,
    )
    return state


def repair(table: OpenTable, tasks: TaskRunner, patience: float) -> VerifyReport:
    """Correct the index by the table; see ``Table.repair_index``."""
    definition, index = table.refreshed()
    # Under the lease from the first look on: entries are corrected as those of the next commit.
    with exclusive(definition, index, _writer("repair"), patience=patience) as lease:
        report = repaired(definition, index, tasks)
        kind = table.kind
        if isinstance(kind, InMetadataTable) and not report.agrees:
            build_again(kind, index.scope, Fence(definition.durable(), lease.require_held))
        return report


def relocate(table: OpenTable, *, also: bool) -> tuple[str, ...]:
    """Let the index serve the table where it is now; see ``Table.relocate``."""
    definition = table.follow()
    with closing(opened_to_relocate(table.kind, definition)) as index:
        return index.relocate(definition, also=also) if isinstance(index, KnowsPlaces) else (definition.location,)


def drop(table: OpenTable) -> None:
    """Remove the index, damaged or not; see ``Table.drop_index``."""
    definition = table.follow()
    if isinstance(table.kind, InMetadataTable):
        drop_partition(table.kind, table)
    try:
        index = table.index
        if isinstance(index, KeptInStore):
            index.drop()
    except CorruptIndexError:
        kind = table.kind
        if isinstance(kind, KeptKind):
            kind.drop_damaged(definition.index_url)
    table.close()


def _undo_torn(table: OpenTable, definition: TableDefinition, patience: float) -> None:
    """Undo torn commits, as far as the index to be replaced knows them."""
    # The old index may have another scope than the new one.
    with suppress(IndexNotReadyError, IndexNotFoundError), closing(opened_to_relocate(table.kind, definition)) as index:
        undo_torn(definition, index, _writer("bootstrap"), patience=patience, is_index_kept=False)


def _writer(work: str) -> str:
    """Names the caller for those who wait for the lease."""
    return f"{work} at {datetime.now(UTC).isoformat()}"
