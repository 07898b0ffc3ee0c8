"""Compaction: file slices with log files get a new base file, in which the records of both are merged.

No record changes, nor its place: an index has nothing to follow. A plan on the timeline says which files are merged
(``rli.services.compaction``). Whoever takes the plan up works without the lease: other writers append to the same file groups
meanwhile, and their log files count behind the new base files.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import pyarrow as pa

from rli.commit.begun_write import BegunWrite
from rli.commit.conflicts import ReadSet
from rli.commit.exclusive_service import table_service
from rli.commit.prepared_write import PreparedWrite
from rli.commit.retries import write_until_published
from rli.commit.step_clock import OnStep
from rli.commit.taken_compaction import CompactionTakenError, ScheduledInstant
from rli.file_group.write_context import FileGroupResult
from rli.hudi.table_features import require_compactable
from rli.hudi.timeline.commit_metadata import COMPACT
from rli.hudi.timeline.compaction_plan import CompactionPlan
from rli.index.contract import TableIndex
from rli.model import CommitResult, Step, WriteCounts
from rli.services.compaction import (
    CompactionChoice,
    CompactionResult,
    foretold_schedule,
    schedule_compaction,
    with_compaction,
)
from rli.tasks import TaskRunner
from rli.telemetry import metrics
from rli.view.definition import TableDefinition
from rli.view.planned_rewrites import PendingCompaction, pending_compactions
from rli.write.rewrites.file_group_compaction import compact_file_group, planned_slices


@dataclass(frozen=True, slots=True)
class Compactions:
    """Carries out the pending compactions of a table, and schedules one if none is pending; see ``Table.compact``.

    Attributes:
        tasks: run the work on each file group.
        attempts: as for a write.
        on_step: as for a write.
        choice: of the file slices to compact where none are scheduled.
        takes_over: see ``ScheduledInstant``.
        patience: seconds; for how long to wait for the lease at most, whenever it is needed.
    """

    tasks: TaskRunner
    attempts: int
    on_step: OnStep
    choice: CompactionChoice
    takes_over: bool = False
    patience: float = math.inf

    def run(self, table: TableDefinition, index: TableIndex) -> CompactionResult:
        """Compact.

        Raises:
            ConflictError: every attempt was in conflict with other writers.
            LeaseBusyError: the lease was not free in time.
            UnsupportedTableError: rli does not compact such tables.
        """
        require_compactable(table.properties)
        done, pending = CompactionResult(), _compactions(table)
        if not pending:
            with table_service(table, index, "schedule of a compaction", patience=self.patience) as (_, fence):
                scheduled = schedule_compaction(fence, self.choice)
            done = replace(done, held_back_by=scheduled.held_back_by)
            pending = _compactions(table)
        for one in pending:
            try:
                result = self._carried_out(table, index, one.instant.time)
            except CompactionTakenError:
                done = replace(done, left=(*done.left, one.instant.time))
                continue
            metrics.SERVICES.add(1, service="compaction")
            done = with_compaction(done, one.instant.time, one.plan.operations, result.written_bytes)
        return done

    def _carried_out(self, table: TableDefinition, index: TableIndex, instant: str) -> CommitResult:
        scheduled = ScheduledInstant(instant, self.takes_over, self.patience)
        compaction = Compaction(self.tasks)
        return write_until_published(
            table,
            partial(scheduled.begin, table, index, self.tasks, self.on_step),
            compaction.prepare,
            self.attempts,
            compaction.name,
        ).result


@dataclass(frozen=True, slots=True)
class Compaction:
    """Carries out one plan: the work of each attempt, as an ``Operation`` has it, without rows of a caller.

    Attributes:
        tasks: run the pieces.
    """

    name: ClassVar[str] = COMPACT

    tasks: TaskRunner

    def prepare(self, write: BegunWrite) -> PreparedWrite:
        """Have the tasks write the new base files; may be called again for another attempt.

        Raises:
            CorruptTableError: the plan, or a file that it names, is missing or damaged.
        """
        schema = write.snapshot.schema or pa.schema([])
        content = write.announced.on_timeline.plan()
        plan = CompactionPlan.from_avro(content or b"", f"{write.instant}.compaction.requested")
        slices = planned_slices(write.snapshot, plan.operations)
        write.on_step(Step.RESOLVED)
        results = list[FileGroupResult]()
        for result in self.tasks.run(partial(compact_file_group, write.context(schema)), slices):
            results.append(result)
            write.on_step(Step.FILE_GROUP_WRITTEN)
        write.on_step(Step.WRITTEN)
        return PreparedWrite(results, schema, self.name, WriteCounts(), ReadSet(frozenset()))


def foretold_compactions(table: TableDefinition, choice: CompactionChoice) -> CompactionResult:
    """What a compaction would do now. Nothing is changed, and no lease is needed.

    Raises:
        UnsupportedTableError: rli does not compact such tables.
    """
    require_compactable(table.properties)
    told = CompactionResult(dry_run=True)
    pending = _compactions(table)
    for one in pending:
        told = with_compaction(told, one.instant.time, one.plan.operations)
    if pending:
        return told
    planned = foretold_schedule(table, choice)
    return replace(
        told,
        file_groups=planned.file_groups,
        log_files=planned.log_files,
        read_bytes=planned.log_bytes + planned.base_bytes,
        held_back_by=planned.held_back_by,
    )


def _compactions(table: TableDefinition) -> list[PendingCompaction]:
    return [one for one in pending_compactions(table.load_timeline()) if one.makes_base_files]
