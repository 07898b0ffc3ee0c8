"""The lease of a table: one writer at a time checks and publishes. Kept in the index's store.

A lease expires unless it is renewed, so that a dead holder stops nobody. A holder that was paused past the expiry
is kept from publishing by the work folder (``rli.table.publication``), not by its own clock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from rli.errors import LeaseLostError, StoreUnavailableError
from rli.store.contract import Store
from rli.table.liveness import Holding, ProcessId

_LEASE: Final = "lease"
_SECONDS_HELD: Final = 30.0
_RENEWALS_PER_TERM: Final = 3
_PAUSE_SECONDS: Final = 0.05


class KeptHolding:
    """A control record that says what this process holds, renewed by a thread until it is released."""

    def __init__(self, store: Store, name: str, writer: str) -> None:
        self._store = store
        self._name = name
        self._writer = writer
        self._process = ProcessId.current()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._renew_until_ended, name=f"rli {name}", daemon=True)

    def take(self, *, over: bytes | None) -> bool:
        """Begin to hold, in place of the record ``over`` (None: of none); returns whether that succeeded."""
        taken = self._store.compare_and_set(self._name, over, self._content())
        if taken:
            self._thread.start()
        return taken

    def require_held(self) -> None:
        """Raise ``LeaseLostError`` if another process has taken over."""
        if self._own_record() is None:
            raise LeaseLostError(
                f"another writer took over: record={self._name}; this writer was paused or cut off for too long, "
                "write again"
            )

    def release(self) -> None:
        """Stop holding; a record that another process has taken over is left alone."""
        self._ended.set()
        self._thread.join()
        own = self._own_record()
        if own is not None:
            self._store.compare_and_set(self._name, own, None)

    def _renew_until_ended(self) -> None:
        while not self._ended.wait(_SECONDS_HELD / _RENEWALS_PER_TERM):
            try:
                own = self._own_record()
                if own is None:
                    return
                self._store.compare_and_set(self._name, own, self._content())
            except StoreUnavailableError:
                continue  # the next round may reach it; if none does in time, the record expires

    def _own_record(self) -> bytes | None:
        stored = self._store.read_control(self._name)
        return stored if stored is not None and Holding.from_json(stored).writer == self._writer else None

    def _content(self) -> bytes:
        return Holding(self._writer, self._process, time.time() + _SECONDS_HELD).to_json()


@contextmanager
def table_lease(store: Store, writer: str) -> Iterator[Callable[[], None]]:
    """Hold the table's lease; waits for the present holder to release it, to expire or to die.

    Yields:
        A function that raises ``LeaseLostError`` once another writer has taken the lease over.
    """
    holding = KeptHolding(store, _LEASE, writer)
    while True:
        stored = store.read_control(_LEASE)
        if (stored is None or Holding.from_json(stored).is_over(time.time())) and holding.take(over=stored):
            break
        time.sleep(_PAUSE_SECONDS)
    try:
        yield holding.require_held
    finally:
        holding.release()
