"""Runs commands of rli in the process of a test, as Typer's own runner does.

That one builds all commands again for each that it runs, which takes longer than most of them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from typer.main import get_command
from typer.testing import CliRunner

from rli.cli.app import app


@dataclass(frozen=True)
class Ended:
    """What a command left: its exit status, what it printed, and an error that it did not tell of itself."""

    status: int
    out: str
    err: str
    error: Exception | None


def run_command(arguments: Sequence[str]) -> Ended:
    """Run ``rli`` with arguments."""
    status, error = 0, None
    with CliRunner().isolation() as (out, err, _):
        try:
            _commands().main(args=[*arguments], prog_name="rli")
        except SystemExit as ended:
            status = int(ended.code or 0)
        except Exception as raised:  # noqa: BLE001  (the caller looks at it)
            status, error = 1, raised
        sys.stdout.flush()
        sys.stderr.flush()
        return Ended(status, out.getvalue().decode(), err.getvalue().decode(), error)


@cache
def _commands() -> Any:
    return get_command(app)
