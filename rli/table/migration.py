"""Changing the index of a table while it is written: built, caught up, verified, and switched in one step (P37).

The new index follows the timeline beside the present one, which writers go on using. Only the switch needs their lease.
A migration that is interrupted changes nothing but what it built: called again, it goes on with that.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from rli.commit.exclusive_service import made_ready
from rli.commit.recovery import exclusive
from rli.coordination.lease import TableLease
from rli.coordination.shared_records import shared_records
from rli.errors import IndexMismatchError
from rli.index.contract import TableIndex
from rli.index.kinds import IndexOptions, KeptKind
from rli.index.registry import index_kind
from rli.index.reports import VerifyReport
from rli.json_text import parse_json
from rli.model import MigrationResult, MigrationStep
from rli.publication.fence import Fence
from rli.storage import Storage
from rli.table.new_index import NewIndex, OnMigrationStep
from rli.tasks import TaskRunner
from rli.urls import StoredUrl, without_password
from rli.view import paths
from rli.view.definition import TableDefinition, load_settings
from rli.view.index_location import to_stored
from rli.view.registration import has_other_index, require_same_lease

MIGRATION_LEASE: Final = "migration-lease"
"""Name of the shared record of the process that migrates a table's index."""


@dataclass(frozen=True, slots=True)
class Migration:
    """What is to be done, and how.

    Attributes:
        table: as its settings are stored now.
        index: that the settings name.
        target: the same table with the new index.
        options: of the new index.
        tasks: runs the work on each base file and on shards.
        patience: seconds; for how long to wait for a lease at most.
        on_step: called after each step.
    """

    table: TableDefinition
    index: TableIndex
    target: TableDefinition
    options: IndexOptions
    tasks: TaskRunner
    patience: float
    on_step: OnMigrationStep

    def run(self) -> tuple[TableDefinition, TableIndex, VerifyReport]:
        """Build the new index and let the table have it; what the table is then, its index, and how they agree."""
        writer = f"migration at {datetime.now(UTC).isoformat()}"
        with _alone(self.table, self.index, writer, self.patience) as require_alone:
            made_ready(self.table, self.index, writer, patience=self.patience)
            _save_plan(self.table, self.target)
            new, report = self.making.ready(require_alone)
            try:
                with exclusive(self.table, self.index, writer, patience=self.patience) as lease:
                    self.on_step(MigrationStep.LEASED)

                    def require_held() -> None:
                        require_alone()
                        lease.require_held()

                    self._switch(new, require_held)
            except BaseException:
                new.close()
                raise
        return self.target, new, report

    @property
    def making(self) -> NewIndex:
        """How the new index is made; it needs no lease."""
        return NewIndex(self.table, self.index, self.target, self.options, self.tasks, self.patience, self.on_step)

    def _switch(self, new: TableIndex, require_held: Callable[[], None]) -> None:
        """Let the table have the new index: the caller holds the lease that all writers need until then."""
        fence = Fence(self.table, require_held)
        # Writers with an index of another scope remove a record index that they cannot keep.
        self.making.build_in_metadata_table(fence)
        self.making.sync(new)
        if self.making.allows_less(new):
            # Writers may have written since what the former index allows, and the new one does not: file groups that are
            # no buckets, a key in another partition, a key again that had expired.
            report = self.making.verify(new)
            if not report.agrees:
                raise self.making.differs(new, report, require_held)
        storage, settings = self.table.storage, self.target.require_settings()
        stored, _ = load_settings(storage)
        if stored is not None:
            index = settings.model_dump(include={"index_url", "index_generation", "lease"})
            settings = stored.model_copy(update=index)
        fence.replace(paths.SETTINGS, to_stored(storage, settings))
        self.on_step(MigrationStep.SWITCHED)


def migrate(migration: Migration, *, drop_old: bool) -> tuple[TableDefinition, TableIndex, MigrationResult]:
    """Give a table another index; see ``Table.migrate_index``. Returns what the table is then, its index, and a report."""
    table, target = migration.table, migration.target
    is_there = table.require_settings().index_url == target.require_settings().index_url
    former = _former_of(table) if is_there else table.require_settings().index_url
    report: VerifyReport | None = None
    index = migration.index
    if not is_there:
        target, index, report = migration.run()
    is_dropped = False
    if former is not None and drop_old:
        is_dropped = _drop_former(migration, target.adopted(), index, former)
    is_kept = former is not None and not is_dropped and index_kind(former).has_store
    settings = target.require_settings()
    done = MigrationResult(
        index=without_password(settings.index_url),
        former=former,
        is_former_kept=is_kept,
        records=None if report is None else report.records,
        lease=str(settings.lease),
    )
    return (table if is_there else target), index, done


@contextmanager
def _alone(table: TableDefinition, index: TableIndex, writer: str, patience: float) -> Iterator[Callable[[], None]]:
    """Keep other migrations of a table waiting; refuse those that waited while the table was given another index."""

    def require_same() -> None:
        require_same_lease(table)
        if has_other_index(table):
            raise IndexMismatchError(
                f"the table has been given another index by another migration: table={table.location} "
                f"index={table.require_settings().index_url}",
                remedy="migrate again if that is not the index that you want",
            )

    seconds = table.require_settings().lease_seconds
    lease = TableLease(shared_records(table, index), seconds, require_same=require_same, name=MIGRATION_LEASE)
    with lease.hold(writer, patience=patience) as held:
        # Nothing of a migration that died has to be cleared up.
        held.settle()
        yield held.require_held


def _drop_former(migration: Migration, table: TableDefinition, index: TableIndex, former: str) -> bool:
    """Drop the index that a table had before its present one; whether that was done.

    If another migration has given the table another index since, that may be the former one: then it is kept.
    """
    writer = f"drop of a former index at {datetime.now(UTC).isoformat()}"
    try:
        with _alone(table, index, writer, migration.patience):
            settings, storage = table.require_settings(), table.storage
            kind = index_kind(former)
            is_dropped = isinstance(kind, KeptKind) and kind.drop_own(StoredUrl(former), settings.table_id, storage)
            storage.delete_files([paths.MIGRATION])
    except IndexMismatchError:
        return False
    migration.on_step(MigrationStep.DROPPED)
    return is_dropped


def _save_plan(table: TableDefinition, target: TableDefinition) -> None:
    """Note which index the table has had, for the call that drops it."""
    plan = {
        "version": 1,
        "from": table.require_settings().index_url,
        "to": target.require_settings().index_url,
    }
    table.storage.write_bytes(paths.MIGRATION, json.dumps(plan).encode())


def _former_of(table: TableDefinition) -> str | None:
    """The index that the table had before the last migration, if that led to the present one."""
    return _read_plan(table.storage).get(table.require_settings().index_url)


def _read_plan(storage: Storage) -> dict[str, str]:
    content = storage.read_bytes(paths.MIGRATION)
    if content is None:
        return {}
    with suppress(ValueError, TypeError, KeyError):
        plan = parse_json(content)
        return {str(plan["to"]): str(plan["from"])}
    return {}
