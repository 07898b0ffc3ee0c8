"""Removing tombstones for good, in stores that can keep late writers from bringing deleted keys back (P30)."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from rli.codec.encoded_keys import EncodedKeys


@runtime_checkable
class SupportsPurge(Protocol):
    """A store with a *floor*: a commit sequence up to which tombstones may be gone, and entries are written no more.

    A process that writes an entry compares its sequence with the floor in the step that writes it. So a process that was
    paused while it applied an old commit cannot bring a key back whose tombstone was removed.
    """

    def floor(self) -> int:
        """The floor; 0 before the first purge. It never falls while the store has entries, unless it goes back in time."""
        ...

    def seen_floor(self) -> int:
        """At least the floors that its look-ups have met so far, where that is cheaper to tell than the floor."""
        ...

    def raise_floor(self, sequence: int) -> None:
        """Ignore entries up to this sequence from now on; all their commits are marked as applied.

        Raises:
            IndexNotReadyError: a part of the store went back to before that.
        """
        ...

    def remove_tombstones(self, keys: EncodedKeys) -> int:
        """Remove the entries of some keys (distinct, in any order) that are tombstones up to the floor; how many."""
        ...
