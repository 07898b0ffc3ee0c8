"""Looking again: a problem of a table counts only if a second look finds it, too (docs/protocol.md, P44).

Others may undo a commit, clean files or archive instants between two requests of a reader. What the reader then misses was
removed, and not lost. So a read that fails begins again, from a newly loaded timeline.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from rli.errors import CorruptTableError, IndexMismatchError, InstantNotFoundError, RliError
from rli.hudi.timeline.instant import Instant
from rli.view.definition import TableDefinition

Told = TypeVar("Told")

OVERTAKEN: Final = (CorruptTableError, IndexMismatchError, InstantNotFoundError)
"""What a read raises if others have removed a file or an instant of its snapshot."""


class SecondLook:
    """Decides whether a read that failed begins again.

    Args:
        table: the table that is read.
    """

    def __init__(self, table: TableDefinition) -> None:
        self._table = table
        self._instants: tuple[Instant, ...] | None = None
        self._problem = ""

    def require_change(self, problem: RliError) -> TableDefinition:
        """Pass a problem that others may have caused; the caller begins again. Raise a problem that stands.

        The first problem always passes. A later one stands if the table has not changed since the one before, or if both
        are the same. So a damaged table beside busy writers ends the read, too.

        Returns:
            The table as it is defined now.

        Raises:
            TableNotFoundError: the table was dropped meanwhile.
        """
        table = self._table.reloaded()
        # Loaded behind the failure: if others caused it, their change is on the timeline by now, because a file goes
        # only after the timeline shows why (P16).
        instants = table.load_timeline().instants
        # The first time, both are new, so the first problem always passes: the failed read may have begun long before
        # this look.
        if instants == self._instants or str(problem) == self._problem:
            raise problem
        self._table, self._instants, self._problem = table, instants, str(problem)
        return table


def read_again(table: TableDefinition, look: Callable[[TableDefinition], Told]) -> Told:
    """The result of a read, which begins again if others have overtaken it.

    Args:
        table: the table.
        look: reads a state of the table that it loads itself.

    Raises:
        CorruptTableError, IndexMismatchError, InstantNotFoundError: ``look`` has raised it twice.
        TableNotFoundError: the table was dropped meanwhile.
    """
    second = SecondLook(table)
    while True:
        try:
            return look(table)
        except OVERTAKEN as problem:
            table = second.require_change(problem)
