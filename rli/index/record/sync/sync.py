"""Sync: the index follows the table's timeline, which alone says what is true.

First, every completed instant that the index's commit log does not know is registered there, which gives it its
commit sequences. Then every registered commit whose changes may not all be in the index is applied. Both may be
repeated, interrupted and raced: registering is a compare-and-set at the log's head, and applying is idempotent.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from enum import Enum, auto
from functools import partial
from itertools import groupby
from typing import Final

from rli.errors import IndexNotReadyError, StoreRestartedError
from rli.file_group.journal import Journal
from rli.hudi.timeline.instant import Instant
from rli.index.record.entries.stored_entries import StoredEntries
from rli.index.record.log.record import LogRecord
from rli.index.record.log.state import LogState
from rli.index.record.sync.actions import LogActions, RecordActions
from rli.index.record.sync.archived_commits import note_beginning
from rli.index.record.sync.following import AppliedAction, Following, Unrepeatable
from rli.index.record.sync.past import log_and_timeline, settled_timeline, unseen_in
from rli.index.record.sync.result import FollowedState, withdrawn_instants
from rli.index.reports import Unseen
from rli.store.contract import Watermarks
from rli.tasks import TaskRunner
from rli.telemetry import events, metrics
from rli.view.definition import TableDefinition
from rli.view.second_look import OVERTAKEN, SecondLook
from rli.view.snapshot import Snapshot

_ATTEMPTS: Final = 5
_OF_RECORD_INDEX: Final = RecordActions()


class Progress(Enum):
    """How far a sync has come."""

    REGISTERED = auto()
    """Every completed instant has its commit sequence."""
    PART = auto()
    """A part of the changes of a commit is in the index."""


class Sync:
    """Applies every completed instant that an index has not applied, or of which a server of its store lost entries.

    Args:
        table: the table.
        index: its index.
        tasks: runs the work on each journal or file group.
        held: journals that the caller has just written; those that it holds in memory are not read back.
        actions: what the records of the log do to the index.
    """

    def __init__(
        self,
        table: TableDefinition,
        index: StoredEntries,
        tasks: TaskRunner,
        held: Sequence[Journal] = (),
        actions: LogActions = _OF_RECORD_INDEX,
    ) -> None:
        self._table = table
        self._index = index
        self._tasks = tasks
        self._held = {journal.path: journal for journal in held}
        self._actions = actions

    def run(self, tell: Callable[[Progress], None] = lambda _: None) -> FollowedState:
        """Follow the timeline to its end; raises as ``steps``.

        Args:
            tell: called at each step; if it raises, the rest is left to others.
        """
        with closing(self.steps()) as steps:
            while True:
                try:
                    progress = next(steps)
                except StopIteration as end:
                    result: FollowedState = end.value
                    return result
                tell(progress)

    def steps(self) -> Generator[Progress, None, FollowedState]:
        """As ``run``, but stops at each step. A caller that goes away leaves the rest to others.

        Raises:
            IndexNotReadyError: the index was never bootstrapped, or an instant cannot be followed.
            CorruptIndexError: the commit log has lost commits whose entries are in the index.
            StoreRestartedError: a server of its store was restarted in every attempt.
        """
        began = time.monotonic()
        attempts, second = 1, SecondLook(self._table)
        while True:
            try:
                result = yield from self._follow()
            except (*OVERTAKEN, IndexNotReadyError) as problem:
                # Nothing of the failed attempt must be taken back: what it registered and applied is what any other
                # process would have registered and applied.
                # Others may have undone or archived a commit before it was followed here (P44).
                second.require_change(problem)
            except StoreRestartedError:
                # A server may be restarted while we go by what it said before; the next attempt learns what it has
                # lost (P32).
                if attempts == _ATTEMPTS:
                    raise
                attempts += 1
            else:
                self._tell(result, time.monotonic() - began)
                return result

    def require_possible(self) -> None:
        """Pass an index that can follow the table, as far as log and timeline tell: no file of a commit is read.

        Raises:
            IndexNotReadyError: it cannot.
            CorruptIndexError: as ``steps``.
        """
        applied, log = self._index.read_progress()
        least = _require_bootstrapped(self._table, self._index, applied.least)
        log, timeline = log_and_timeline(self._table, self._index, log, lambda _: self._table.load_timeline())
        for record in log.records_after(least):
            self._require_repeatable(record, applied)
        snapshot = Snapshot(self._table, timeline)
        for instant in unseen_in(timeline, log):
            self._actions.to_follow(snapshot, self._index, instant)

    def _require_repeatable(self, record: LogRecord, applied: Watermarks) -> None:
        action = self._actions.of(record)
        if isinstance(action, Unrepeatable):
            action.require_repeatable(self._index, record, applied)

    def _follow(self) -> Generator[Progress, None, FollowedState]:
        while True:
            applied, log = self._index.read_progress()
            _require_bootstrapped(self._table, self._index, applied.least)
            following = self._registered(log)
            yield Progress.REGISTERED
            # From the smallest watermark: one part of the store may have gone back, and the other parts take the
            # repeated entries as old ones.
            records = following.log.records_after(applied.least or 0)
            for record in records:
                action = self._actions.of(record)
                # A record that cannot be repeated must not be counted as applied by the line below.
                self._require_repeatable(record, applied)
                if isinstance(action, AppliedAction):
                    for _ in action.apply(following, record):
                        yield Progress.PART
                # False if a part of the store went back to an earlier state meanwhile: all is looked at again.
                # Commit by commit, not once at the end: look-ups show each commit as soon as it is whole, and a process
                # that dies leaves less to repeat (P8).
                if not self._index.store.mark_applied(applied, record.last_sequence):
                    break
            else:
                return FollowedState(self._index, following.snapshot, following.log, _instants(records))

    def _registered(self, log: LogState) -> Following:
        """Register every completed instant; returns the state of the table, and the commit log that describes it."""
        while True:
            # The log first: what it knows by now has completed by now, so the timeline that is read next shows it. A
            # timeline without a commit whose sequence counts would let that commit be overwritten (P7). Other threads
            # read the log on meanwhile, so from here only the state counts that was given here (P18).
            log, timeline = log_and_timeline(self._table, self._index, log, partial(settled_timeline, self._table))
            snapshot = Snapshot(self._table, timeline)
            # Where another process appends first, timeline and log are read again, in this order. To append the rest
            # behind the other's records would be wrong: the decision was made on a log without them (P18).
            unseen = unseen_in(timeline, log)
            registered = self._register(snapshot, log, unseen)
            if registered is not None:
                if unseen:
                    note_beginning(self._index, timeline)
                return Following(snapshot, self._index, registered, self._tasks, self._held)
            log = self._index.log.refresh()

    def _register(self, snapshot: Snapshot, log: LogState, unseen: Sequence[Instant]) -> LogState | None:
        """Register what the log does not know; returns the log with it, None if another process changed that meanwhile."""
        if unseen:
            # What the index has followed, the table must not lose (P17); who published it may not have got that far.
            layout = snapshot.timeline.layout
            # The folder, too: a commit that has its name may still have it in memory alone, and its writer may have
            # died before its own flush.
            snapshot.table.storage.flush([layout.folder, *(layout.path(instant.file_name) for instant in unseen)])
        # In the order of the timeline. A foreign run is one record, a commit of rli is one each, and none may pass
        # another: a key that moves twice must get its sequences in this order (P2).
        for action, group in groupby(unseen, key=partial(self._actions.to_follow, snapshot, self._index)):
            for instants in action.runs(list(group)):
                # With the log as it grows: a draft asks which commits precede it, those of this loop included.
                draft = action.draft(Following(snapshot, self._index, log, self._tasks), instants)
                appended = self._index.log.append(log, draft)
                if appended is None:
                    return None
                log = appended
        return log

    def _tell(self, result: FollowedState, seconds: float) -> None:
        if not result.applied:
            return
        metrics.APPLIED_COMMITS.add(len(result.applied))
        metrics.SYNC_SECONDS.add(seconds)
        events.SYNC_APPLIED.log(
            table=self._table.location,
            index=self._index.url,
            instants=result.applied,
            sequence=result.sequence,
            seconds=seconds,
        )


def _require_bootstrapped(table: TableDefinition, index: StoredEntries, applied: int | None) -> int:
    """The sequence up to which the index is applied; raises ``IndexNotReadyError`` if it was never bootstrapped."""
    if applied is None:
        raise IndexNotReadyError(
            f"the index has not been bootstrapped: table={table.location} index={index.url}",
            remedy=f"run: {index.rebuilding}",
        )
    return applied


def unseen_instants(table: TableDefinition, index: StoredEntries) -> tuple[FollowedState, Unseen]:
    """The state of table and index, and the instants in which they differ.

    Raises:
        IndexNotReadyError: the index was never bootstrapped, or an instant cannot be followed.
    """
    # First watermark and log, then the timeline: a commit that others apply meanwhile is reported as unseen at worst, and the
    # caller looks again. A watermark that was read behind the log tells of entries that are there, too.
    stored, log = index.applied_and_log()
    applied = _require_bootstrapped(table, index, stored)
    log, timeline = log_and_timeline(table, index, log, lambda _: table.load_timeline())
    unseen = (instant.time for instant in unseen_in(timeline, log))
    unapplied = (*unseen, *_instants(log.records_after(applied)))
    state = FollowedState(index, Snapshot(table, timeline), log, ())
    return state, Unseen(unapplied, tuple(withdrawn_instants(timeline, log)))


def followed_state(table: TableDefinition, index: StoredEntries, await_synced: Callable[[], object]) -> FollowedState:
    """The state of an index that has followed all of the table.

    Args:
        table: the table.
        index: its index.
        await_synced: shows the index all commits of the table, or waits until others have.
    """
    withdrawn: tuple[str, ...] = ()
    while True:
        await_synced()
        # A commit, or a rollback, may have come since. Of a rollback that is there twice, the caller takes no notice.
        state, unseen = unseen_instants(table, index)
        if not unseen.unapplied and unseen.withdrawn == withdrawn:
            return state
        withdrawn = unseen.withdrawn


def _instants(records: Sequence[LogRecord]) -> tuple[str, ...]:
    return tuple(instant for record in records for instant in record.instants)
