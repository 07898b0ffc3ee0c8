"""Reading ahead: threads read what is asked for next, up to a bound."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from itertools import islice
from typing import Generic, NamedTuple, TypeVar

Item = TypeVar("Item")

Source = Callable[[], Generator[Item, None, None]]
"""Begins to read; what it gives is closed in the end, also if it was not read to its end."""


def read_ahead(sources: Sequence[Source[Item]], *, at_once: int, most: int) -> Generator[Item, None, None]:
    """The items of some sources, one source after the other, read by threads before they are asked for.

    >>> [*read_ahead([lambda: (n for n in range(2)), lambda: (n for n in "ab")], at_once=2, most=4)]
    [0, 1, 'a', 'b']

    Where a source raises, what it raises comes behind its items. When the caller has the last item, or leaves, all sources are closed.
    No thread waits for the caller: a process ends although a reader was left in the middle.

    Args:
        sources: each is read by one thread at a time.
        at_once: sources that are read at a time.
        most: items of a source that a thread reads before the caller has taken the last ones, one or more. So up to twice as many of each
            source are in memory.
    """
    left, begun = iter(sources), deque[_Ahead[Item]]()
    with ThreadPoolExecutor(at_once) as threads:
        try:
            while True:
                for source in islice(left, at_once - len(begun)):
                    begun.append(_Ahead(source, most, threads))
                    begun[-1].begin()
                if not begun:
                    return
                yield from begun[0].items()
                begun.popleft()
        finally:
            for ahead in begun:
                ahead.end()


class _Part(NamedTuple, Generic[Item]):
    """What a thread has read of a source.

    Attributes:
        items: some items.
        is_last: whether the source has no more.
        error: what the source has raised behind these items; None if it has not.
    """

    items: Sequence[Item]
    is_last: bool
    error: BaseException | None = None


class _Ahead(Generic[Item]):
    """A source that is read in parts, each by a thread while the caller takes the part before."""

    def __init__(self, source: Source[Item], most: int, threads: ThreadPoolExecutor) -> None:
        self._left = source()
        self._most = most
        self._threads = threads
        self._next: Future[_Part[Item]] | None = None

    def begin(self) -> None:
        """Have the next part read."""
        self._next = self._threads.submit(self._read)

    def items(self) -> Iterator[Item]:
        """All items; only behind ``begin``."""
        while self._next is not None:
            part = self._next.result()
            if part.is_last:
                self._next = None
            else:
                self.begin()
            yield from part.items
            if part.error is not None:
                raise part.error

    def end(self) -> None:
        """Close the source: nobody asks for more."""
        if self._next is not None:
            wait([self._next])
        self._left.close()

    def _read(self) -> _Part[Item]:
        items = list[Item]()
        try:
            items.extend(islice(self._left, self._most))
        except BaseException as error:  # noqa: BLE001  (it is raised where the caller takes the items)
            return _Part(items, is_last=True, error=error)
        return _Part(items, is_last=len(items) < self._most)
