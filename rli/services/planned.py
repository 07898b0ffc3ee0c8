"""Services that are announced before they change the table, so that whoever holds the lease next can finish them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, Generic, Protocol, TypeVar

from rli.hudi.timeline.timeline import Timeline
from rli.publication.fence import Fence
from rli.publication.instants import TableInstant
from rli.telemetry import events
from rli.view import paths
from rli.view.definition import TableDefinition

Done = TypeVar("Done")


@dataclass(frozen=True, slots=True)
class Finished:
    """Services of dead processes that were finished.

    Attributes:
        instants: by action, and by the commit that a caller names: the instant of the service.
    """

    instants: dict[tuple[str, str], str] = field(default_factory=dict)

    def of(self, action: str) -> dict[str, str]:
        """For each commit that services of an action were called for, the instant of the service."""
        return {commit: instant for (found, commit), instant in self.instants.items() if found == action}

    def __or__(self, other: Finished) -> Finished:
        return Finished(self.instants | other.instants)


class AnnouncedService(Protocol):
    """A service whose announcement tells every later holder of the lease that it may be unfinished."""

    action: ClassVar[str]
    """What its announcements are named by, see ``paths.announcement``."""

    def resume(self, table: TableDefinition, instant_time: str, fence: Fence) -> Finished:
        """Finish or drop what an announcement names; may be repeated. The caller holds the lease.

        Args:
            table: the table.
            instant_time: in the name of the announcement.
            fence: of the caller.
        """


class PlannedService(AnnouncedService, ABC, Generic[Done]):
    """A service with a plan on the timeline: announced by the fence, carried out, and completed.

    A subclass says how a plan is carried out. The plan itself is made by a function beside it, under the lease.
    """

    action: ClassVar[str]
    """Of its instants."""

    def announce(self, plan: bytes, timeline: Timeline, fence: Fence) -> TableInstant:
        """Put a plan on the timeline; from then on every holder of the lease carries it out.

        Args:
            plan: content of the requested instant.
            timeline: loaded under the lease.
            fence: of the caller.

        Raises:
            LeaseLostError: another writer took the lease over; nothing was announced.
        """
        announced = TableInstant(fence.table, timeline.next_time(fence.table.now()), self.action)
        fence.announce(announced, plan)
        return announced

    def finish(self, announced: TableInstant, fence: Fence) -> Done:
        """Carry out what was announced, and complete it; may be repeated. The caller holds the lease."""
        done = self._carry_out(announced, fence)
        announced.table.storage.delete_files([paths.announcement(announced.time, self.action)])
        return done

    def resume(self, table: TableDefinition, instant_time: str, fence: Fence) -> Finished:
        """Finish what a dead process announced, if its plan is on the timeline. The caller holds the lease."""
        announced = TableInstant(table, instant_time, self.action)
        if announced.plan() is None:
            # From here on nobody else can announce it, and it may just have been.
            table.storage.settle(paths.announcement(instant_time, self.action))
            if announced.plan() is None:
                return Finished()
        events.SERVICE_FINISHED.log(table=table.location, instant=instant_time, action=self.action)
        commit = self._commit_of(self.finish(announced, fence))
        return Finished() if commit is None else Finished({(self.action, commit): instant_time})

    @abstractmethod
    def _carry_out(self, announced: TableInstant, fence: Fence) -> Done:
        """Do what the plan says, as far as it is not done, and complete the instant."""

    def _commit_of(self, done: Done) -> str | None:  # noqa: ARG002  (for subclasses)
        """The commit that a caller named, to tell a repeated call that its service was finished; None for no commit."""
        return None
