"""Scheduling of compactions: which file slices get a new base file, as a plan on the timeline that rli and Hudi carry out.

A plan names the log files of completed commits alone. In table versions 8 and 9, log files of commits that complete later count behind
the new base file. Table version 6 keeps no completion times, so nothing is scheduled there while a write is pending: its log files
would be taken for files that the compaction has merged.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from rli.errors import InvalidInputError
from rli.hudi.table_features import require_compactable
from rli.hudi.timeline.compaction_plan import CompactionOperation, CompactionPlan
from rli.hudi.timeline.instant import Action
from rli.hudi.timeline.timeline import Timeline
from rli.publication.fence import Fence
from rli.publication.instants import TableInstant
from rli.telemetry import events, metrics
from rli.view.definition import TableDefinition
from rli.view.depth import told_depth
from rli.view.file_slices import FileSlice
from rli.view.planned_rewrites import pending_compactions, reserved_groups
from rli.view.snapshot import Snapshot, told_of_now


@dataclass(frozen=True, slots=True)
class CompactionChoice:
    """Which file slices with log files to compact: those where a reader gains most, first.

    Attributes:
        least_share: bytes of log files for each byte of the base file, below which a slice is left alone. A slice without a base
            file is always taken.
        most_bytes: that one compaction reads, but always one slice; None for no limit.
        bytes_for_opening: that each log file counts for, in addition to its own bytes.
    """

    least_share: float = 0.0
    most_bytes: int | None = None
    bytes_for_opening: int = 0

    def of(self, slices: Iterable[FileSlice]) -> list[FileSlice]:
        """The chosen ones, in the order of partitions and file groups."""
        deep = sorted(
            (one for one in slices if one.logs and self._share(one) >= self.least_share),
            key=lambda one: (-self._share(one), one.group),
        )
        sizes = accumulate(one.size for one in deep)
        taken = [
            one
            for number, (one, size) in enumerate(zip(deep, sizes, strict=True))
            if self.most_bytes is None or number == 0 or size <= self.most_bytes
        ]
        return sorted(taken, key=lambda one: one.group)

    def _share(self, file_slice: FileSlice) -> float:
        """Bytes of log files, with those for their opening, for each byte of the base file; infinite without a base file."""
        logs = sum(log.size + self.bytes_for_opening for log in file_slice.logs)
        return logs / file_slice.base.size if file_slice.base is not None and file_slice.base.size else float("inf")


def compaction_choice(least_share: float, most_bytes: int | None) -> CompactionChoice:
    """A caller's choice; raises ``InvalidInputError`` for one that chooses nothing."""
    if not least_share >= 0:
        raise InvalidInputError(f"a share is no less than 0: least_share={least_share}", remedy="give 0 or more")
    if most_bytes is not None and most_bytes < 1:
        raise InvalidInputError(f"most_bytes must be at least 1: most_bytes={most_bytes}", remedy="give bytes")
    return CompactionChoice(least_share, most_bytes)


@dataclass(frozen=True, slots=True)
class ScheduledCompaction:
    """What was scheduled.

    Attributes:
        instant: of the compaction; None if nothing was scheduled.
        file_groups: that get a new base file.
        log_files: that it merges.
        log_bytes: of these.
        base_bytes: of the base files that it reads.
        held_back_by: the pending instant that must end first; None if nothing holds the compaction back.
        dry_run: whether nothing was done.
    """

    instant: str | None
    file_groups: int
    log_files: int
    log_bytes: int
    base_bytes: int
    held_back_by: str | None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """What compactions did.

    Attributes:
        instants: of the compactions, the oldest first; none if there was nothing to compact.
        file_groups: that have a new base file.
        log_files: that were merged.
        read_bytes: of the base files and log files that were merged.
        written_bytes: of the new base files.
        left: instants of pending compactions that another process carries out, or may be carrying out.
        held_back_by: the pending instant that must end before a compaction is scheduled; None if nothing holds it back.
        dry_run: whether it only told what it would do.
    """

    instants: tuple[str, ...] = ()
    file_groups: int = 0
    log_files: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    left: tuple[str, ...] = ()
    held_back_by: str | None = None
    dry_run: bool = False


def with_compaction(
    done: CompactionResult, instant: str, operations: Sequence[CompactionOperation], written: int = 0
) -> CompactionResult:
    """A result with one compaction more.

    Args:
        done: the result.
        instant: of the compaction.
        operations: of its plan.
        written: bytes of the new base files.
    """
    return replace(
        done,
        instants=(*done.instants, instant),
        file_groups=done.file_groups + len(operations),
        log_files=done.log_files + sum(len(operation.log_files) for operation in operations),
        read_bytes=done.read_bytes + sum(operation.read_bytes for operation in operations),
        written_bytes=done.written_bytes + written,
    )


def schedule_compaction(fence: Fence, choice: CompactionChoice) -> ScheduledCompaction:
    """Put the plan of a compaction on the timeline, if there is something to compact.

    Args:
        fence: of the caller, who holds the lease.
        choice: of file slices.

    Raises:
        CorruptTableError: the plan of another compaction is damaged.
        LeaseLostError: another process took the lease over; nothing was scheduled.
        UnsupportedTableError: rli does not compact such tables.
    """
    snapshot = Snapshot.now(fence.table)
    planned, held_back_by = _planned(snapshot, choice)
    if not planned or held_back_by is not None:
        return _told(None, planned, held_back_by)
    instant = TableInstant(fence.table, snapshot.timeline.next_time(fence.table.now()), Action.COMPACTION)
    fence.schedule(instant, CompactionPlan(tuple(planned), keeps_meta_columns=True).to_avro())
    done = _told(instant.time, planned, None)
    metrics.SERVICES.add(1, service="schedule of a compaction")
    events.COMPACTION_SCHEDULED.log(
        table=fence.table.location,
        instant=done.instant,
        file_groups=done.file_groups,
        log_files=done.log_files,
        log_bytes=done.log_bytes,
        base_bytes=done.base_bytes,
    )
    return done


def foretold_schedule(table: TableDefinition, choice: CompactionChoice) -> ScheduledCompaction:
    """What would be scheduled now. Nothing is changed, and no lease is needed; raises as ``schedule_compaction``."""
    planned, held_back_by = told_of_now(table, lambda snapshot: _planned(snapshot, choice))
    return _told(None, planned, held_back_by, dry_run=True)


def _told(
    instant: str | None, planned: Sequence[CompactionOperation], held_back_by: str | None, *, dry_run: bool = False
) -> ScheduledCompaction:
    return ScheduledCompaction(
        instant=instant,
        file_groups=len(planned),
        log_files=sum(len(operation.log_files) for operation in planned),
        log_bytes=sum(operation.log_bytes for operation in planned),
        base_bytes=sum(operation.base_bytes for operation in planned),
        held_back_by=held_back_by,
        dry_run=dry_run,
    )


def _planned(snapshot: Snapshot, choice: CompactionChoice) -> tuple[list[CompactionOperation], str | None]:
    """The operations of a plan, and the pending instant that must end before it is scheduled."""
    require_compactable(snapshot.table.properties)
    pending = pending_compactions(snapshot.timeline)
    reserved = frozenset(reserved_groups(snapshot.timeline)).union(*(one.plan.groups for one in pending))
    slices = dict(snapshot.slices.items())
    told_depth(snapshot.table.location, slices.values())
    free = (one for group, one in slices.items() if group not in reserved)
    planned = [_operation(one) for one in choice.of(free)]
    return planned, _in_the_way(snapshot.timeline) if planned else None


def _in_the_way(timeline: Timeline) -> str | None:
    """The pending instant that must end before a compaction is scheduled."""
    if timeline.layout.keeps_completion_times:
        return None
    planned = {Action.COMPACTION, Action.LOG_COMPACTION}
    return next((one.time for one in timeline.pending if one.is_write and one.action not in planned), None)


def _operation(file_slice: FileSlice) -> CompactionOperation:
    base = file_slice.base
    return CompactionOperation(
        partition_path=file_slice.group.partition_path,
        file_id=file_slice.group.file_id,
        base_file=None if base is None else posixpath.basename(base.path),
        base_instant=file_slice.instant,
        log_files=tuple(posixpath.basename(log.path) for log in file_slice.logs),
        log_bytes=sum(log.size for log in file_slice.logs),
        base_bytes=0 if base is None else base.size,
    )
