"""What a sync of an index with the timeline found."""

from __future__ import annotations

from dataclasses import dataclass

from rli.hudi.timeline.timeline import Timeline
from rli.index.record.entries.locator import RecordChanges, RecordLocator
from rli.index.record.entries.stored_entries import StoredEntries
from rli.index.record.log.state import LogState
from rli.view.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class FollowedState:
    """What a sync found.

    Attributes:
        index: that has followed it.
        snapshot: the table that the index now follows.
        log: the commit log as of that timeline.
        applied: the instants that were applied.
    """

    index: StoredEntries
    snapshot: Snapshot
    log: LogState
    applied: tuple[str, ...]

    @property
    def timeline(self) -> Timeline:
        """The timeline of the snapshot."""
        return self.snapshot.timeline

    @property
    def sequence(self) -> int:
        """The last commit sequence of the timeline: a snapshot of the index."""
        return self.log.head

    @property
    def withdrawn(self) -> tuple[str, ...]:
        """Commits that the index has followed and that are being rolled back: of them it holds entries, the timeline none."""
        return tuple(withdrawn_instants(self.timeline, self.log))

    def locator(self) -> RecordLocator:
        return RecordLocator(self.index, self.sequence, self.index.cutoff(self.log))

    def locator_at(self, instant: str) -> RecordLocator:
        return RecordLocator(self.index, self.sequence, self.expired_before(instant))

    def expired_before(self, instant: str) -> str | None:
        return self.index.cutoff(self.log, instant)

    def changes_since(self, before: FollowedState) -> RecordChanges | None:
        later = self.log.records_after(before.sequence)
        if not later:
            return None
        instants = sorted({instant for record in later for instant in record.instants})
        return RecordChanges(self.index, before.sequence, self.snapshot.table.storage, tuple(instants))


def withdrawn_instants(timeline: Timeline, log: LogState) -> list[str]:
    """Commits that the index has followed and that are pending again, because they are being rolled back."""
    # Of a clustering that it has rolled back, Hudi leaves the plan.
    pending = (instant for instant in timeline.pending if instant.is_write and not timeline.is_undone(instant.time))
    return [instant.time for instant in pending if instant.time in log.instants]
