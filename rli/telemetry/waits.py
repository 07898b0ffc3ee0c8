"""What this process is waiting for now, so that a command line or a health check can say so."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import get_ident


@dataclass(frozen=True, slots=True, eq=False)
class Wait:
    """Something that a thread of this process is waiting for.

    Attributes:
        describe: says what for, as of now: a phrase that follows "waiting for", empty while there is nothing to say.
        expected: seconds that it may take.
        thread: that waits.
        since: when it began; by the monotonic clock.
    """

    describe: Callable[[], str]
    expected: float
    thread: int = field(default_factory=get_ident)
    since: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """For how long it has lasted."""
        return time.monotonic() - self.since


_CURRENT: dict[int, Wait] = {}


@contextmanager
def waiting(describe: Callable[[], str], expected: float = 0.0) -> Iterator[None]:
    """While the block runs, this thread may be waiting for what ``describe`` says, for longer than ``expected`` seconds."""
    wait = Wait(describe, expected)
    _CURRENT[id(wait)] = wait
    try:
        yield
    finally:
        del _CURRENT[id(wait)]


def current_waits(seconds: float) -> list[Wait]:
    """What each thread has waited for, so many seconds longer than expected; of nested waits the innermost."""
    due = (wait for wait in _CURRENT.copy().values() if wait.seconds >= wait.expected + seconds and wait.describe())
    return list({wait.thread: wait for wait in sorted(due, key=lambda wait: wait.since)}.values())
