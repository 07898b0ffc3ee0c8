"""How independent pieces of work are run: one after the other here, side by side in an engine such as Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol, TypeVar

import pyarrow as pa

Item = TypeVar("Item")
Result = TypeVar("Result")

_MOST_THREADS: Final = 8
"""However many cores there are: each task holds a part of a file in memory."""


class TaskRunner(Protocol):
    """Runs a function on each of several items, anywhere and possibly more than once for an item.

    Functions, items and results are picklable; functions are idempotent; results are small.
    """

    def run(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterable[Result]:
        """The result of one accepted run for each item, in any order."""
        ...


class InProcess:
    """Runs tasks in this process, one after the other."""

    def run(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterable[Result]:
        """The results in the order of the items, each computed when it is asked for."""
        return map(function, items)


class InThreads:
    """Runs tasks side by side in this process, on each of its cores: those that read and write files, no index.

    The time goes into pyarrow, which does not hold Python's lock.
    """

    def run(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterable[Result]:
        """The results in the order of the items. Where one raises, those not begun yet are left out."""
        with ThreadPoolExecutor(min(pa.cpu_count(), _MOST_THREADS)) as threads:
            yield from threads.map(function, items)
