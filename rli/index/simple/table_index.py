"""The simple index of a table: it keeps nothing of its own, so it never has to follow the table."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rli.errors import CorruptTableError, IndexNotReadyError
from rli.hudi.timeline.timeline import Timeline
from rli.index.contract import FileIndex, IndexState
from rli.index.reports import IndexStats, Scope, Unseen, VerifyReport
from rli.index.simple.changes import SimpleChanges, changes_between
from rli.index.simple.locator import SimpleLocator
from rli.index.simple.verifying import verify_keys
from rli.locations import LOCATION_SCHEMA
from rli.tasks import TaskRunner
from rli.view.definition import TableDefinition
from rli.view.snapshot import Snapshot
from rli.view.time_travel import is_whole, whole_snapshot


@dataclass(frozen=True, slots=True)
class SimpleState:
    """A state of the table: there is nothing else.

    Attributes:
        snapshot: the table.
    """

    snapshot: Snapshot

    @property
    def timeline(self) -> Timeline:
        return self.snapshot.timeline

    @property
    def sequence(self) -> int | None:
        return None

    @property
    def applied(self) -> tuple[str, ...]:
        return ()

    @property
    def withdrawn(self) -> tuple[str, ...]:
        return ()


class SimpleIndex(FileIndex):
    """Finds records by the keys that the table's files hold.

    Args:
        table: the table.
        scope: where a key is unique.
    """

    def __init__(self, table: TableDefinition, scope: Scope) -> None:
        self._table = table
        self.scope = scope
        self.kind = "simple" if scope is Scope.PARTITION else "global-simple"
        self._durable = frozenset[str]()

    @property
    def url(self) -> str:
        return f"{self.kind}:"

    # Following the table ---------------------------------------------------------------------------------------

    def sync(
        self,
        table: TableDefinition,
        tasks: TaskRunner,  # noqa: ARG002  (there is no work)
        on_registered: Callable[[], None] = lambda: None,
        on_part: Callable[[], None] = lambda: None,  # noqa: ARG002
    ) -> SimpleState:
        timeline = table.load_timeline()
        self._make_durable(table, timeline)
        on_registered()
        return SimpleState(Snapshot(table, timeline))

    def unseen(self, table: TableDefinition) -> tuple[SimpleState, Unseen]:
        return SimpleState(Snapshot.now(table)), Unseen()

    def _make_durable(self, table: TableDefinition, timeline: Timeline) -> None:
        """See to it that what a write builds on, or acknowledges, survives a power cut (P17)."""
        unsynced = [instant for instant in timeline.completed if instant.file_name not in self._durable]
        if unsynced:
            layout = timeline.layout
            table.storage.sync([layout.folder, *(layout.path(instant.file_name) for instant in unsynced)])
        self._durable = frozenset(instant.file_name for instant in timeline.completed)

    # Questions of a writer -------------------------------------------------------------------------------------

    def locator(self, state: IndexState) -> SimpleLocator:
        return SimpleLocator(state.snapshot, self.scope)

    def changes(self, before: IndexState, now: IndexState) -> SimpleChanges | None:
        return changes_between(before.snapshot, now.snapshot, self.scope)

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
    ) -> pa.Table:
        deadline = time.monotonic() + timeout
        distinct = record_keys.unique()
        while True:
            snapshot = whole_snapshot(table)
            try:
                found = SimpleLocator(snapshot, self.scope).locate_all(distinct)
            except CorruptTableError as error:
                if is_whole(snapshot):
                    raise
                if time.monotonic() > deadline:
                    raise IndexNotReadyError(
                        f"files were cleaned again and again while keys were looked up: table={table.location} "
                        f"seconds={timeout:g}; look up again with a longer timeout, or let cleans keep more commits"
                    ) from error
            else:
                return _joined(record_keys, distinct, found)

    # Table services --------------------------------------------------------------------------------------------

    def relocate(self, table: TableDefinition, *, also: bool) -> tuple[str, ...]:  # noqa: ARG002
        return (table.location,)

    def verify_against(
        self,
        table: TableDefinition,
        tasks: TaskRunner,  # noqa: ARG002  (one process finds what stands twice)
        await_synced: Callable[[], IndexState],  # noqa: ARG002
    ) -> VerifyReport:
        while True:
            snapshot = whole_snapshot(table)
            try:
                return verify_keys(snapshot, self.scope)
            except CorruptTableError:
                # Its files may have been cleaned meanwhile.
                if is_whole(snapshot):
                    raise

    def repair_from(self, table: TableDefinition, tasks: TaskRunner) -> VerifyReport:  # noqa: ARG002
        report = verify_keys(whole_snapshot(table), self.scope)
        require_unique(table, self.scope, report)
        return report

    # The index as a whole --------------------------------------------------------------------------------------

    def stats(self) -> IndexStats:
        snapshot = whole_snapshot(self._table.reloaded())
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
        return SimpleIndex, (self._table, self.scope)


def require_unique(table: TableDefinition, scope: Scope, report: VerifyReport) -> None:
    """Raise ``CorruptTableError`` if keys stand in the table more than once."""
    if report.repeated:
        raise CorruptTableError(
            f"record keys stand in the table more than once: table={table.location} scope={scope} "
            f"records={report.repeated} sample={list(report.sample)}; delete these keys and insert their records again"
        )


def _joined(record_keys: pa.Array, distinct: pa.Array, found: pa.Table) -> pa.Table:
    """The locations of each key, in the order of the keys; nulls for a key without one."""
    ordered = found.sort_by([("partition_path", "ascending"), ("file_id", "ascending")])
    places = pc.index_in(ordered.column("record_key").combine_chunks(), value_set=distinct).to_numpy()
    order = np.argsort(places, kind="stable")
    counts = np.bincount(places, minlength=len(distinct))
    starts = np.cumsum(counts) - counts
    codes = pc.index_in(record_keys, value_set=distinct).to_numpy()
    lengths = np.maximum(counts[codes], 1)
    asked = np.repeat(np.arange(len(record_keys)), lengths)
    offsets = np.arange(len(asked)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    is_absent = counts[codes[asked]] == 0
    rows = np.where(is_absent, 0, starts[codes[asked]] + offsets)
    row_of = pa.array(order[rows] if len(order) else rows, mask=is_absent)
    columns = ordered.select(LOCATION_SCHEMA.names[1:]).take(row_of).columns
    return pa.table([record_keys.take(pa.array(asked)), *columns], schema=LOCATION_SCHEMA)
