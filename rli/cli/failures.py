"""What becomes of an error on the command line: a line for people, JSON for programs, and an exit status by its class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rli.cli.output import CONFLICT, FAILED, UNREACHABLE, print_error, print_json, with_options, with_table
from rli.errors import ConflictError, LeaseBusyError, RliError, StoreUnavailableError, VoidAttemptError

_STATUSES: Final[Sequence[tuple[type[RliError], int]]] = (
    (ConflictError, CONFLICT),
    (LeaseBusyError, CONFLICT),
    (VoidAttemptError, CONFLICT),
    (StoreUnavailableError, UNREACHABLE),
)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a command failed.

    Attributes:
        code: class of the error, as docs/reference/errors.md has it; ``OSError`` or ``UsageError`` for those of the system
            and of the command's arguments.
        message: what happened, and on what.
        remedy: what to do; None if unknown.
    """

    code: str
    message: str
    remedy: str | None = None

    @classmethod
    def of(cls, error: RliError, table: str | None) -> Failure:
        """The failure of a command that was given this table."""
        said = [
            None if text is None else with_table(with_options(text), table) for text in (error.problem, error.remedy)
        ]
        return cls(type(error).__name__, said[0] or "", said[1])

    def report(self, *, as_json: bool, label: str = "error: ") -> None:
        """Say it on standard error, and with ``--json`` as ``{"error": …}`` on standard output, too."""
        print_error(self.message if self.remedy is None else f"{self.message}; {self.remedy}", label)
        if as_json:
            self.print_json()

    def print_json(self) -> None:
        """As ``{"error": …}`` on standard output."""
        print_json({"error": self})


def exit_status(error: RliError) -> int:
    """The exit status of a command that failed with this error."""
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), FAILED)


def asks_for_json(arguments: Sequence[str]) -> bool:
    """Whether a command's arguments ask for JSON, even if they cannot be understood otherwise."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in options
