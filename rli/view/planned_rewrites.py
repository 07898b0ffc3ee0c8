"""The file groups that pending clusterings and compactions are going to rewrite, by the plans on the timeline.

A clustering replaces the slices of its plan, whatever was written to them since the plan was made. So, like Hudi's own writers, a
write changes no file group of a pending clustering. Log files may be appended to a file group whose compaction was planned before.
A write gives way to a compaction that was planned after it began, like Hudi's writers, and to one that it did not know.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Final

from rli.hudi.timeline.clustering_plan import groups_to_replace
from rli.hudi.timeline.compaction_plan import CompactionPlan
from rli.hudi.timeline.instant import Action, Instant, InstantState
from rli.hudi.timeline.timeline import Timeline
from rli.model import FileGroupId

_REPLACING: Final = frozenset[str]({Action.REPLACE_COMMIT, Action.CLUSTERING})
_COMPACTING: Final = frozenset[str]({Action.COMPACTION, Action.LOG_COMPACTION})


@dataclass(frozen=True, slots=True)
class PendingCompaction:
    """A compaction, or a log compaction, that is on the timeline and not completed, of any engine.

    Attributes:
        instant: on the timeline.
        plan: which files it merges.
    """

    instant: Instant
    plan: CompactionPlan

    @property
    def makes_base_files(self) -> bool:
        """Whether it writes base files; a log compaction writes log files."""
        return self.instant.action == Action.COMPACTION


def reserved_groups(timeline: Timeline) -> Mapping[FileGroupId, Instant]:
    """The file groups of pending clusterings, each with the instant of the clustering.

    Raises:
        CorruptTableError: a plan cannot be read; names the file.
    """
    return {
        group: instant
        for instant in timeline.pending
        if instant.action in _REPLACING and not timeline.is_undone(instant.time)
        for group in groups_to_replace(_plan(timeline, instant) or b"", _path(timeline, instant))
    }


def pending_compactions(timeline: Timeline) -> list[PendingCompaction]:
    """The pending compactions and log compactions of a timeline, the oldest first.

    Raises:
        CorruptTableError: a plan cannot be read; names the file.
    """
    found = ((instant, _plan(timeline, instant)) for instant in timeline.pending if instant.action in _COMPACTING)
    return [
        PendingCompaction(instant, CompactionPlan.from_avro(content, _path(timeline, instant)))
        for instant, content in found
        # Else the instant has ended since the timeline was loaded.
        if content is not None
    ]


def compacted_groups(timeline: Timeline, known: Container[str] = ()) -> Mapping[FileGroupId, Instant]:
    """The file groups of pending compactions but for those with the times of ``known``; as ``reserved_groups``."""
    return {
        group: one.instant
        for one in pending_compactions(timeline)
        if one.makes_base_files and one.instant.time not in known
        for group in one.plan.groups
    }


def _plan(timeline: Timeline, instant: Instant) -> bytes | None:
    return timeline.storage.read_bytes(_path(timeline, instant))


def _path(timeline: Timeline, instant: Instant) -> str:
    return timeline.layout.pending_path(instant.time, instant.action, InstantState.REQUESTED)
