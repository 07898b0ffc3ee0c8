"""The turn of a write that was in conflict several times: until it is published, other writes let it go first.

A turn is one shared record, and a courtesy: no guarantee of the table rests on it. The write that has it begins, works and commits
like any other, and takes the lease at the end. Another write that has the lease by then, and finds the turn, gives the lease back
and waits for the end of the turn. A turn is never renewed, and no attempt waits for turns longer than the table's ``lease_seconds``.
So a process that dies or is paused with a turn, or takes long, stops nobody (docs/protocol.md, P45).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Final
from uuid import uuid4

from rli.commit.recovery import exclusive
from rli.coordination.contract import Held
from rli.coordination.lease_queue import TurnQueue
from rli.coordination.liveness import Holding
from rli.coordination.shared_records import SharedRecords, shared_records
from rli.errors import CorruptIndexError, LeaseBusyError, RliError
from rli.index.contract import TableIndex
from rli.processes import ProcessId
from rli.telemetry import events
from rli.telemetry.waits import waiting
from rli.view.definition import TableDefinition

TURN: Final = "turn"
"""Name of the shared record that says which write has a turn."""


@contextmanager
def own_turn(table: TableDefinition, index: TableIndex, *, patience: float) -> Iterator[str]:
    """Have a turn, whose name the block gets: no other write is published during the block, up to ``lease_seconds``.

    If the turns of others take too long, or a record cannot be changed, the block goes without: it uses the same records, and tells of
    their errors.

    Args:
        table: the table.
        index: its index.
        patience: seconds; for how long to wait at most, for turns and for the lease. It waits no longer than ``lease_seconds``.
    """
    turn = _OwnTurn(table, index, patience)
    try:
        turn.take()
        yield turn.name
    finally:
        # If the store does not answer, or is gone, the turn ends without that.
        with suppress(OSError, RliError):
            turn.end()


class _OwnTurn:
    def __init__(self, table: TableDefinition, index: TableIndex, patience: float) -> None:
        self.name = f"turn {uuid4().hex} since {datetime.now(UTC).isoformat()}"
        self._table = table
        self._index = index
        seconds = table.require_settings().lease_seconds
        self._deadline = time.monotonic() + min(patience, seconds)
        self._records = shared_records(table, index)
        self._record = Holding(self.name, ProcessId.current(), time.time() + seconds, seconds).to_json()

    def take(self) -> None:
        """Wait for the turns of others, and take one, if that does not fail."""
        try:
            # First the turn, then the lease. A write with the lease never waits for a turn, so two writes cannot wait
            # for each other (P45).
            seconds = self._await_own()
            # A write that had the lease before it could see the turn is still published.
            patience = _seconds_left(self._deadline)
            with exclusive(self._table, self._index, self.name, patience=patience, is_unlocked=True):
                pass
        except (OSError, RliError) as error:
            events.TURN_MISSED.log(table=self._table.location, cause=error)
        else:
            events.TURN_TAKEN.log(table=self._table.location, turn=self.name, seconds=seconds)

    def end(self) -> None:
        """Let the other writes go on."""
        self._records.compare_and_set(TURN, self._record, None)

    def _await_own(self) -> float:
        """Take a turn after those of others, and return how many seconds they took.

        Raises:
            LeaseBusyError: they took too long.
        """
        queue = TurnQueue(self.name)
        with waiting(queue.describe):
            while True:
                stored = _read_turn(self._table, self._records)
                if queue.may_take(stored) and self._records.compare_and_set(TURN, stored, self._record):
                    return queue.seconds
                if not _seconds_left(self._deadline):
                    raise _busy(queue)
                queue.pause()


def end_turn(table: TableDefinition, index: TableIndex) -> None:
    """End the present turn, whose record may be damaged: other writes no longer wait for it."""
    records = shared_records(table, index)
    records.compare_and_set(TURN, records.read_control(TURN), None)


@contextmanager
def exclusive_in_turn(
    table: TableDefinition, index: TableIndex, writer: str, own: str | None, *, patience: float
) -> Iterator[Held]:
    """Hold the lease (see ``rli.commit.recovery.exclusive``), without a lock of Hudi, while no other write has a turn.

    Args:
        table: the table.
        index: its index.
        writer: identity of the caller.
        own: name of the caller's own turn, if it has one.
        patience: seconds; for how long to wait at most, for the lease and for turns.

    Raises:
        LeaseBusyError: others had the lease, or turns, for so long.
        IndexMismatchError: the table has been given another index since this process opened it.
    """
    others = _TurnsOfOthers(table, index, writer, own)
    deadline = time.monotonic() + patience
    while True:
        with exclusive(table, index, writer, patience=_seconds_left(deadline), is_unlocked=True) as lease:
            # Asked under the lease: a write that takes a turn from now on waits until this lease is free.
            if others.are_over():
                yield lease
                return
        others.wait(deadline)


class _TurnsOfOthers:
    """The turns of other writes, as one write sees them that is about to be published."""

    def __init__(self, table: TableDefinition, index: TableIndex, writer: str, own: str | None) -> None:
        self._table = table
        self._records = shared_records(table, index)
        self._writer = writer
        self._own = own
        self._most_seconds = table.require_settings().lease_seconds
        self._queue: TurnQueue | None = None

    def are_over(self) -> bool:
        """Whether no other write has a turn, or such turns have taken too long."""
        stored = _read_turn(self._table, self._records)
        if stored is None or Holding.from_json(stored).writer == self._own:
            return True
        # Its seconds count from the first turn that this write has met.
        queue = self._queue = self._queue or TurnQueue(self._writer)
        if queue.may_take(stored):
            # Its process is dead or slow. The next write need not find that out for itself.
            _remove_turn(self._table, self._records, stored)
            return True
        return queue.seconds >= self._most_seconds

    def wait(self, deadline: float) -> None:
        """Return when they are over; raises ``LeaseBusyError`` at the deadline of ``time.monotonic``."""
        queue = self._queue
        if queue is None:
            return
        with waiting(queue.describe):
            while not self.are_over():
                if not _seconds_left(deadline):
                    raise _busy(queue)
                queue.pause()


def _read_turn(table: TableDefinition, records: SharedRecords) -> bytes | None:
    """The record of the present turn; None if there is none. A damaged record is nobody's turn, and is removed."""
    stored = records.read_control(TURN)
    if stored is None:
        return None
    try:
        Holding.from_json(stored)
    except CorruptIndexError as error:
        events.TURN_DAMAGED.log(table=table.location, cause=error)
        _remove_turn(table, records, stored)
        return None
    return stored


def _remove_turn(table: TableDefinition, records: SharedRecords, stored: bytes) -> None:
    """Remove the record of a turn that is over; the write of the caller does not fail if that fails."""
    try:
        records.compare_and_set(TURN, stored, None)
    except (OSError, RliError) as error:
        events.TURN_LEFTOVER.log(table=table.location, cause=error)


def _seconds_left(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic())


def _busy(queue: TurnQueue) -> LeaseBusyError:
    return LeaseBusyError(
        f"other writes have their turns: waited={queue.seconds:g} s for {queue.describe()}", remedy="try again"
    )
