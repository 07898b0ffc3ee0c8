"""Which instants must stay, and for whom: readers, savepoints, writers at work, and an index that is behind.

Clean, purge, archive and recovery ask here how far they may go, and reads whether it is all there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rli.errors import CorruptTableError
from rli.hudi.timeline.instant import Action, Instant
from rli.hudi.timeline.timeline import Timeline


@dataclass(frozen=True, slots=True)
class KeptInstants:
    """What a timeline must keep.

    Attributes:
        timeline: the timeline; the caller holds the lease.
    """

    timeline: Timeline

    @property
    def at_work(self) -> list[str]:
        """The instants of writes that may still be published."""
        pending = [instant.time for instant in self.timeline.pending if instant.is_write]
        return [time for time in pending if not self.timeline.is_undone(time)]

    @property
    def saved(self) -> list[str]:
        """The commits that savepoints keep."""
        return [instant.time for instant in self.timeline.savepoints]

    def require_saved(self, as_of: str | None = None, *, has_archive: Callable[[], bool]) -> None:
        """Pass a timeline that shows each commit that a savepoint keeps, or has archived it.

        Args:
            as_of: time of the latest commit that matters; None for all.
            has_archive: tells whether instants have left the active timeline.

        Raises:
            CorruptTableError: the file of such a commit is empty or gone: without it, an earlier state would pass for this one.
        """
        shown = self.timeline.write_times
        for time in self.saved:
            if time in shown or (as_of is not None and time > as_of):
                continue
            # Hudi archives commits with savepoints if ``hoodie.archive.beyond.savepoint`` is set.
            if not (self.timeline.is_archived(time) and has_archive()):
                raise broken_saved_commit(time, f"{time}.*")

    def earliest_readable(self, keep_commits: int) -> Instant | None:
        """The oldest commit as of which the table can be read, besides savepoints; None in a table without commits.

        Args:
            keep_commits: how many commits stay readable. It goes further back where a pending write began before those: the
                write builds on what was there then.
        """
        writes = self.timeline.completed_writes
        if not writes:
            return None
        kept = min(writes[-keep_commits:], key=_time_of)
        pending = min(self.at_work, default=None)
        if pending is None:
            return kept
        # By completion: the pending write builds on what was completed when it was requested, not on what had begun by
        # then.
        before = [instant for instant in writes if (instant.completion_time or instant.time) < pending]
        return min(kept, before[-1] if before else writes[0], key=_time_of)

    def earliest_journal(self, earliest: Instant) -> str:
        """The oldest instant whose journals stay.

        Args:
            earliest: the oldest readable commit.
        """
        # A write at work may be older than all commits and have its journals already. A restore to a savepoint needs those of
        # all later commits.
        return min([earliest.time, *self.at_work, *self.saved])

    def earliest_delete(self, earliest: Instant) -> str:
        """The oldest commit whose deletes an index remembers; the argument is that of ``earliest_journal``."""
        return min([earliest.time, *self.saved])

    def earliest_active(self, earliest: Instant) -> str:
        """The time from which on nothing leaves the active timeline; the argument is that of ``earliest_journal``."""
        limits = [earliest.time, *map(self._newest_beside, self.saved)]
        limits += [instant.time for instant in self.timeline.pending if instant.action != Action.SAVEPOINT]
        return min(limits)

    def _newest_beside(self, saved: str) -> str:
        """The commit that stays on the active timeline beside one that a savepoint keeps, for when no other is left."""
        return max((write.time for write in self.timeline.unsaved_writes if write.time < saved), default="")


def broken_saved_commit(instant: str, file: str) -> CorruptTableError:
    """The error about a commit of which something is missing, although a savepoint keeps it.

    Args:
        instant: of the commit and of the savepoint.
        file: what is missing, empty or cut short.
    """
    return CorruptTableError(
        f"a savepoint keeps a commit that is not whole any more: instant={instant} savepoint={instant} file={file}",
        remedy="restore the file from a backup, or give the commit up: rli savepoint TABLE INSTANT --delete, and the next "
        "write rolls back what a power cut has torn",
    )


def _time_of(instant: Instant) -> str:
    return instant.time
