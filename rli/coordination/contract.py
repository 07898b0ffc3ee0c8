"""The contracts of coordination: mutual exclusion, the registry of writers, and signs of life.

The rest of rli knows these contracts, and no records. ``rli.coordination.of_table`` chooses what implements them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from rli.coordination.liveness import Holding


class HudiLock(Protocol):
    """The lock that writers of Hudi take, too, as its holder has it; nothing to hold where the table has none."""

    def settle(self) -> bool:
        """Make sure, behind the taking, that an earlier holder does not release it once more; False if that has happened."""

    def require_held(self) -> None:
        """Raise ``LeaseLostError`` if another process has taken it over."""


class Held(Protocol):
    """The right to change the table, as its holder has it."""

    @property
    def displaced(self) -> tuple[str, ...]:
        """Holders before this one that did not release it, and may have left something; the newest first."""

    def settle(self) -> None:
        """Forget the displaced holders: nothing of them is left."""

    def require_held(self) -> None:
        """Raise ``LeaseLostError`` if another process has taken over."""

    def leave_to_successor(self) -> None:
        """Let it lapse in place of releasing it: the process that takes over clears up what is left first."""

    def locked(self, *, is_tentative: bool = ...) -> AbstractContextManager[HudiLock]:
        """Hold the lock that writers of Hudi take, too, during a block; makes no difference if it is held already.

        Args:
            is_tentative: begin the block before it is sure that another engine leaves the lock to this process. The block asks
                the lock in its end, and undoes its changes if the lock was lost.

        Raises:
            LeaseBusyError: it was not free in the time that the holder waits.
        """


@dataclass(frozen=True, slots=True)
class LeaseHolder:
    """Who holds a table's lease.

    Attributes:
        writer: the instant of the write, or the name of the service; None where the record is damaged.
        host: this boot of its host; None as above.
        pid: number of its process there; None as above.
        expires_at: when the lease lapses without a sign of life, in UTC by the holder's clock; None as above.
        damage: why the record cannot be read; None where it can.
    """

    writer: str | None
    host: str | None
    pid: int | None
    expires_at: datetime | None
    damage: str | None = None


class NewLife(Protocol):
    """The place of the lease has lost acknowledged changes, perhaps the record of a holder."""

    def settle(self) -> None:
        """Say that nothing of lost holders is left. The caller holds the lease."""


class LifeWatch(Protocol):
    """Looks again and again whether somebody gives signs of life."""

    def sees_life(self) -> bool:
        """Whether there is a holder that seems to live."""


class MutualExclusion(Protocol):
    """One process at a time changes the table."""

    @property
    def covers_instants(self) -> bool:
        """Whether a process must hold it to request an instant, as writers of Hudi do with their lock."""

    def hold(self, holder: str, *, patience: float = ..., is_unlocked: bool = ...) -> AbstractContextManager[Held]:
        """Hold it during a block; waits for the present holder to release it, to let it lapse or to die.

        The caller first clears up after ``displaced`` holders: ``rli.commit.recovery.exclusive`` does both.

        Args:
            holder: identity of the caller.
            patience: seconds; for how long to wait at most.
            is_unlocked: leave the lock that writers of Hudi take, too, to ``Held.locked``.

        Raises:
            LeaseBusyError: it was not free in that time.
        """

    def holder(self) -> LeaseHolder | None:
        """Who holds it; None if nobody does."""

    def seems_left_behind(self) -> bool:
        """Whether its holder seems to be dead; only taking it makes sure."""

    def take_away(self, by: str, at_work: Callable[[], tuple[str, ...]]) -> None:
        """Take it from its holder, for the next process to clear up.

        Args:
            by: identity of the caller.
            at_work: the writers that may still publish; asked where the record of the holder is damaged.
        """

    def watch(self) -> LifeWatch:
        """A watch for signs of life of its holders."""

    def new_life(self) -> NewLife | None:
        """The loss of holders that is not settled yet, if there may be one. The caller holds the lease."""


class SignsOfLife(Protocol):
    """What a living process gives, until it releases it."""

    def require_held(self) -> None:
        """Raise ``LeaseLostError`` if another process has taken this one for dead."""

    def release(self) -> bool:
        """Stop; returns whether no other process had taken this one for dead until now."""


class Liveness(Protocol):
    """Tells living processes from dead ones, by the names under which they give signs of life."""

    def begin(self, name: str) -> SignsOfLife | None:
        """Give signs of life under a name until they are released; None if somebody has given some."""

    def signs(self) -> Mapping[str, Holding]:
        """The last sign of life of each name; raises ``CorruptIndexError`` for a damaged one."""

    def end(self, name: str) -> bool:
        """End the signs of a dead process; False if it seems to live, or never had such a name. A process that was only paused finds out."""

    def watch(self, name: str) -> LifeWatch:
        """A watch for signs of life of one name."""


@dataclass(frozen=True, slots=True)
class DisplacedWriter:
    """A writer that counts as dead from now on.

    Attributes:
        instant: that it writes.
        sign: its last sign of life; None if there is none.
        was_displaced: whether another process has displaced it before, and its instant has been kept from others since.
        is_of_former_index: whether it may well live: its signs are where the writers of a former index of the table agreed.
        may_have_requested: whether the instant may be this writer's. It registers before it requests, and meanwhile another engine may
            request an instant of the same time.
    """

    instant: str
    sign: Holding | None
    was_displaced: bool
    is_of_former_index: bool
    may_have_requested: bool


class Writers(Protocol):
    """The registry of the writes that are under way, or were when their process died."""

    def register(self, instant: str) -> SignsOfLife | None:
        """Note a write by its work folder; None if the instant is another writer's of rli."""

    def beating(self, instant: str, signs: SignsOfLife) -> SignsOfLife:
        """The signs of life of a write, with heartbeats for writers of Hudi if the table shares a lock with them."""

    def at_work(self) -> tuple[str, ...]:
        """The instants of all writes that may still be published, by living and by dead writers."""

    def abandoned(self) -> list[str]:
        """The instants of writers that are dead.

        Raises:
            CorruptIndexError: the record of a writer is damaged, or does not name an instant.
        """

    def displace(self, instant: str) -> DisplacedWriter:
        """Take a writer for dead; should it live, it is told. The caller holds the lease."""

    def forget(self, writer: DisplacedWriter, *, was_published: bool) -> None:
        """Remove a displaced writer, of whose write nothing is left to do; keeps its instant from others if it may live."""

    def replace_damaged(self) -> None:
        """Let writers with damaged records count as dead."""
