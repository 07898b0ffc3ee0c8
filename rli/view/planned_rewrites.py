"""File groups that pending clusterings and compactions of other engines are going to rewrite.

A clustering replaces the slices of its plan, whatever was written to them since the plan was made. So, like Hudi's own writers, a
write changes no file group of a pending clustering. Log files may be appended to a file group whose compaction was planned before;
Hudi's writers only give way to a compaction that was planned after they began.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rli.hudi.timeline.instant import Action, Instant, InstantState
from rli.hudi.timeline.requested_plans import groups_to_compact, groups_to_replace
from rli.hudi.timeline.timeline import Timeline
from rli.model import FileGroupId

_REPLACING: Final = frozenset[str]({Action.REPLACE_COMMIT, Action.CLUSTERING})


def reserved_groups(timeline: Timeline) -> Mapping[FileGroupId, Instant]:
    """The file groups of pending clusterings, each with the instant of the clustering.

    Raises:
        CorruptTableError: a plan cannot be read; names the file.
    """
    return {
        group: instant
        for instant in timeline.pending
        if instant.action in _REPLACING and instant.time not in timeline.undone
        for group in groups_to_replace(*_plan(timeline, instant))
    }


def compacted_after(timeline: Timeline, began: str) -> Mapping[FileGroupId, Instant]:
    """The file groups of pending compactions that were planned after an instant; as ``reserved_groups``."""
    return {
        group: instant
        for instant in timeline.pending
        if instant.action == Action.COMPACTION and instant.time > began
        for group in groups_to_compact(*_plan(timeline, instant))
    }


def _plan(timeline: Timeline, instant: Instant) -> tuple[bytes, str]:
    """Content and path of a plan; no content if the instant has ended meanwhile."""
    path = timeline.layout.pending_path(instant.time, instant.action, InstantState.REQUESTED)
    return timeline.storage.read_bytes(path) or b"", path
