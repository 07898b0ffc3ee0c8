"""Taking up a scheduled compaction: one process at a time carries it out, of rli or of Hudi."""

from __future__ import annotations

import math
import posixpath
from dataclasses import dataclass

from rli.commit.announced_instant import AnnouncedInstant
from rli.commit.begun_write import BegunWrite
from rli.commit.exclusive_service import made_ready
from rli.commit.recovery import exclusive
from rli.commit.step_clock import OnStep, StepClock
from rli.coordination.heartbeats import Heartbeats
from rli.coordination.of_table import coordination_of
from rli.errors import RliError
from rli.hudi.timeline.instant import Action
from rli.index.contract import SyncOptions, TableIndex
from rli.model import Step
from rli.publication.instants import TableInstant
from rli.publication.markers import marked_files, remove_markers
from rli.tasks import TaskRunner
from rli.view.caller_metadata import NO_METADATA
from rli.view.definition import TableDefinition


class CompactionTakenError(RliError):
    """Another process carries the compaction out, or has done so."""


@dataclass(frozen=True, slots=True)
class ScheduledInstant:
    """A compaction on the timeline.

    Attributes:
        time: of its instant.
        takes_over: whether it is also taken from a process of Hudi that has begun it and may live.
        patience: seconds; for how long to wait for the lease at most, whenever it is needed.
    """

    time: str
    takes_over: bool = False
    patience: float = math.inf

    def begin(self, table: TableDefinition, index: TableIndex, tasks: TaskRunner, on_step: OnStep) -> BegunWrite:
        """Take it up, as a write that has begun.

        Raises:
            CompactionTakenError: another process carries it out, or has done so, or has unscheduled it.
            LeaseBusyError: the lease was not free in time.
            UnsupportedTableError: rli does not compact such tables.
        """
        clock = StepClock(on_step)
        ready = made_ready(table, index, "recovery before a compaction", patience=self.patience)
        announced = self._taken(ready.table, index)
        begun: BegunWrite | None = None
        try:
            # Behind the taking: no clean removes what a pending instant builds on.
            state = index.sync(ready.table, SyncOptions(tasks))
            begun = BegunWrite(announced, state, index, clock, tasks, caller=NO_METADATA, patience=self.patience)
            clock(Step.REQUESTED)
            announced.on_timeline.begin()
            clock(Step.INFLIGHT)
        except BaseException:
            announced.withdraw()
            raise
        return begun

    def _taken(self, table: TableDefinition, index: TableIndex) -> AnnouncedInstant:
        instant = TableInstant(table, self.time, Action.COMPACTION)
        with exclusive(table, index, "taking up of a compaction", patience=self.patience):
            self._require_pending(instant)
            writers = coordination_of(table, index).writers
            signs = writers.register(self.time)
            if signs is None:
                raise CompactionTakenError(
                    f"another process carries the compaction out: instant={self.time}", remedy="wait for that process"
                )
            try:
                signs = writers.beating(self.time, signs)
                if instant.progress() is not None:
                    _clear_attempt(instant)
            except BaseException:
                signs.release()
                raise
        return AnnouncedInstant(instant, signs)

    def _require_pending(self, instant: TableInstant) -> None:
        if instant.plan() is None or instant.is_completed:
            raise CompactionTakenError(
                f"the compaction is not pending any more: instant={self.time}", remedy="nothing is left to do"
            )
        if instant.progress() is None or self.takes_over:
            return
        if not Heartbeats.of(instant.table).is_silent(instant.pending_paths, self.time):
            raise CompactionTakenError(
                f"a process of Hudi has begun the compaction, and may be at work: instant={self.time}",
                remedy="wait for it; if it has died, take it over: rli compact TABLE --take-over",
            )


def _clear_attempt(instant: TableInstant) -> None:
    """Remove the files of an attempt of another engine, as Hudi does before the next one: those that markers name."""
    storage = instant.table.storage
    left = [path for path in marked_files(storage, instant.time) if f"_{instant.time}." in posixpath.basename(path)]
    storage.discard_files(left)
    storage.flush(folders={*map(posixpath.dirname, left)})
    remove_markers(instant.table, instant.time)
    instant.stop()
