"""The state of an index that keeps nothing of its own: the table's."""

from __future__ import annotations

from dataclasses import dataclass

from rli.hudi.timeline.timeline import Timeline
from rli.view.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class TableState:
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
