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
from rli.errors import (
    CorruptIndexError,
    CorruptTableError,
    IndexMismatchError,
    IndexNotReadyError,
    InstantNotFoundError,
    SettingsError,
    StoreUnavailableError,
)
from rli.hudi.table_features import remedy_for_repeats
from rli.index.any_index import facts_of, is_built, verified
from rli.index.contract import IndexState, SyncOptions, TableIndex
from rli.index.kinds import IndexOptions, KeptKind, rebuilt, require_valid
from rli.index.placing import PlacesRecords
from rli.index.registry import default_lease, index_kind
from rli.index.reports import Scope, VerifyReport
from rli.index.roles import ExpiresKeys, KeptInStore
from rli.index_urls import IndexUrl
from rli.json_text import parse_json
from rli.model import MigrationResult, MigrationStep
from rli.publication.fence import Fence
from rli.storage import Storage
from rli.store.registry import open_store
from rli.tasks import TaskRunner
from rli.urls import StoredUrl, has_secrets, without_password, without_secrets
from rli.view import paths
from rli.view.definition import TableDefinition, load_settings
from rli.view.index_location import to_stored
from rli.view.registration import given, has_other_index, require_same_lease, with_index_at

MIGRATION_LEASE: Final = "migration-lease"
"""Name of the shared record of the process that migrates a table's index."""

_ATTEMPTS: Final = 5
"""How often the new index is built where commits are undone or cleaned beside that."""

_FEW_COMMITS: Final = 2
_MOST_ROUNDS: Final = 20

OnMigrationStep = Callable[[MigrationStep], None]


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
            new, report = self._ready_index(require_alone)
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

    def _ready_index(self, require_alone: Callable[[], None]) -> tuple[TableIndex, VerifyReport]:
        """The new index, which has followed the table and agrees with it."""
        new = self._found_index()
        if new is not None and (report := self._followed(new)) is not None and report.agrees:
            return self._verified(new, report, require_alone)
        for _ in range(_ATTEMPTS):
            new = self._built_index(require_alone)
            report = self._followed(new)
            if report is not None:
                return self._verified(new, report, require_alone)
        raise IndexNotReadyError(
            f"the new index could not follow the table: table={self.table.location} index={self.target.index_url} "
            f"attempts={_ATTEMPTS}",
            remedy="let cleans keep more commits, and migrate again",
        )

    def _followed(self, new: TableIndex) -> VerifyReport | None:
        """How an index agrees with the table once it has caught up; None if it cannot."""
        try:
            self.on_step(MigrationStep.BUILT)
            for _ in range(_MOST_ROUNDS):
                if len(self._sync(new).applied) <= _FEW_COMMITS:
                    break
            self.on_step(MigrationStep.CAUGHT_UP)
            return self._verify(new)
        except IndexNotReadyError:
            # A clean may have removed what the index was still to follow.
            new.close()
            return None
        except BaseException:
            new.close()
            raise

    def _verified(
        self, new: TableIndex, report: VerifyReport, require_alone: Callable[[], None]
    ) -> tuple[TableIndex, VerifyReport]:
        if not report.agrees:
            try:
                raise self._differs(new, report, require_alone)
            finally:
                new.close()
        self.on_step(MigrationStep.VERIFIED)
        return new, report

    def _found_index(self) -> TableIndex | None:
        """An index of this table at the URL: of a migration that was interrupted, or one that the table had before."""
        kind = index_kind(self.target.index_url)
        try:
            found = kind.open(self.target)
        except IndexNotReadyError:
            return None
        if _is_same(found, self.index):
            found.close()
            raise SettingsError(
                f"this is the table's present index, under another URL: table={self.table.location} "
                f"index={self.index.url} to={without_password(self.target.index_url)}",
                remedy="give the URL of another place",
            )
        if is_built(found) and self._is_as_wanted(found):
            return found
        found.close()
        return None

    def _is_as_wanted(self, found: TableIndex) -> bool:
        facts, wanted = facts_of(found), self.options
        if facts.shards is None:
            return True
        return wanted.shards in {None, facts.shards} and facts.key_mode == str(wanted.key_mode)

    def _built_index(self, require_alone: Callable[[], None]) -> TableIndex:
        kind = index_kind(self.target.index_url)
        for attempt in range(1, _ATTEMPTS + 1):
            before = self._completed()
            # What is there now goes: another migration may have let the table have it, if this process was paused.
            require_alone()
            try:
                return rebuilt(kind, self.target, self.options, self.tasks)[0]
            except (CorruptTableError, InstantNotFoundError, FileNotFoundError) as error:
                # Files may have been cleaned, or commits undone, before they were read.
                if attempt == _ATTEMPTS or self._completed() == before:
                    require_alone()
                    if isinstance(kind, KeptKind):
                        table_id = self.table.require_settings().table_id
                        kind.drop_own(self.target.index_url, table_id, self.table.storage)
                    raise self._described(error) from error
        raise AssertionError

    def _completed(self) -> list[str]:
        return [instant.file_name for instant in self.table.load_timeline().completed]

    def _described(self, error: Exception) -> Exception:
        if self.index.scope is Scope.PARTITION and isinstance(error, CorruptTableError):
            return self._repeats(str(error))
        return error

    def _verify(self, new: TableIndex) -> VerifyReport:
        return verified(self.target, new, self.tasks, lambda: self._sync(new))

    def _sync(self, new: TableIndex) -> IndexState:
        return new.sync(self.target, SyncOptions(self.tasks))

    def _switch(self, new: TableIndex, require_held: Callable[[], None]) -> None:
        """Let the table have the new index: the caller holds the lease that all writers need until then."""
        self._sync(new)
        if self._allows_less(new):
            # Writers may have written since what the former index allows, and the new one does not: file groups that are
            # no buckets, a key in another partition, a key again that had expired.
            report = self._verify(new)
            if not report.agrees:
                raise self._differs(new, report, require_held)
        storage, settings = self.table.storage, self.target.require_settings()
        stored, _ = load_settings(storage)
        if stored is not None:
            index = settings.model_dump(include={"index_url", "index_generation", "lease"})
            settings = stored.model_copy(update=index)
        Fence(self.table, require_held).replace(paths.SETTINGS, to_stored(storage, settings))
        self.on_step(MigrationStep.SWITCHED)

    def _allows_less(self, new: TableIndex) -> bool:
        former = self.index
        if isinstance(new, PlacesRecords) or (new.scope is Scope.GLOBAL and former.scope is Scope.PARTITION):
            return True
        before, after = _ttl_of(former), _ttl_of(new)
        return before is not None and (after is None or after > before)

    def _differs(self, new: TableIndex, report: VerifyReport, require_held: Callable[[], None]) -> Exception:
        if new.scope is Scope.GLOBAL and self.index.scope is Scope.PARTITION:
            require_held()
            if isinstance(new, KeptInStore):
                new.drop()
            return self._repeats(f"keys={list(report.sample)}")
        return CorruptIndexError(
            f"the new index does not say what the table says: table={self.table.location} index={new.url} "
            f"missing={report.missing} misplaced={report.misplaced} dangling={report.dangling} "
            f"repeated={report.repeated} keys={list(report.sample)}",
            remedy="the table keeps its index: rli index verify TABLE",
        )

    def _repeats(self, found: str) -> SettingsError:
        return SettingsError(
            "record keys are in several partitions, and the index wants them unique in the table: "
            f"table={self.table.location} index={without_password(self.target.index_url)} {found}",
            remedy=(
                f"the table keeps its index: {remedy_for_repeats(self.table.properties)}, or choose an index with "
                "partition scope"
            ),
        )


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


def target_of(table: TableDefinition, to: str, options: IndexOptions) -> TableDefinition:
    """The table as it is to be with an index at another URL.

    Raises:
        SettingsError: the URL or the options are wrong, or other writers could not open such an index.
        IndexMismatchError: there is an index of something else, or the table was opened with an index of the caller's.
        StoreUnavailableError: its store does not answer.
    """
    if table.callers_in_place_of is not None:
        raise IndexMismatchError(
            f"the table was opened with an index of the caller's: table={table.location} "
            f"index={table.callers_in_place_of}",
            remedy="open it without one, and migrate again",
        )
    settings = table.require_settings()
    kind = index_kind(to)
    require_valid(kind, to, options)
    if settings.lease == without_secrets(IndexUrl.parse(to).store):
        raise SettingsError(
            f"the lease is in this store, and an index there would be dropped with it: lease={settings.lease} to={to}",
            remedy="give another URL",
        )
    if settings.index_url == without_secrets(to):
        return table
    if has_secrets(to):
        _require_credentials(to)
    kind.require_own(table, to)
    return given(with_index_at(table, to), default_lease(to))


def _require_credentials(to: str) -> None:
    """Raise ``SettingsError`` if the processes that are told the URL without its password cannot use it."""
    try:
        open_store(StoredUrl(without_secrets(IndexUrl.parse(to).store)), create=True).close()
    except StoreUnavailableError as error:
        raise SettingsError(
            "the table does not keep the password, so other writers could not open the index: "
            f"index={without_password(to)} ({error})",
            remedy="write the password into ~/.config/rli/credentials.toml of each of them (docs/security.md)",
        ) from error


def _is_same(one: TableIndex, other: TableIndex) -> bool:
    """Whether two indexes are the same, maybe under two URLs."""
    if not (isinstance(one, KeptInStore) and isinstance(other, KeptInStore)):
        return False
    return one.identity is not None and one.identity == other.identity


def _ttl_of(index: TableIndex) -> int | None:
    return index.ttl if isinstance(index, ExpiresKeys) else None


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
