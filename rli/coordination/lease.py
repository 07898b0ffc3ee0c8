"""The lease of a table: one writer at a time checks and publishes. Kept where all writers of the table see it.

A lease lapses unless it is renewed, so that a dead holder stops nobody. What a holder that was only paused can still
do when it wakes up is for its successor to prevent (``rli.commit.recovery``), not for clocks.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Final

from rli.coordination.contract import HudiLock, LeaseHolder, NewLife
from rli.coordination.lease_queue import LeaseQueue
from rli.coordination.liveness import Holding, Watch
from rli.coordination.renewal import Renewal
from rli.coordination.shared_records import SharedRecords, life_of
from rli.errors import (
    CorruptIndexError,
    IndexNotFoundError,
    LeaseBusyError,
    LeaseLostError,
    RliError,
)
from rli.processes import ProcessId
from rli.settings import DEFAULT_LEASE_SECONDS
from rli.telemetry.waits import waiting

LEASE: Final = "lease"
"""Name of the shared record that says who holds the lease."""

_LIFE: Final = "life"
"""Name of the shared record that says in which life of their place nothing of lost holders of the lease is left."""

_RENEWALS_PER_TERM: Final = 3
_MOST_RELEASES: Final = 3


class HeldLease:
    """A shared record that says what this process holds, the lease or a name, renewed by a thread until it is released.

    Args:
        records: where it is kept.
        name: of the record.
        writer: identity of the write.
        seconds: for how long it is held without a sign of life.
        require_same: raises where other processes have come to keep the record elsewhere.
    """

    def __init__(
        self,
        records: SharedRecords,
        name: str,
        writer: str,
        seconds: float = DEFAULT_LEASE_SECONDS,
        require_same: Callable[[], None] = lambda: None,
    ) -> None:
        self._records = records
        self._name = name
        self._writer = writer
        self._seconds = seconds
        self._require_same = require_same
        self._process = ProcessId.current()
        self._displaced: tuple[str, ...] = ()
        self._is_left = False
        self._may_be_held = False
        self._renewal = Renewal(seconds / _RENEWALS_PER_TERM, self._renew, name)

    @property
    def displaced(self) -> tuple[str, ...]:
        """Writers that held the record before, let it lapse, and may have left something; the newest first."""
        return self._displaced

    def take(self, *, over: bytes | None) -> bool:
        """Begin to hold, in place of the record ``over`` (None: of none); returns whether that succeeded."""
        # The predecessor may be alive and between its check of the lease and its publication. Its name travels in the
        # new record, so even if this process dies at once, the next holder knows whose draft to settle (P3).
        before = None if over is None else Holding.from_json(over)
        # A successor that died before it had cleared up leaves that to its own successor. An earlier attempt that failed displaced nobody.
        self._displaced = () if before is None else (before.writer, *before.displaced)
        self._may_be_held = True
        try:
            self._may_be_held = self._records.compare_and_set(self._name, over, self._content())
            # Only now: they begin once, and ``take`` may be called many times before it succeeds.
            if self._may_be_held:
                self._renewal.begin()
        except BaseException:
            # The answer may be lost and the record taken, or the thread be about to run, without a caller that knows.
            self._renewal.end()
            with suppress(OSError, RliError):
                self._give_back()
            self._may_be_held = False
            raise
        return self._may_be_held

    def settle(self) -> None:
        """Forget the displaced writers: nothing of them is left."""
        self._displaced = ()

    def require_held(self) -> None:
        """Raise ``LeaseLostError`` if another process has taken over, and what ``require_same`` raises."""
        # The settings are read at each check, too (P3): once the index or the place of the lease has changed, a record
        # in the former place gives no right to publish.
        self._require_same()
        # A loop, because the renewing thread of this same process replaces the record, too. A lost comparison alone
        # does not say that the lease is lost; another record, or none, does.
        while (own := self._own_record()) is not None:
            # A read may be stale where hosts cache files. Replacing the record proves that it was current.
            if self._records.compare_and_set(self._name, own, self._content()):
                return
        raise LeaseLostError(
            f"another writer took over: record={self._name}",
            remedy="this writer was paused or cut off for too long, write again",
        )

    def leave_to_successor(self) -> None:
        """Let the record lapse in place of releasing it: the process that takes it over clears up what is left first."""
        self._is_left = True

    @contextmanager
    def locked(self, *, is_tentative: bool = False) -> Iterator[HudiLock]:  # noqa: ARG002  (there is no lock)
        """A block without a lock of Hudi: the table has none.

        Args:
            is_tentative: makes no difference.
        """
        yield _NoLock()

    def release(self) -> bool:
        """Stop holding, if this process holds; returns whether it had held on until now.

        A record that another process has taken over, or put a placeholder into, is left alone. One that names displaced writers
        is left to lapse: its successor has to clear up after them (P3).
        """
        if not self._may_be_held:
            return False
        # The renewals end first. Otherwise one of them could come between the reading and the removal here.
        self._renewal.end()
        for _ in range(_MOST_RELEASES - 1):
            # Else one hiccup of a disk would keep all others waiting until the record lapses.
            with suppress(OSError):
                return self._give_back()
        return self._give_back()

    def _give_back(self) -> bool:
        # Lapsing is slow but safe: for the next process a missing record says that nothing is left to clear up.
        if self._is_left or self._displaced:
            return False
        own = self._own_record()
        return own is not None and self._records.compare_and_set(self._name, own, None)

    def _renew(self) -> None:
        own = self._own_record()
        # If the record is another one's, the holder's next check says so.
        if own is not None:
            self._records.compare_and_set(self._name, own, self._content())

    def _own_record(self) -> bytes | None:
        stored = self._records.read_control(self._name)
        return stored if stored is not None and Holding.from_json(stored).writer == self._writer else None

    def _content(self) -> bytes:
        expires_at = time.time() + self._seconds
        return Holding(self._writer, self._process, expires_at, self._seconds, self._displaced).to_json()


class _NoLock:
    """The lock of a table without one."""

    def settle(self) -> bool:
        return True

    def require_held(self) -> None:
        return


class RecordWatch:
    """Looks again and again whether a shared record has a holder that seems to live.

    Args:
        records: where it is kept.
        name: of the record.
    """

    def __init__(self, records: SharedRecords, name: str) -> None:
        self._records = records
        self._name = name
        self._watch = Watch()

    def sees_life(self) -> bool:
        """Whether there is a holder that seems to live."""
        stored = self._records.read_control(self._name)
        if stored is None:
            return False
        # Two judgements: the clock finds a record that lapsed long ago at the first look, the watch needs no clock of
        # another host.
        return not (Holding.from_json(stored).is_over(time.time()) or self._watch.has_lapsed(stored))


class _UnsettledLife:
    """A life of the place of the lease, in which nobody has yet cleared up after lost holders."""

    def __init__(self, records: SharedRecords, settled: bytes | None, life: str) -> None:
        self._records = records
        self._settled = settled
        self._life = life

    def settle(self) -> None:
        self._records.compare_and_set(_LIFE, self._settled, self._life.encode())


class TableLease:
    """A lease of a table, as a shared record; ``rli.coordination.contract.MutualExclusion`` says what each method promises.

    Args:
        records: where it is kept.
        seconds: for how long it is held without a sign of life.
        require_same: raises where other processes have come to keep the lease elsewhere; asked behind its taking, and
            with each check that it is held.
        name: of its record.
    """

    covers_instants = False

    def __init__(
        self,
        records: SharedRecords,
        seconds: float = DEFAULT_LEASE_SECONDS,
        *,
        require_same: Callable[[], None] = lambda: None,
        name: str = LEASE,
    ) -> None:
        self._records = records
        self._seconds = seconds
        self._require_same = require_same
        self._name = name

    @contextmanager
    def hold(
        self,
        holder: str,
        *,
        patience: float = math.inf,
        is_unlocked: bool = False,  # noqa: ARG002  (there is no lock)
    ) -> Iterator[HeldLease]:
        """Hold it during a block; waits for the present holder to release it, to let it lapse or to die.

        Args:
            holder: identity of the caller.
            patience: seconds; for how long to wait at most.
            is_unlocked: makes no difference.

        Raises:
            LeaseBusyError: it was not free in that time.
        """
        holding = HeldLease(self._records, self._name, holder, self._seconds, self._require_same)
        queue = LeaseQueue(holder)
        try:
            # Inside: an interruption may come at any time, also between the taking and the block.
            with waiting(queue.describe):
                while True:
                    stored = self._records.read_control(self._name)
                    if queue.may_take(stored) and holding.take(over=stored):
                        break
                    if queue.seconds >= patience:
                        raise _busy(self._name, stored, patience)
                    queue.pause()
            queue.has_taken(holding.displaced)
            # Behind the taking: the settings cannot change from now on, because each change of them takes this lease
            # (P37).
            self._require_same()
            yield holding
        finally:
            # With the store of its record, a lease is gone, too. What was done under it stands.
            with suppress(IndexNotFoundError):
                holding.release()

    def holder(self) -> LeaseHolder | None:
        """Who holds it; None if nobody does."""
        content = self._records.read_control(self._name)
        if content is None:
            return None
        try:
            held = Holding.from_json(content)
            expires_at = datetime.fromtimestamp(held.expires_at, UTC)
        except (CorruptIndexError, ValueError, OverflowError, OSError) as error:
            return LeaseHolder(None, None, None, None, damage=str(error))
        return LeaseHolder(held.writer, held.process.host, held.process.pid, expires_at)

    def seems_left_behind(self) -> bool:
        """Whether its holder seems to be dead; only taking it makes sure."""
        stored = self._records.read_control(self._name)
        return stored is not None and Holding.from_json(stored).is_over(time.time())

    def take_away(self, by: str, at_work: Callable[[], tuple[str, ...]]) -> None:
        """Take it from its holder, for the next process to clear up."""
        while (stored := self._records.read_control(self._name)) is not None:
            # The holder finds a record that is not its own, so it renews nothing.
            # Not removed, but replaced: a free lease would name no displaced writer, and the former holder might still
            # publish (P4).
            broken = Holding.unknown(by, _displaced(stored, at_work))
            if self._records.compare_and_set(self._name, stored, broken.to_json()):
                return

    def watch(self) -> RecordWatch:
        """A watch for signs of life of its holders."""
        return RecordWatch(self._records, self._name)

    def new_life(self) -> NewLife | None:
        """The loss of holders that is not settled yet, if there may be one. The caller holds the lease."""
        life = life_of(self._records)
        if life is None:
            return None
        settled = self._records.read_control(_LIFE)
        return None if settled == life.encode() else _UnsettledLife(self._records, settled, life)


def _displaced(stored: bytes, at_work: Callable[[], tuple[str, ...]]) -> tuple[str, ...]:
    """The writers that may still publish: the writers named by the record, or all writers at work if it is damaged."""
    try:
        held = Holding.from_json(stored)
    except CorruptIndexError:
        return at_work()
    return (held.writer, *held.displaced)


def _busy(name: str, stored: bytes | None, patience: float) -> LeaseBusyError:
    if stored is None:
        return LeaseBusyError(
            f"other processes took the {name} each time it was free: waited={patience:g} s", remedy="try again"
        )
    held = Holding.from_json(stored)
    return LeaseBusyError(
        f"another process holds the {name}: writer={held.writer!r} host={held.process.host} pid={held.process.pid} "
        f"waited={patience:g} s",
        remedy=(
            f"wait for it, or give a longer timeout: a dead holder's lease lapses after {held.seconds:g} s "
            "(rli lease show TABLE)"
        ),
    )
