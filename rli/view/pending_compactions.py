"""Compactions that are scheduled and not completed, of any engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rli.hudi.timeline.compaction_plan import CompactionPlan
from rli.hudi.timeline.instant import Action, InstantState
from rli.hudi.timeline.timeline import Timeline
from rli.view.definition import TableDefinition

_PLANNED: Final = frozenset[str]({Action.COMPACTION, Action.LOG_COMPACTION})


@dataclass(frozen=True, slots=True)
class PendingCompaction:
    """A compaction, or a log compaction, that is on the timeline and not completed.

    Attributes:
        instant: its time.
        action: ``compaction`` or ``logcompaction``.
        plan: which files it merges.
    """

    instant: str
    action: str
    plan: CompactionPlan


def pending_compactions(table: TableDefinition, timeline: Timeline) -> list[PendingCompaction]:
    """The pending compactions of a timeline, the oldest first.

    Raises:
        CorruptTableError: a plan is damaged; names its file.
    """
    found = []
    for instant in timeline.pending:
        if instant.action not in _PLANNED:
            continue
        path = timeline.layout.pending_path(instant.time, instant.action, InstantState.REQUESTED)
        content = table.storage.read_bytes(path)
        # Else another process has unscheduled it since the timeline was loaded.
        if content is not None:
            found.append(PendingCompaction(instant.time, instant.action, CompactionPlan.from_avro(content, path)))
    return found
