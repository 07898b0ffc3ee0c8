"""The outcome of one attempt to write. It is a value: whoever gets it need not ask again whether the write was published."""

from __future__ import annotations

from dataclasses import dataclass

from rli.errors import ConflictError, UndecidedCommitError, VoidAttemptError
from rli.hudi.timeline.timeline import Timeline
from rli.model import CommitResult


@dataclass(frozen=True, slots=True)
class NotPublished:
    """Nothing of the attempt is in the table.

    Attributes:
        reason: why.
    """

    reason: Exception

    @property
    def may_be_repeated(self) -> bool:
        """Whether another attempt, with a snapshot of its own, may succeed."""
        return isinstance(self.reason, ConflictError | VoidAttemptError)


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The write changed nothing, so nothing was committed.

    Attributes:
        result: for the caller, without an instant.
    """

    result: CommitResult


@dataclass(frozen=True, slots=True)
class Published:
    """The write is part of the table, whatever failed after that.

    Attributes:
        result: for the caller; it says whether the index is behind.
        timeline: with this commit; None if the index has not followed it.
    """

    result: CommitResult
    timeline: Timeline | None


@dataclass(frozen=True, slots=True)
class Undecided:
    """The next holder of the lease decides whether the write is published.

    Attributes:
        reason: why.
    """

    reason: UndecidedCommitError


Outcome = NotPublished | Unchanged | Published | Undecided
