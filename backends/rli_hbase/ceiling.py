"""A ceiling on the operations of all processes together, so that a bootstrap cannot bring region servers down.

The table holds one number: when the next operation is due, in microseconds since the epoch. A process that wants
``n`` operations moves it on by what ``n`` may take, with compare-and-set, and then waits until the old one has come. So
turns are given out one behind the other, to any process that asks, and no process needs to know how many others there are. Time
that nobody used is not saved up.

Clocks that differ make no more operations possible, but a process whose clock is behind waits longer by that much.
No process moves the number on while the queue is half an hour long: it waits until the queue is shorter. HBase notes its
own time with the number. A number that was an hour ahead of that time came from a clock that is wrong: it counts as
none, so that one wrong clock stops nobody else.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, Final

from rli.errors import StoreUnavailableError
from rli_hbase.client import Client
from rli_hbase.keyspace import CEILING_ROW
from rli_hbase.thrift import Mutation

_MICROSECONDS: Final = 1_000_000
_MILLISECOND: Final = 1000
_WIDTH: Final = 8
_LONGEST_QUEUE_SECONDS: Final = 1800
"""How long a queue may be that a process joins."""

_LONGEST_TURN_SECONDS: Final = 60
"""For how long one turn may last: who wants more operations takes several turns."""

_CLOCK_ERROR_SECONDS: Final = 3600
"""What is so far ahead comes from a clock's error: queues are never as long, and honest clocks differ by minutes."""

_LOG = logging.getLogger(__name__)


class Ceiling:
    """Gives out turns, at most ``ops_per_second`` operations a second over all processes that use the table.

    Args:
        client: how the table is reached.
        column: where the number is kept.
        ops_per_second: the ceiling.
        now: seconds since the epoch.
        pause: waits so many seconds.
    """

    def __init__(
        self,
        client: Client,
        column: bytes,
        ops_per_second: int,
        *,
        now: Callable[[], float] = time.time,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._column = column
        self._microseconds_each = _MICROSECONDS / ops_per_second
        self._now = now
        self._pause = pause

    def wait_for_turn(self, operations: int) -> None:
        """Return when ``operations`` more may begin.

        Raises:
            StoreUnavailableError: the clock of this process is so far behind that its turn would not come for hours.
        """
        at_once = max(1, int(_LONGEST_TURN_SECONDS * _MICROSECONDS / self._microseconds_each))
        for start in range(0, operations, at_once):
            self._take_and_wait(min(at_once, operations - start))

    def _take_and_wait(self, operations: int) -> None:
        is_taken = False
        while not is_taken:
            turn, is_taken = self._client.call(lambda thrift: self._take_turn(thrift, operations))
            self._wait_until(turn / _MICROSECONDS - (0 if is_taken else _LONGEST_QUEUE_SECONDS))

    def _wait_until(self, time_of_turn: float) -> None:
        delay = time_of_turn - self._now()
        if delay > _CLOCK_ERROR_SECONDS:
            raise StoreUnavailableError(
                f"the turn under ops_per_second is too far away: store={self._client.settings.location} "
                f"seconds={delay:.0f}",
                remedy="the clock of this machine is behind that of HBase: set it",
            )
        if delay > 0:
            self._pause(delay)

    def _take_turn(self, thrift: Any, operations: int) -> tuple[int, bool]:
        """When the operations may begin, and whether that turn was taken.

        It is not if another process was faster, or while the queue is too long. A lost answer wastes a turn, no more.
        """
        rows = thrift.getRowWithColumns(self._client.table, CEILING_ROW, [self._column], {})
        cell = rows[0].columns[self._column] if rows else None
        before: bytes | None = None if cell is None else cell.value
        due = 0 if cell is None else self._due(cell)
        now = round(self._now() * _MICROSECONDS)
        turn = max(due, now)
        if turn - now > _LONGEST_QUEUE_SECONDS * _MICROSECONDS:
            return turn, False
        # By comparison with the number that was read: of two processes, one gets this turn, and the other asks again
        # behind it.
        after = (turn + round(operations * self._microseconds_each)).to_bytes(_WIDTH, "big")
        change = Mutation(column=self._column, value=after)
        return turn, bool(thrift.checkAndPut(self._client.table, CEILING_ROW, self._column, before, change, {}))

    def _due(self, cell: Any) -> int:
        """When the next operation is due by a stored number; 0 where a wrong clock has stored it."""
        due = int.from_bytes(cell.value, "big")
        ahead = due - cell.timestamp * _MILLISECOND
        if ahead <= _CLOCK_ERROR_SECONDS * _MICROSECONDS:
            return due
        _LOG.warning(
            "a process with a wrong clock moved the rate limit, so it is reset: store=%s seconds ahead=%d",
            self._client.settings.location,
            ahead // _MICROSECONDS,
        )
        return 0
