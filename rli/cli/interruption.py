"""Ctrl-C that is not lost.

Python drops an exception that is raised while it runs a destructor or a callback, also the ``KeyboardInterrupt`` of a
Ctrl-C that comes in such a moment, and Arrow has signal handlers of its own while it reads. So it is noted that it
came, and long work asks for it from time to time.
"""

from __future__ import annotations

import signal
from types import FrameType

_REQUESTED = False


def watch_for_interruption() -> None:
    """Note every Ctrl-C from now on; it still raises ``KeyboardInterrupt`` at once."""
    signal.signal(signal.SIGINT, _note)


def raise_if_interrupted() -> None:
    """Raise ``KeyboardInterrupt`` for a Ctrl-C that came and was not yet dealt with."""
    if _REQUESTED:
        raise KeyboardInterrupt


def interruption_is_dealt_with() -> None:
    """Forget the last Ctrl-C."""
    global _REQUESTED  # noqa: PLW0603  (a signal's handler has no other place to note it)
    _REQUESTED = False


def _note(_signal: int, _frame: FrameType | None) -> None:
    global _REQUESTED  # noqa: PLW0603
    _REQUESTED = True
    raise KeyboardInterrupt
