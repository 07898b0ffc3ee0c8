"""The command line: ``rli``."""

from __future__ import annotations

import signal
import sys
from typing import Final

from rli.cli.interruption import watch_for_interruption

INTERRUPTED: Final = 128 + signal.SIGINT
"""Exit status after Ctrl-C, as shells have it."""


def main() -> None:
    """Run the command that the process's arguments name, and leave with its exit status.

    0: done; 1: a check found something; 2: wrong usage or input; 130: interrupted.
    """
    watch_for_interruption()
    try:
        from rli.cli.app import app  # noqa: PLC0415  (Ctrl-C may come while everything is being loaded)

        app(prog_name="rli")
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(INTERRUPTED)
