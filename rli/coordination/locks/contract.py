"""What rli asks of a lock that it shares with Hudi's writers.

Only the holder of the table's lease takes such a lock. So a lock in the name of the same table was left behind by a process
of rli that has lost the lease, and may be taken away from it; what that process may still publish is for
``rli.commit.recovery`` to prevent.
"""

from __future__ import annotations

from typing import Protocol


class HeldLock(Protocol):
    """A lock that this process holds."""

    def require_held(self) -> None:
        """Raise ``LeaseLostError`` if it is another one's, or nobody's."""

    def leave(self) -> None:
        """Give no more signs of life, and let the lock lapse in place of releasing it."""

    def release(self) -> None:
        """Give it back, if it is still held."""


class SharedLock(Protocol):
    """A lock that writers of Hudi take, too."""

    def attempt(self) -> HeldLock | None:
        """Take it, if it is free or left behind; None if another one holds it."""

    def describe(self) -> str:
        """Name it, and say who holds it as far as that is known; for messages."""
