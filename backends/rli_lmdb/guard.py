"""A lock that many threads share or one has alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition


class SharedGuard:
    """Held shared by every transaction of this process, and alone by what tolerates no transaction.

    A thread that waits to be alone goes before new sharers. Not reentrant.
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self._sharers = 0
        self._waiting = 0
        self._alone = False

    @contextmanager
    def shared(self) -> Iterator[None]:
        with self._changed:
            # A waiting thread keeps new sharers out: a stream of short reads would otherwise never let the map grow.
            self._changed.wait_for(lambda: not self._alone and not self._waiting)
            self._sharers += 1
        try:
            yield
        finally:
            with self._changed:
                self._sharers -= 1
                self._changed.notify_all()

    @contextmanager
    def holding_back(self) -> Iterator[None]:
        """Let no new sharer in; for a sharer who waits until the others have left."""
        with self._changed:
            self._waiting += 1
        try:
            yield
        finally:
            with self._changed:
                self._waiting -= 1
                self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        with self._changed:
            self._waiting += 1
            try:
                self._changed.wait_for(lambda: not self._alone and not self._sharers)
            finally:
                self._waiting -= 1
                self._changed.notify_all()
            self._alone = True
        try:
            yield
        finally:
            with self._changed:
                self._alone = False
                self._changed.notify_all()
