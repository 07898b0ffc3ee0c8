"""An index that keeps nothing of its own: the table's files say all, so it never has to follow the table."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa

from rli.errors import CorruptTableError, IndexNotReadyError
from rli.file_group.journal import Journal
from rli.hudi.table_features import remedy_for_repeats
from rli.hudi.timeline.timeline import Timeline
from rli.index.contract import ChangedKeys, FileIndex, IndexState
from rli.index.locators import joined_locations
from rli.index.reports import IndexStats, Unseen, VerifyReport
from rli.index.table_files.changes import changes_between
from rli.index.table_files.state import TableState
from rli.index.table_files.verifying import verify_keys
from rli.model import Scope
from rli.tasks import TaskRunner
from rli.view.definition import TableDefinition
from rli.view.second_look import OVERTAKEN, SecondLook
from rli.view.snapshot import Snapshot
from rli.view.time_travel import told_of_verified, told_of_whole, whole_snapshot


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
        self._durable = frozenset[str]()

    @property
    def url(self) -> str:
        return self._table.index_url

    def verify(self, snapshot: Snapshot) -> VerifyReport:
        """Check what the index relies on: that no key of a scope stands in the files twice.

        Args:
            snapshot: the table, with a list of all its files.

        Raises:
            CorruptTableError: a file is missing or damaged.
        """
        return verify_keys(snapshot, self.scope)

    def require_sound(self, table: TableDefinition, report: VerifyReport) -> None:
        """Raise ``CorruptTableError`` if ``verify`` found what no repair of an index can mend."""
        if report.repeated:
            raise CorruptTableError(
                f"record keys stand in the table more than once: table={table.location} scope={self.scope} "
                f"records={report.repeated} sample={list(report.sample)}; "
                f"{remedy_for_repeats(table.properties)}"
            )

    # Following the table ---------------------------------------------------------------------------------------

    def sync(
        self,
        table: TableDefinition,
        tasks: TaskRunner,  # noqa: ARG002  (there is no work)
        on_registered: Callable[[], None] = lambda: None,
        on_part: Callable[[], None] = lambda: None,  # noqa: ARG002
        held: Sequence[Journal] = (),  # noqa: ARG002
    ) -> TableState:
        timeline = table.load_timeline()
        self._make_durable(table, timeline)
        on_registered()
        return TableState(Snapshot(table, timeline), self)

    def unseen(self, table: TableDefinition) -> tuple[TableState, Unseen]:
        return TableState(Snapshot.now(table), self), Unseen()

    def _make_durable(self, table: TableDefinition, timeline: Timeline) -> None:
        """See to it that what a write builds on, or acknowledges, survives a power cut (P17)."""
        unsynced = [instant for instant in timeline.completed if instant.file_name not in self._durable]
        if unsynced:
            layout = timeline.layout
            table.storage.sync([layout.folder, *(layout.path(instant.file_name) for instant in unsynced)])
        self._durable = frozenset(instant.file_name for instant in timeline.completed)

    # Questions of a writer -------------------------------------------------------------------------------------

    def changes_between(self, before: Snapshot, now: Snapshot) -> ChangedKeys | None:
        """The keys that changed from one state of the table to a later one; None if nothing did."""
        return changes_between(before, now, self.locator_of)

    # Questions of a recovery -----------------------------------------------------------------------------------

    @property
    def is_built(self) -> bool:
        return True

    def standing(self, instants: Iterable[str]) -> list[str]:  # noqa: ARG002  (it holds no changes)
        return []

    def knows(self, instant: str) -> bool:  # noqa: ARG002
        # Nothing tells commits that were acknowledged from others.
        return True

    def last_followed(self) -> list[tuple[str, str]]:
        return []

    # Look-ups of readers ---------------------------------------------------------------------------------------

    def locate_now(
        self,
        table: TableDefinition,
        record_keys: pa.Array,
        timeout: float,
        await_synced: Callable[[float], object],  # noqa: ARG002  (it sees every commit at once)
        partition_paths: pa.Array | None = None,
    ) -> pa.Table:
        deadline = time.monotonic() + timeout
        distinct, second = record_keys.unique(), SecondLook(table)
        while True:
            try:
                locator = self.locator_of(whole_snapshot(table))
                if partition_paths is not None:
                    return locator.locate(record_keys, partition_paths)
                found = locator.locate_all(distinct)
            except OVERTAKEN as error:
                second.require_change(error)
                if time.monotonic() > deadline:
                    raise IndexNotReadyError(
                        f"files were cleaned again and again while keys were looked up: table={table.location} "
                        f"seconds={timeout:g}; look up again with a longer timeout, or let cleans keep more commits"
                    ) from error
            else:
                return joined_locations(record_keys, distinct, found)

    # Table services --------------------------------------------------------------------------------------------

    def relocate(self, table: TableDefinition, *, also: bool) -> tuple[str, ...]:  # noqa: ARG002
        return (table.location,)

    def verify_against(
        self,
        table: TableDefinition,
        tasks: TaskRunner,  # noqa: ARG002  (one process finds what stands twice)
        await_synced: Callable[[], IndexState],  # noqa: ARG002
    ) -> VerifyReport:
        return told_of_verified(table, self.verify)

    def repair_from(self, table: TableDefinition, tasks: TaskRunner) -> VerifyReport:  # noqa: ARG002
        report = told_of_verified(table, self.verify)
        self.require_sound(table, report)
        return report

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

    def count(self) -> None:
        return None

    def is_gone(self) -> bool:
        return False

    def drop(self) -> None:
        """There is nothing to remove."""

    def close(self) -> None:
        """There is nothing to give back."""

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self._table, self.scope)
