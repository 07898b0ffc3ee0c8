"""The index of a table, for its users: is it right, and what keeps it so?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from rli.commit.readiness import await_synced
from rli.index.any_index import verified
from rli.index.contract import LOOKUP_SECONDS, TableIndex
from rli.index.kinds import IndexOptions
from rli.index.reports import IndexStats, VerifyReport
from rli.model import KeyMode, MigrationResult, MigrationStep, OnRepeatedKey, Scope
from rli.table import index_upkeep
from rli.table.opened import OpenTable
from rli.table.patience import patience
from rli.tasks import InProcess, TaskRunner
from rli.view.deep_check import damaged_files
from rli.view.definition import TableDefinition
from rli.write.choices import one_of
from rli.write.operations.deduplicate import Deduplicated


@dataclass(frozen=True, slots=True)
class SyncResult:
    """What a sync of an index did.

    Attributes:
        applied: the instants that the index has followed now, in their order.
        sequence: of the last commit in the index; None for an index without a store.
    """

    applied: tuple[str, ...]
    sequence: int | None


class IndexOfTable:
    """``table.index``: verify, repair, sync, bootstrap, migrate and drop the index of a table."""

    def __init__(self, opened: OpenTable) -> None:
        self._opened = opened

    @property
    def url(self) -> str:
        """Where the index is, or its kind; without a password. Raises as ``stats``."""
        return self._opened.index.url

    @property
    def kind(self) -> str:
        """Its kind, as ``rli info`` names it. Raises as ``stats``."""
        return self._opened.index.kind

    @property
    def scope(self) -> Scope:
        """Where a record key is unique. Raises as ``stats``."""
        return self._opened.index.scope

    def stats(self) -> IndexStats:
        """Size and state of the index.

        Raises:
            IndexNotReadyError: it is missing.
            IndexMismatchError: the index at the URL belongs to another table.
            StoreUnavailableError: its store does not answer.
        """
        return self._opened.index.stats()

    def bootstrap(
        self,
        url: str | None = None,
        *,
        shards: int | None = None,
        key_mode: KeyMode | str = KeyMode.EXACT,
        tasks: TaskRunner | None = None,
        timeout: float | None = None,
        on_duplicate: OnRepeatedKey | str = OnRepeatedKey.FAIL,
        on_deduplicated: Callable[[Deduplicated], None] | None = None,
    ) -> int:
        """Build the index again from the table's files; returns how many records it holds.

        If the bootstrap of an index in a store was killed, the next one with the same options continues it: it does not read
        finished shards of files again.

        It waits for the lease only to undo commits that a power cut has torn, and to build ``record-index:``. A write at
        work fails with ``IndexNotFoundError`` when it finds the index that it began with dropped; what the write left is
        removed by the next one. With another ``url``, all who have opened the table go over to the new index; ``migrate``
        builds that one first, and lets writers go on meanwhile.

        An index knows one place for each record key. Were two records of a key to stay in the files, a delete would remove the
        one that the index knows, and show the other one again. So ``on_duplicate="newest"`` removes surplus records from the
        table: it builds the index, and if it finds repeated keys, commits what ``deduplicate`` commits, and builds again.

        Args:
            url: where; by default where the table's index is. A table of another engine that has none yet gets it in
                its own folder, if it is on this machine.
            shards: see ``create_index``.
            key_mode: see ``create_index``.
            tasks: runs the work on each base file; in this process by default. Surplus records are removed in this process.
            timeout: as for ``TableMaintenance.clean``.
            on_duplicate: what happens if the table holds a record key more than once: "fail", or "newest" to remove all of its
                records but that with the greatest ordering value, of equal ones that of the latest commit.
            on_deduplicated: told which records were removed. The log event ``index.deduplicated`` tells it, too.

        Example:
            >>> table.index.bootstrap(on_duplicate="newest") == table.index.stats().entries
            True

        Raises:
            LeaseBusyError: the lease was not free in that time. The table names the index already: bootstrap again.
            IndexMismatchError: there is an index of something else at the URL.
            RepeatedKeyError: a record key lives in more than one place.
            CorruptTableError: a file cannot be read.
            UnsupportedTableError: the records have no keys; or records are to be removed, and rli does not write the table.
        """
        options = IndexOptions(shards, key_mode, one_of(OnRepeatedKey, "on_duplicate", on_duplicate))
        return index_upkeep.bootstrap(
            self._opened, url, options, tasks or InProcess(), patience(timeout), on_deduplicated=on_deduplicated
        )

    def migrate(
        self,
        to: str,
        *,
        shards: int | None = None,
        key_mode: KeyMode | str = KeyMode.EXACT,
        drop_old: bool = False,
        tasks: TaskRunner | None = None,
        timeout: float | None = None,
        on_step: Callable[[MigrationStep], None] = lambda _: None,
    ) -> MigrationResult:
        """Give the table another index, of any kind and in any store, while others write and read it.

        The new index is built from a snapshot, follows the commits made meanwhile, and is compared with the table. Then
        writers wait for a moment, and one change of the table's settings switches to it. Who has opened the table goes
        over to the new index; a write at work is tried again with it. A migration that was interrupted changed nothing
        that others see: call it again, and it goes on. The former index stays until it is dropped.

        Args:
            to: URL of the new index. An index of this table that is there already is used if it agrees with the table.
            shards: see ``create_index``.
            key_mode: see ``create_index``.
            drop_old: drop the former index after the switch; also one that an earlier call to this URL has kept.
            tasks: runs the work on each base file and on shards; in this process by default.
            timeout: as for ``TableMaintenance.clean``.
            on_step: called after each step.

        Example:
            >>> table.index.migrate("global-simple:").index
            'global-simple:'

        Raises:
            SettingsError: the URL or an option is wrong, or record keys are in several partitions and the new index wants
                them unique in the table; the table keeps its index.
            IndexMismatchError: there is an index of something else at the URL, or another migration gave the table another
                index first.
            IndexNotReadyError: the table has no index, or the new index could not follow the table.
            LeaseBusyError: the lease was not free in that time, or another migration did not end in it.
            LeaseLostError: this process was paused so long that another one took over; call it again.
        """
        options, seconds = IndexOptions(shards, key_mode), patience(timeout)
        return index_upkeep.change(
            self._opened, to, options, tasks or InProcess(), drop_old=drop_old, patience=seconds, on_step=on_step
        )

    def sync(self, tasks: TaskRunner | None = None, *, timeout: float | None = None) -> SyncResult:
        """Apply all completed instants that the index has not applied, of any writer.

        What dead writers and power cuts left is cleaned up first: a rollback that was interrupted is finished.
        ``timeout`` is as for ``TableMaintenance.clean``; only a table that needs such a cleanup needs the lease.
        """
        state = index_upkeep.sync(self._opened, tasks or InProcess(), patience(timeout))
        return SyncResult(state.applied, state.sequence)

    def verify(
        self, tasks: TaskRunner | None = None, *, timeout: float = LOOKUP_SECONDS, deep: bool = False
    ) -> VerifyReport:
        """Compare index and table, key by key, as of one commit sequence. Writers may go on.

        Args:
            tasks: runs the work on each base file and on shards; in this process by default.
            timeout: seconds; for how long to wait until the index has applied all commits of the table, as a look-up does.
            deep: also read every column of every live base file: whether all values can be read, pages fit their
                checksums, and keys, meta columns and partitions fit the values (``VerifyReport.damaged``).

        Example:
            >>> table.index.verify(deep=True).agrees
            True

        Raises:
            CorruptIndexError: the index holds entries of commits that it does not know.
            CorruptTableError: a base file is lost or damaged, or a commit cannot be read.
            IndexNotReadyError: the index has not seen all commits of the table after that time.
        """
        runs = tasks or InProcess()

        def verify(definition: TableDefinition, index: TableIndex) -> VerifyReport:
            return verified(definition, index, runs, partial(await_synced, definition, index, timeout))

        report = self._opened.look_up_with(verify)
        if not deep:
            return report
        return replace(report, damaged=tuple(map(str, damaged_files(self._opened.reloaded(), runs))))

    def repair(
        self, tasks: TaskRunner | None = None, *, timeout: float | None = None, dry_run: bool = False
    ) -> VerifyReport:
        """Make the index say what the table says; returns what was wrong.

        Args:
            tasks: runs the work on each base file and on shards; in this process by default.
            timeout: as for ``TableMaintenance.clean``.
            dry_run: only tell what is wrong, as ``verify`` does.

        Raises:
            CorruptTableError: a base file is damaged, or holds a record key twice.
            SettingsError: the index keeps digests, and some of them have no record.
        """
        if dry_run:
            return self.verify(tasks)
        return index_upkeep.repair(self._opened, tasks or InProcess(), patience(timeout))

    def relocate(self, *, also: bool = False) -> tuple[str, ...]:
        """Let the index serve the table where it is now, after the table was moved.

        An index in the table's own folder needs no call.

        Args:
            also: keep the locations that the index knows: hosts see the table under different paths.

        Returns:
            The locations that the index knows from now on.

        Raises:
            IndexMismatchError: the table is a copy of one that is still there, or the index is of another table.
            IndexNotFoundError: there is no index at its URL.
            StoreUnavailableError: its store does not answer.
        """
        return index_upkeep.relocate(self._opened, also=also)

    def drop(self) -> None:
        """Remove the index; the table stays, and its index can be bootstrapped again.

        An index that has lost what says whose it is can be removed too: the table's settings name it as the table's. Of
        ``record-index:``, the partition leaves the metadata table, for Hudi's writers too.

        Raises:
            UnsupportedTableError: of ``record-index:``: new records go to log files (``log_inserts``), or are there while writers of
                Hudi are known: says what to do before.
        """
        index_upkeep.drop(self._opened)
