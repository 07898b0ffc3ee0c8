"""A thread that renews a file or record at intervals until it is ended."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from rli.errors import StoreUnavailableError


class Renewal:
    """Calls ``renew`` at intervals until it is ended, or until ``renew`` raises anything but a failure to reach a storage.

    Args:
        seconds: between two calls.
        renew: the call. No error of it is told: the holder's next check finds a file or record that was not renewed.
        name: of the thread.
    """

    def __init__(self, seconds: float, renew: Callable[[], None], name: str) -> None:
        self._seconds = seconds
        self._renew = renew
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"rli {name}", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Stop; when this returns, no call is under way."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(self._seconds):
            with suppress(OSError, StoreUnavailableError):
                self._renew()
