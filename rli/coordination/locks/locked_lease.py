"""The table's lease together with the lock of Hudi's writers.

The lease comes first, so a single process of rli at a time asks for the lock. Holders that the lease has displaced lose the lock, too.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from rli.coordination.contract import Held, HudiLock, LeaseHolder, NewLife
from rli.coordination.lease import HeldLease, RecordWatch, TableLease
from rli.coordination.locks.contract import HeldLock, SharedLock
from rli.errors import LeaseBusyError, RliError
from rli.telemetry import events, metrics
from rli.telemetry.waits import waiting

_PAUSE_SECONDS: Final = 0.05
_LONG_SECONDS: Final = 2.0
"""A process logs a wait that takes longer."""


class LockedLease:
    """The lease and the lock of a table; ``rli.coordination.contract.MutualExclusion`` says what each method promises.

    Args:
        lease: of the table.
        present_lock: gives the lock that writers of Hudi take now; None if the table has none any more.
        require_safe: raises ``UnsupportedTableError`` if a writer of Hudi is at work for which the lock is not enough.
    """

    covers_instants = True

    def __init__(
        self,
        lease: TableLease,
        present_lock: Callable[[], SharedLock | None],
        require_safe: Callable[[], None] = lambda: None,
    ) -> None:
        self._lease = lease
        self._present_lock = present_lock
        self._require_safe = require_safe

    @contextmanager
    def hold(self, holder: str, *, patience: float = math.inf, is_unlocked: bool = False) -> Iterator[Held]:
        """Hold both during a block; waits for their holders.

        Args:
            holder: identity of the caller.
            patience: seconds; for how long to wait for both at most.
            is_unlocked: hold the lease alone; the block takes the lock by ``Held.locked``.

        Raises:
            LeaseBusyError: one of them was not free in that time.
            UnsupportedTableError: with the lock: rli does not honour the one that the table's properties name, or another writer
                does not.
        """
        deadline = time.monotonic() + patience

        def begin_to_wait() -> _Wait | None:
            # Behind the lease: a process that gives the table another lock holds the lease, so the lock cannot change now.
            lock = self._present_lock()
            if lock is None:
                return None
            self._require_safe()
            return _Wait(lock, lease.require_held, holder, deadline)

        with self._lease.hold(holder, patience=patience) as lease:
            both = _HeldBoth(lease, begin_to_wait)
            if is_unlocked:
                yield both
                return
            with both.locked():
                yield both

    def holder(self) -> LeaseHolder | None:
        """The holder of the lease; None if there is none."""
        return self._lease.holder()

    def seems_left_behind(self) -> bool:
        """Whether the holder of the lease seems to be dead."""
        return self._lease.seems_left_behind()

    def take_away(self, by: str, at_work: Callable[[], tuple[str, ...]]) -> None:
        """Take the lease from its holder; the next one replaces that holder's lock."""
        self._lease.take_away(by, at_work)

    def watch(self) -> RecordWatch:
        """A watch for signs of life of the lease's holders."""
        return self._lease.watch()

    def new_life(self) -> NewLife | None:
        """The loss of holders that is not settled yet, if there may be one."""
        return self._lease.new_life()


class _HeldBoth:
    """The lease, and from time to time the lock; ``rli.coordination.contract.Held`` says what each method promises."""

    def __init__(self, lease: HeldLease, begin_to_wait: Callable[[], _Wait | None]) -> None:
        self._lease = lease
        self._begin_to_wait = begin_to_wait
        self._lock: HeldLock | None = None
        self._is_left = False

    @property
    def displaced(self) -> tuple[str, ...]:
        return self._lease.displaced

    def settle(self) -> None:
        self._lease.settle()

    def require_held(self) -> None:
        self._lease.require_held()
        if self._lock is not None:
            self._lock.require_held()

    def leave_to_successor(self) -> None:
        self._is_left = True
        self._lease.leave_to_successor()

    @contextmanager
    def locked(self, *, is_tentative: bool = False) -> Iterator[HudiLock]:
        if self._lock is not None:
            yield self._lock
            return
        wait = self._begin_to_wait()
        if wait is None:
            with self._lease.locked() as nothing:
                yield nothing
            return
        self._lock = wait.tentative() if is_tentative else wait.settled()
        try:
            yield self._lock
        finally:
            self._give_back(self._lock, wait.taken_at)
            self._lock = None

    def _give_back(self, lock: HeldLock, since: float) -> None:
        """Release the lock, or let it lapse with the lease."""
        try:
            if self._is_left:
                lock.leave()
            else:
                lock.release()
        except (OSError, RliError) as error:
            # The publication stands. The lock lapses, or the next holder of the lease replaces it.
            events.LOCK_LEFT.log(cause=error)
        finally:
            metrics.LOCK_SECONDS.add(time.monotonic() - since)


class _Wait:
    """One process that waits for the lock.

    Args:
        lock: of the table.
        require_leading: raises ``LeaseLostError`` once another writer has the lease.
        holder: identity of the caller.
        deadline: by the monotonic clock.
    """

    def __init__(self, lock: SharedLock, require_leading: Callable[[], None], holder: str, deadline: float) -> None:
        self._lock = lock
        self._require_leading = require_leading
        self._holder = holder
        self._deadline = deadline
        self._began = self.taken_at = time.monotonic()
        self._is_logged = False

    def settled(self) -> HeldLock:
        """The lock, as soon as it is sure that this process has it."""
        while True:
            held = self.tentative()
            is_settled = False
            try:
                is_settled = held.settle()
                if is_settled:
                    return held
            finally:
                if not is_settled:
                    held.release()

    def tentative(self) -> HeldLock:
        """The lock, as soon as it is this process's."""
        try:
            with waiting(lambda: f"Hudi's lock of the table: {self._lock.describe()}"):
                while (held := self._lock.attempt(self._require_leading)) is None:
                    self._pause(time.monotonic())
        except BaseException:
            self._lock.withdraw()
            raise
        self.taken_at = time.monotonic()
        metrics.LEASE_SECONDS.add(self.taken_at - self._began, awaited="lock")
        return held

    def _pause(self, now: float) -> None:
        waited = now - self._began
        if now >= self._deadline:
            raise LeaseBusyError(
                f"another writer holds Hudi's lock of the table: {self._lock.describe()} waited={waited:.3g} s",
                remedy="wait for it, or give a longer timeout; what to do about a dead writer's lock: "
                "docs/how-to/beside-hudi-writers.md",
            )
        if not self._is_logged and waited >= _LONG_SECONDS:
            self._is_logged = True
            events.LOCK_WAITING.log(writer=self._holder, lock=self._lock.describe())
        # A random factor keeps waiting processes out of step.
        time.sleep(_PAUSE_SECONDS * random.uniform(0.5, 1.5))  # noqa: S311  (no secret)
