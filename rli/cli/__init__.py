"""The command line: ``rli``."""

from __future__ import annotations

import gc
import os
import sys
import traceback
from typing import Final

from rli.cli.interruption import watch_for_interruption
from rli.cli.statuses import INTERRUPTED

_BUG: Final = 2


def main() -> None:
    """Run the command that the process's arguments name, and leave with its exit status.

    0: done; 1: a check found something; 2: wrong usage or input, or a failure; 3: other writers were first, or kept the lease;
    4: a store does not answer; 130: interrupted; 141: the reader of the output has closed it.
    """
    watch_for_interruption()
    _open_standard_streams()
    try:
        from rli.cli.app import app  # noqa: PLC0415  (Ctrl-C may come while everything is being loaded)

        # No collection has to visit what is loaded.
        gc.freeze()
        gc.enable()
        app(prog_name="rli")
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(INTERRUPTED)
    except Exception:  # noqa: BLE001  (status 1 would say that a check has found something)
        traceback.print_exc()
        sys.stderr.write("error: this is a bug of rli; please report it with the lines above\n")
        sys.exit(_BUG)


def _open_standard_streams() -> None:
    """Let no file of a table become standard output or standard error, where the caller has closed those."""
    for stream in range(3):
        try:
            os.fstat(stream)
        except OSError:
            # Takes the lowest number that is free.
            os.open(os.devnull, os.O_RDWR)
