"""How independent pieces of work are run: one after the other here, side by side in an engine such as Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from threading import Event, Semaphore
from typing import Final, Protocol, TypeVar, runtime_checkable

import pyarrow as pa

Item = TypeVar("Item")
Result = TypeVar("Result")

_MOST_THREADS: Final = 8
"""By default: few enough for tasks that hold a part of a file."""


class TaskRunner(Protocol):
    """Runs a function on each of several items, anywhere and possibly more than once for an item.

    Functions, items and results are picklable; functions are idempotent; results are small.
    """

    def run(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterable[Result]:
        """The result of one accepted run for each item, in any order."""
        ...


@runtime_checkable
class SideBySide(Protocol):
    """A task runner that tells how many tasks it runs at a time."""

    @property
    def at_once(self) -> int:
        """Number of tasks at a time, at least 1."""
        ...


def at_once(tasks: TaskRunner) -> int:
    """Number of tasks that a runner runs at a time; 1 if the runner does not tell."""
    return tasks.at_once if isinstance(tasks, SideBySide) else 1


@runtime_checkable
class InTurn(Protocol):
    """A task runner that may tell that it runs tasks in this process, one after the other, each when its result is asked for."""

    @property
    def runs_in_turn(self) -> bool:
        """Whether it does: then tasks may share what cannot be pickled."""
        ...


def runs_in_turn(tasks: TaskRunner) -> bool:
    """Whether a runner is known to run tasks in this process, one after the other."""
    return isinstance(tasks, InTurn) and tasks.runs_in_turn


def lots_of(items: Iterable[Item], size_of: Callable[[Item], int], most: int) -> Iterator[list[Item]]:
    """Items in their order, together up to some size; an item that is larger is alone.

    Args:
        items: to share out.
        size_of: the size of an item.
        most: of a lot.
    """
    lot, size = list[Item](), 0
    for item in items:
        own = size_of(item)
        if lot and size + own > most:
            yield lot
            lot, size = [], 0
        lot.append(item)
        size += own
    if lot:
        yield lot


class InProcess:
    """Runs tasks in this process, one after the other."""

    runs_in_turn = True

    def run(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterable[Result]:
        """The results in the order of the items, each computed when it is asked for."""
        return map(function, items)


@dataclass(frozen=True, slots=True)
class InThreads:
    """Runs tasks side by side in this process, on each of its cores.

    Their time goes into pyarrow and numpy, which do not hold Python's lock.

    Attributes:
        most: tasks that run at a time, however many cores there are: each holds what it works on in memory.
    """

    most: int = _MOST_THREADS

    @property
    def threads(self) -> int:
        """How many tasks run at a time."""
        return min(int(pa.cpu_count()), self.most)

    def run(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterable[Result]:
        """The results in the order of the items.

        Where one raises, or the caller is interrupted, tasks not begun yet are left out and the others are waited for.
        """
        if len(items) <= 1:
            yield from map(function, items)
            return
        count = self.threads
        ended, at_work = Event(), Semaphore(count)

        def unless_ended(item: Item) -> Result:
            with at_work:
                if ended.is_set():
                    raise CancelledError
                return function(item)

        with ThreadPoolExecutor(count) as threads:
            try:
                yield from threads.map(unless_ended, items)
            finally:
                # The pool does not know, and would not wait for, a thread whose start was cut off by Ctrl-C.
                ended.set()
                with ExitStack() as permits:
                    for _ in range(count):
                        permits.enter_context(at_work)
