"""How independent pieces of work are run: one after the other here, side by side in an engine such as Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


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
