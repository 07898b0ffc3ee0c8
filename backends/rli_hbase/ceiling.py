"""A ceiling on the operations of all processes together, so that a bootstrap cannot bring region servers down.

The table holds one number: when the next operation is due, in microseconds since the epoch. A process that wants
``n`` operations moves it on by what ``n`` may take, with compare-and-set, and then waits until the old one has come. So
turns are given out one behind the other, whoever asks, and no process needs to know how many others there are. Time
that nobody used is not saved up.

Clocks that differ make no more operations possible, but a process whose clock is behind waits longer by that much.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from rli_hbase.client import Client
from rli_hbase.layout import CEILING_ROW
from rli_hbase.thrift import Mutation

_MICROSECONDS: Final = 1_000_000
_WIDTH: Final = 8


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
        """Return when ``operations`` more may begin."""
        turn: float | None = None
        while turn is None:
            turn = self._client.call(lambda thrift: self._take_turn(thrift, operations))
        delay = turn / _MICROSECONDS - self._now()
        if delay > 0:
            self._pause(delay)

    def _take_turn(self, thrift: Any, operations: int) -> int | None:
        """When the operations may begin; None if another process was faster. A lost answer wastes a turn, no more."""
        rows = thrift.getRowWithColumns(self._client.table, CEILING_ROW, [self._column], {})
        before: bytes | None = rows[0].columns[self._column].value if rows else None
        due = 0 if before is None else int.from_bytes(before, "big")
        turn = max(due, round(self._now() * _MICROSECONDS))
        after = (turn + round(operations * self._microseconds_each)).to_bytes(_WIDTH, "big")
        change = Mutation(column=self._column, value=after)
        is_ours = thrift.checkAndPut(self._client.table, CEILING_ROW, self._column, before, change, {})
        return turn if is_ours else None
