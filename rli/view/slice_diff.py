"""What commits found when they first changed a file group: needed to compare two states of a table."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from rli.model import FileGroupId
from rli.view.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class FirstChange:
    """The first of some commits' changes of a file group.

    Attributes:
        built_on: instant of the version that was rewritten; None for a new file group, and where nobody says.
        is_replacement: whether the file group was replaced as a whole; nobody says which version it had then.
    """

    built_on: str | None
    is_replacement: bool


def first_changes(snapshot: Snapshot, seen: Container[str]) -> dict[FileGroupId, FirstChange]:
    """The file groups that the completed writes of a snapshot changed, but for those at the instants of ``seen``."""
    found: dict[FileGroupId, FirstChange] = {}
    for instant in snapshot.timeline.completed_writes:
        if instant.time in seen:
            continue
        change = snapshot.change(instant)
        for stat in change.written:
            found.setdefault(stat.group, FirstChange(stat.previous_instant, is_replacement=False))
        for group in change.replaced:
            found.setdefault(group, FirstChange(None, is_replacement=True))
    return found
