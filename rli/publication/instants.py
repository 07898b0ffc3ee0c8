"""The steps of one instant on the timeline of a table. Nothing else in rli writes the timeline."""

from __future__ import annotations

from dataclasses import dataclass

from rli.hudi.timeline.instant import Action
from rli.hudi.timeline.timeline import Timeline
from rli.hudi.timeline.writing import TimelineWriter
from rli.storage import Draft
from rli.view.definition import TableDefinition


@dataclass(frozen=True, slots=True)
class TableInstant:
    """An instant of a table, whether or not it is on the timeline yet.

    ``request`` and ``begin`` need no lease: each creates a file that nobody else creates. For every other step, the caller
    holds the lease, or undoes a write that nobody can publish any more.

    Attributes:
        table: the table.
        time: of the instant.
        action: of the completed instant, such as ``commit``.
    """

    table: TableDefinition
    time: str
    action: str

    def __str__(self) -> str:
        return f"{self.action}={self.time}"

    @property
    def _writer(self) -> TimelineWriter:
        return TimelineWriter(self.table.storage, self.table.timeline_layout)

    @property
    def pending_paths(self) -> list[str]:
        """The files of the timeline that say how far the instant got before its completion, the furthest first."""
        return self._writer.pending_paths(self.time, self.action)

    @property
    def is_completed(self) -> bool:
        """Whether the instant is part of the table."""
        return self._writer.is_completed(self.time, self.action)

    def plan(self) -> bytes | None:
        """The content of the request; None if the instant is not requested."""
        return self._writer.requested(self.time, self.action)

    def progress(self) -> bytes | None:
        """The content of the inflight state; None if no work has begun."""
        return self._writer.started(self.time, self.action)

    def content(self) -> bytes | None:
        """The content of the completed instant; None if it is not completed."""
        return self._writer.completed(self.time, self.action)

    def request(self) -> bool:
        """Announce the instant without a plan; False if the time is taken."""
        return self._writer.request(self.time, self.action)

    def begin(self) -> None:
        """Say that work on the requested instant begins."""
        self._writer.start(self.time, self.action)

    def announce_from(self, plan: Draft) -> None:
        """Announce the instant with a plan; raises ``FileNotFoundError`` if the draft was retracted."""
        self._writer.request_from(plan, self.time, self.action)

    def begin_from(self, content: Draft) -> None:
        """Say that work begins, with a content; raises as ``announce_from``."""
        self._writer.start_from(content, self.time, self.action)

    def complete_from(self, content: Draft, timeline: Timeline) -> None:
        """Publish the instant, all or nothing, unless it is published; raises as ``announce_from``.

        What the caller does next, ``flush`` or a sync of the index, makes that survive a power cut.

        Args:
            content: of the completed instant.
            timeline: loaded under the lease: the completion time comes after all of its times.
        """
        # No flush here. A crash before the flush loses a commit that was not acknowledged, and no index registers it
        # before it has flushed the timeline itself (P17).
        self._writer.publish(content, self.time, self.action, timeline.next_time(self.table.now()))

    def flush(self) -> None:
        """Make the states of the timeline survive a power cut."""
        self._writer.flush()

    def withdraw(self) -> None:
        """Take the publication back: the instant is inflight again, its files are no longer visible."""
        self._writer.withdraw(self.time, self.action)

    def withdraw_content(self, content: bytes) -> None:
        """Take the publication of this content back; another one stays."""
        self._writer.withdraw_content(self.time, self.action, content)

    def stop(self) -> None:
        """Say that work on the instant has ended without a result: the instant is requested again."""
        self._writer.stop(self.time, self.action)

    def drop(self) -> None:
        """Remove the pending states of an instant that is not to be completed, for good."""
        self._writer.remove_pending(self.time, self.action)
        self._writer.flush()

    def remove(self) -> None:
        """Remove the instant in all its states, the furthest first."""
        self._writer.remove(self.time, self.action)

    def remove_for_good(self) -> None:
        """Remove the instant, and the plan that it has carried out if it is a compaction: else the plan would be pending again."""
        self.remove()
        if self.action == Action.COMMIT and not self.table.properties.is_copy_on_write:
            self._writer.remove_pending(self.time, Action.COMPACTION)
