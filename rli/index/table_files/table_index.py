"""An index that keeps nothing of its own: the table's files say all, so it never has to follow the table."""

from __future__ import annotations

from rli.errors import RepeatedKeyError
from rli.hudi.table_features import remedy_of_bootstrap
from rli.index.contract import ChangedKeys, FileIndex
from rli.index.reports import IndexStats, VerifyReport
from rli.index.table_files.changes import changes_between
from rli.index.table_files.state import TableState
from rli.index.table_files.unlogged_index import UnloggedIndex
from rli.index.table_files.verifying import verify_keys
from rli.view.definition import TableDefinition
from rli.view.snapshot import Snapshot


class TableFilesIndex(UnloggedIndex, FileIndex):
    """Finds records in the table's files. A kind says how: ``locator_of``; and overrides what it does in its own way."""

    def verify(self, snapshot: Snapshot) -> VerifyReport:
        return verify_keys(snapshot, self.scope)

    def require_sound(self, table: TableDefinition, report: VerifyReport) -> None:
        if report.repeated:
            raise RepeatedKeyError(
                f"record keys stand in the table more than once: table={table.location} scope={self.scope} "
                f"records={report.repeated} sample={list(report.sample)}",
                remedy=remedy_of_bootstrap(table.properties),
            )

    def state_of(self, snapshot: Snapshot) -> TableState:
        return TableState(snapshot, self)

    # Questions of a writer -------------------------------------------------------------------------------------

    def changes_between(self, before: Snapshot, now: Snapshot) -> ChangedKeys | None:
        """The keys that changed from one state of the table to a later one; None if nothing did."""
        return changes_between(before, now, self.locator_of)

    # The index as a whole --------------------------------------------------------------------------------------

    def stats_of(self, snapshot: Snapshot) -> IndexStats:
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
