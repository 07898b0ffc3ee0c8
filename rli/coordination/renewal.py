"""A thread that renews a file or record at intervals until it is ended."""

from __future__ import annotations

import threading
from collections.abc import Callable

from rli.errors import RliError, StoreUnavailableError


class Renewal:
    """Calls ``renew`` at intervals from ``begin`` until ``end``.

    A failure to reach a storage is passed over: the next call may reach it. Any other error of rli ends the renewals. No error is
    told: the holder's next check finds a file or record that was not renewed.

    Args:
        seconds: between two calls.
        renew: the call.
        name: of the thread.
    """

    def __init__(self, seconds: float, renew: Callable[[], None], name: str) -> None:
        self._seconds = seconds
        self._renew = renew
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"rli {name}", daemon=True)

    def begin(self) -> None:
        """Start the thread, which happens once; after ``end`` it makes no call."""
        self._thread.start()

    def end(self) -> None:
        """Stop, also before the beginning; when this returns, no call is under way."""
        self._ended.set()
        # An interruption may come between the taking of a record and the start of the thread.
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(self._seconds):
            try:
                self._renew()
            except (OSError, StoreUnavailableError):
                continue
            except RliError:
                return
