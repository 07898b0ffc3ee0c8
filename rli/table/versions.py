"""States of a table: keep them, and go back to them."""

from __future__ import annotations

from rli.commit.exclusive_service import unsynced_service
from rli.commit.undo import foretold_restore, restore, roll_back
from rli.index.contract import TableIndex
from rli.services.restore import RestoreResult
from rli.services.savepoint import create_savepoint, delete_savepoint
from rli.table.index_partition import rebuilt_if_lost
from rli.table.opened import OpenTable
from rli.table.patience import patience
from rli.view.definition import TableDefinition


class TableVersions:
    """``table.versions``: keep the state as of a commit, roll the last commit back, restore an earlier state."""

    def __init__(self, opened: OpenTable) -> None:
        self._opened = opened

    def rollback(self, instant: str, *, timeout: float | None = None) -> str:
        """Undo the last completed commit; returns the instant of the rollback.

        Clusterings of rli that came after it change no record, and are undone with it. Files, index and timeline are as
        before the commit, in time proportional to the commit; of a commit of another engine the index is scanned once, or
        built again if it is ``record-index:``.
        A rollback that was interrupted may be called again, and is finished.

        Args:
            instant: of the last commit, or "last", which passes over clusterings: a write may make one after its commit. If
                an earlier rollback was interrupted, "last" finishes that one and undoes nothing more.
            timeout: seconds; for how long to wait for the table's lease, whenever it is needed. None: until it is free.

        Example:
            >>> wrong = table.delete(["a"])
            >>> undone_by = table.versions.rollback("last")
            >>> table.lookup(["a"])["file_id"].null_count
            0

        Raises:
            InstantNotFoundError: it is not the last completed commit, or what it replaced was cleaned.
            UnsupportedTableError: the commit is another engine's and replaced whole file groups, a savepoint keeps it, or
                record keys would be in several partitions again, which the index does not allow.
            LeaseBusyError: the lease was not free in that time.
            LeaseLostError: this process was paused so long that another one took over; nothing was rolled back.
        """
        with rebuilt_if_lost(self._opened, patience(timeout)):
            return roll_back(*self._opened.refreshed(), instant, patience=patience(timeout))

    def savepoint(self, instant: str | None = None, comment: str = "", *, timeout: float | None = None) -> str:
        """Keep the table's state as of a commit, until ``delete_savepoint``; returns the commit's instant.

        No clean removes files that it needs, by any engine, and the commit is not rolled back. A commit that has a
        savepoint keeps that one.

        Args:
            instant: of a completed commit; by default of the last one.
            comment: kept with the savepoint.
            timeout: as for ``rollback``.

        Example:
            >>> saved = table.versions.savepoint(comment="before the import")
            >>> table.versions.delete_savepoint(saved)

        Raises:
            InstantNotFoundError: there is no such commit, or files that it needs were cleaned.
            UnsupportedTableError: rli does not write such tables.
            IndexNotReadyError: the index was never bootstrapped, or cannot follow the timeline.
            LeaseLostError: this process was paused so long that another one took over; there is no savepoint.
        """
        with self._opened.service("savepoint", patience(timeout)) as (definition, fence):
            return create_savepoint(definition, instant, comment, fence)

    def delete_savepoint(self, instant: str, *, timeout: float | None = None) -> None:
        """Keep the table's state as of a commit no longer; ``timeout`` as for ``rollback``.

        It needs no whole commit. So it can be called where the commit is damaged, and no write is possible.

        Raises:
            InstantNotFoundError: the commit has no savepoint.
            UnsupportedTableError, LeaseLostError: as ``savepoint``.
        """
        seconds = patience(timeout)

        def delete(definition: TableDefinition, index: TableIndex) -> None:
            with unsynced_service(definition, index, "deletion of a savepoint", patience=seconds) as (durable, fence):
                delete_savepoint(durable, instant, fence)

        self._opened.write_with(delete)

    def restore(self, instant: str, *, timeout: float | None = None, dry_run: bool = False) -> RestoreResult:
        """Go back to a commit: all later ones are undone, and gone for good.

        Rows, files and index are as they were after that commit, in time proportional to the commits undone; where one
        of them is another engine's, the index is scanned once, or built again if it is ``record-index:``. Writers at work go on, and meet a conflict where they
        build on what is undone. A restore that was interrupted is finished by the next write, or by the same call.

        Args:
            instant: of a completed commit; a savepoint (``savepoint``) sees to it that its files are kept.
            timeout: as for ``rollback``.
            dry_run: only tell which commits would be undone now, or why none would. Nothing is changed, and no lease is
                waited for.

        Example:
            >>> before = table.timeline()[-1].time
            >>> wrong = table.delete(["a", "b"])
            >>> undone = table.versions.restore(before)
            >>> table.read().num_rows
            4

        Raises:
            InstantNotFoundError: there is no such commit, or files that it needs were cleaned.
            UnsupportedTableError: a later commit replaced whole file groups and is another engine's, or a savepoint keeps
                one.
            LeaseLostError: this process was paused so long that another one took over; nothing was undone.
            ConflictError: another writer committed before the restore was done; call it again.
        """
        if dry_run:
            return self._opened.look_up_with(lambda definition, index: foretold_restore(definition, index, instant))
        with rebuilt_if_lost(self._opened, patience(timeout)):
            return restore(*self._opened.refreshed(), instant, patience=patience(timeout))
