"""An index that keeps nothing of its own: the table's files say all, so it never has to follow the table."""

from __future__ import annotations

from rli.errors import CorruptTableError
from rli.hudi.table_features import remedy_for_repeats
from rli.index.contract import IN_THIS_PROCESS, ChangedKeys, FileIndex, SyncOptions
from rli.index.reports import IndexStats, Unseen, VerifyReport
from rli.index.table_files.changes import changes_between
from rli.index.table_files.flushing import FlushedInstants
from rli.index.table_files.state import TableState
from rli.index.table_files.verifying import verify_keys
from rli.model import Scope
from rli.view.definition import TableDefinition
from rli.view.snapshot import Snapshot
from rli.view.time_travel import told_of_whole


class TableFilesIndex(FileIndex):
    """Finds records in the table's files. A kind says how: ``locator_of``; and overrides what it does in its own way.

    Pickled by its arguments, which all kinds take.

    Args:
        table: the table; its settings hold the URL of the index.
        scope: where a key is unique.
    """

    def __init__(self, table: TableDefinition, scope: Scope) -> None:
        self._table = table
        self.scope = scope
        self.kind = table.index_url.partition(":")[0]
        self._flushed = FlushedInstants()

    @property
    def url(self) -> str:
        return self._table.index_url

    def verify(self, snapshot: Snapshot) -> VerifyReport:
        return verify_keys(snapshot, self.scope)

    def require_sound(self, table: TableDefinition, report: VerifyReport) -> None:
        if report.repeated:
            raise CorruptTableError(
                f"record keys stand in the table more than once: table={table.location} scope={self.scope} "
                f"records={report.repeated} sample={list(report.sample)}",
                remedy=remedy_for_repeats(table.properties),
            )

    # Following the table ---------------------------------------------------------------------------------------

    def sync(self, table: TableDefinition, options: SyncOptions = IN_THIS_PROCESS) -> TableState:
        timeline = table.load_timeline()
        self._flushed.flush(table, timeline)
        options.on_registered()
        return TableState(Snapshot(table, timeline), self)

    def unseen(self, table: TableDefinition) -> tuple[TableState, Unseen]:
        return TableState(Snapshot.now(table), self), Unseen()

    # Questions of a writer -------------------------------------------------------------------------------------

    def changes_between(self, before: Snapshot, now: Snapshot) -> ChangedKeys | None:
        """The keys that changed from one state of the table to a later one; None if nothing did."""
        return changes_between(before, now, self.locator_of)

    # The index as a whole --------------------------------------------------------------------------------------

    def stats(self) -> IndexStats:
        return told_of_whole(self._table.reloaded(), self._stats_of)

    def _stats_of(self, snapshot: Snapshot) -> IndexStats:
        rows = 0
        for file_slice in snapshot.slices.values():
            with snapshot.reader(file_slice) as reader:
                rows += reader.rows
        latest = snapshot.timeline.latest_write
        return IndexStats(
            entries=rows,
            tombstones=0,
            bytes=0,
            bytes_per_entry=0.0 if rows else None,
            shards=None,
            file_groups=len(snapshot.slices),
            last_sequence=None,
            applied_sequence=None,
            last_instant=None if latest is None else latest.time,
            key_mode=None,
            url=self.url,
            kind=self.kind,
            scope=self.scope,
        )

    def close(self) -> None:
        """There is nothing to give back."""

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self._table, self.scope)
