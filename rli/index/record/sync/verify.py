"""Verify: does the index say what the table says? As of one commit sequence, while writers go on (P31)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rli.errors import IndexNotReadyError
from rli.index.record.entries.purging import floor_of
from rli.index.record.entries.stored_entries import StoredEntries
from rli.index.record.log.state import LogState
from rli.index.record.sync.comparison import Comparison
from rli.index.record.sync.findings import SAMPLE
from rli.index.record.sync.result import FollowedState
from rli.index.reports import VerifyReport
from rli.model import FileGroupId
from rli.tasks import TaskRunner
from rli.telemetry import events
from rli.view.second_look import OVERTAKEN, SecondLook
from rli.view.snapshot import Snapshot
from rli.view.time_travel import is_whole


@dataclass(frozen=True, slots=True)
class State:
    """A table and its index at one moment.

    Attributes:
        snapshot: the table, with a list of all its files.
        log: the commit log, which describes that and no more; all of it is applied.
    """

    snapshot: Snapshot
    log: LogState

    @property
    def sequence(self) -> int:
        """The last commit sequence of that moment."""
        return self.log.head


def whole_state(synced: Callable[[], FollowedState]) -> State:
    """The state of table and index now.

    Args:
        synced: tells up to where the index has followed the timeline.
    """
    second: SecondLook | None = None
    while True:
        found = synced()
        second = second or SecondLook(found.snapshot.table)
        try:
            if is_whole(found.snapshot):
                return State(found.snapshot, found.log)
        except OVERTAKEN as problem:
            second.require_change(problem)


def verify(look: Callable[[], State], index: StoredEntries, tasks: TaskRunner) -> VerifyReport:
    """Compare the index with the table, key by key, both ways. Writers are neither waited for nor kept waiting.

    File groups whose files are cleaned before they are read are compared as of a later sequence.

    Args:
        look: gives the state of table and index.
        index: the index.
        tasks: runs the work on each file slice and on shards.

    Raises:
        CorruptIndexError: an entry has a sequence that the commit log never gave out.
        CorruptTableError: a base file is damaged.
        IndexNotReadyError: the index has not followed the table, or its store has lost entries.
    """
    began = time.monotonic()
    state = look()
    comparison = Comparison(index, tasks, state.sequence, len(state.snapshot.slices))
    left: Iterable[FileGroupId] = [group for group in state.snapshot.slices if group.partition_path in index.partitions]
    while left:
        left = comparison.check(state.snapshot, state.log, left) or comparison.examine(state.snapshot)
        state = look() if left else state
    _require_tombstones(index, state.sequence)
    checks, found = comparison.checks, comparison.differences
    report = VerifyReport(
        records=sum(check.records for check in checks),
        entries=found.entries,
        missing=sum(check.missing for check in checks),
        misplaced=sum(check.misplaced for check in checks),
        dangling=found.dangling,
        sample=(*[key for check in checks for key in check.sample][:SAMPLE], *found.sample[:SAMPLE]),
        repeated=found.repeated,
        newer=sum(check.newer for check in checks),
    )
    _tell(state.snapshot.table.location, index.url, report, time.monotonic() - began)
    return report


def _tell(table: str, index: str, report: VerifyReport, seconds: float) -> None:
    if report.agrees:
        events.INDEX_AGREES.log(table=table, index=index, records=report.records, seconds=seconds)
        return
    events.INDEX_DIFFERS.log(
        table=table,
        index=index,
        records=report.records,
        missing=report.missing,
        misplaced=report.misplaced,
        dangling=report.dangling,
        repeated=report.repeated,
        seconds=seconds,
    )


def _require_tombstones(index: StoredEntries, sequence: int) -> None:
    # Without its tombstone, a key that was deleted later looks as if the index lacked it (P30).
    if floor_of(index) > sequence:
        raise IndexNotReadyError(
            f"a clean removed tombstones of later commits meanwhile: index={index.url} sequence={sequence}",
            remedy="verify again",
        )
