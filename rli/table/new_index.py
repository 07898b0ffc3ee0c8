"""The index that a migration gives to a table: its target is checked, it is built, it catches up, and it is verified (P37)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from rli.commit.exclusive_service import unsynced_service
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
from rli.index.kinds import IndexOptions, InMetadataTable, KeptKind, rebuilt, require_valid
from rli.index.placing import PlacesRecords
from rli.index.registry import default_lease, index_kind
from rli.index.reports import Scope, VerifyReport
from rli.index.roles import ExpiresKeys, KeptInStore
from rli.index_urls import IndexUrl
from rli.model import MigrationStep
from rli.publication.fence import Fence
from rli.services.metadata_births import enable_metadata
from rli.services.new_partitions import NewPartitions
from rli.store.registry import open_store
from rli.table.births import METADATA_SERVICE, BesideWriters
from rli.tasks import TaskRunner
from rli.urls import StoredUrl, has_secrets, without_password, without_secrets
from rli.view.definition import TableDefinition
from rli.view.registration import given, with_index_at

_ATTEMPTS: Final = 5
"""How often the new index is built where commits are undone or cleaned beside that."""

_FEW_COMMITS: Final = 2
_MOST_ROUNDS: Final = 20

OnMigrationStep = Callable[[MigrationStep], None]


@dataclass(frozen=True, slots=True)
class NewIndex:
    """How to make the new index. Writers go on with the present one meanwhile.

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

    def ready(self, require_alone: Callable[[], None]) -> tuple[TableIndex, VerifyReport]:
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
                if len(self.sync(new).applied) <= _FEW_COMMITS:
                    break
            self.on_step(MigrationStep.CAUGHT_UP)
            return self.verify(new)
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
                raise self.differs(new, report, require_alone)
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

    def build_in_metadata_table(self, fence: Fence | None = None) -> None:
        """Build the new index if it is a partition of the metadata table, and the partition is not there yet.

        Args:
            fence: of a caller who holds the lease; None to build the partition beside writers.
        """
        kind = index_kind(self.target.index_url)
        if not isinstance(kind, InMetadataTable):
            return
        wanted = NewPartitions([kind.partition], kind.scope_of(self.target.index_url))
        if fence is not None:
            enable_metadata(wanted, fence)
            return
        service = partial(unsynced_service, self.table, self.index, METADATA_SERVICE, patience=self.patience)
        BesideWriters(lambda: (self.table, self.index), service).enable(wanted)

    def _built_index(self, require_alone: Callable[[], None]) -> TableIndex:
        kind = index_kind(self.target.index_url)
        if isinstance(kind, InMetadataTable):
            self.build_in_metadata_table()
            return kind.open(self.target)
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

    def verify(self, new: TableIndex) -> VerifyReport:
        """How the new index agrees with the table."""
        return verified(self.target, new, self.tasks, lambda: self.sync(new))

    def sync(self, new: TableIndex) -> IndexState:
        """Let the new index follow the table."""
        return new.sync(self.target, SyncOptions(self.tasks))

    def allows_less(self, new: TableIndex) -> bool:
        """Whether the former index allows writes that the new one does not."""
        former = self.index
        if isinstance(new, PlacesRecords) or (new.scope is Scope.GLOBAL and former.scope is Scope.PARTITION):
            return True
        before, after = _ttl_of(former), _ttl_of(new)
        return before is not None and (after is None or after > before)

    def differs(self, new: TableIndex, report: VerifyReport, require_held: Callable[[], None]) -> Exception:
        """The error for an index that does not agree with the table; the index is dropped if it never can."""
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
