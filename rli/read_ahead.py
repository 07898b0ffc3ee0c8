"""Reading ahead: threads read what is asked for next, up to a bound."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from itertools import islice
from queue import SimpleQueue
from threading import Semaphore
from typing import Generic, TypeVar

Item = TypeVar("Item")

Source = Callable[[], Generator[Item, None, None]]
"""Begins to read; what it gives is closed in the end, also if it was not read to its end."""


def read_ahead(sources: Sequence[Source[Item]], *, at_once: int, most: int) -> Generator[Item, None, None]:
    """The items of some sources, one source after the other, read by threads before they are asked for.

    >>> [*read_ahead([lambda: (n for n in range(2)), lambda: (n for n in "ab")], at_once=2, most=4)]
    [0, 1, 'a', 'b']

    Where a source raises, what it raises comes behind its items. All threads have ended when the caller has the last item, or leaves.

    Args:
        sources: each is read by one thread.
        at_once: sources that are read at a time.
        most: items of a source that wait for the caller.
    """
    left, begun = iter(sources), deque[tuple[_Ahead[Item], Future[None]]]()
    with ThreadPoolExecutor(at_once) as threads:
        try:
            while True:
                for source in islice(left, at_once - len(begun)):
                    ahead = _Ahead(source, most)
                    begun.append((ahead, threads.submit(ahead.read)))
                if not begun:
                    return
                ahead, done = begun[0]
                yield from ahead.items()
                done.result()
                begun.popleft()
        finally:
            for ahead, _ in begun:
                ahead.end()


class _Ahead(Generic[Item]):
    """Items of a source on their way from its thread to the caller."""

    def __init__(self, source: Source[Item], most: int) -> None:
        self._source = source
        self._room = Semaphore(most)
        self._waiting = SimpleQueue[tuple[Item] | None]()
        self._is_ended = False

    def read(self) -> None:
        """Read the source to its end, or until ``end``: in a thread."""
        try:
            with closing(self._source()) as items:
                for item in items:
                    self._room.acquire()
                    if self._is_ended:
                        return
                    self._waiting.put((item,))
        finally:
            self._waiting.put(None)

    def items(self) -> Iterator[Item]:
        """What is read, as it comes."""
        while (found := self._waiting.get()) is not None:
            self._room.release()
            yield found[0]

    def end(self) -> None:
        """Let the thread end: nobody asks for more."""
        self._is_ended = True
        self._room.release()
