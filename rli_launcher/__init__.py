"""Starts the command line before anything that takes long to import: Ctrl-C is told, from the first moment on."""

from __future__ import annotations

import gc
import signal
import sys


def main() -> None:
    """Run ``rli``; see ``rli.cli.main``."""
    # What is being loaded stays: collections would visit all of it, again and again. They begin when a command begins.
    gc.disable()
    try:
        from rli.cli import main as run  # noqa: PLC0415  (the package imports all of rli, which takes its time)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(128 + signal.SIGINT)
    run()
