"""The contract of a lock that rli shares with Hudi's writers.

Only the holder of the table's lease takes such a lock. So a lock with the identity of the same table was left behind by a
process of rli that has lost the lease, and may be replaced. ``rli.commit.recovery`` keeps that process from publishing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class HeldLock(Protocol):
    """A lock that this process holds."""

    def settle(self) -> bool:
        """Make sure, behind the taking, that an earlier holder does not release it once more; False if that has happened."""

    def require_held(self) -> None:
        """Raise ``LeaseLostError`` if this process does not hold the lock any more."""

    def leave(self) -> None:
        """Stop renewing the lock, so that it lapses, and do not release it."""

    def release(self) -> None:
        """Release the lock, if this process still holds it."""


class SharedLock(Protocol):
    """A lock that writers of Hudi take, too."""

    def attempt(self, require_leading: Callable[[], None]) -> HeldLock | None:
        """Take the lock if it is free or left behind; None if another process holds it.

        Args:
            require_leading: raises ``LeaseLostError`` once another writer has the lease: then the lock may be that writer's.
        """

    def withdraw(self) -> None:
        """Give up waiting after an attempt that failed: leave the queue, if the lock has one."""

    def describe(self) -> str:
        """The lock and, as far as known, its holder; for messages."""
