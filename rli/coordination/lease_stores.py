"""Stores that keep the leases of tables, apart from any index (``lease=URL``).

A process opens each store once and keeps it open: all tables and threads share the connection.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Lock
from typing import Final

from rli.errors import IndexNotFoundError
from rli.store.contract import Store
from rli.store.registry import open_store
from rli.urls import StoredUrl

_OPENED: Final[dict[tuple[int, str], Store]] = {}
_OPENING: Final = Lock()


class LeaseRecords:
    """The shared records of one table in such a store; ``SharedRecords`` says what each method promises.

    A store that is not there has no records. Setting one makes the store, reading does not: a report on a table changes nothing.

    Args:
        url: of the store of the leases; many tables may share it.
        table_id: identity of the table, which begins the names of its records.
    """

    def __init__(self, url: str, table_id: str) -> None:
        self._url = url
        # One store for as long as a write lasts, also if its files are removed and another process makes them again.
        self._store: Store | None = None
        self._prefix = f"lease/{table_id}/"

    @property
    def place(self) -> Store | None:
        """The store; None if it is not there."""
        return self._opened()

    def read_control(self, name: str) -> bytes | None:
        """The value of a record, None where there is none."""
        store = self._opened()
        if store is None:
            return None
        with _forgotten_once_gone(store):
            return store.read_control(self._prefix + name)

    def scan_control(self, prefix: str) -> list[tuple[str, bytes]]:
        """The records whose name begins with ``prefix``, ordered by name."""
        store = self._opened()
        if store is None:
            return []
        with _forgotten_once_gone(store):
            found = store.scan_control(self._prefix + prefix)
        return [(name.removeprefix(self._prefix), value) for name, value in found]

    def compare_and_set(self, name: str, expected: bytes | None, value: bytes | None) -> bool:
        """Set a record to ``value`` (None removes it) if it is ``expected`` (None: absent); whether it was set."""
        store = self._store = self._store or lease_store(self._url)
        with _forgotten_once_gone(store):
            return store.compare_and_set(self._prefix + name, expected, value)

    def _opened(self) -> Store | None:
        """The store, None if it is not there."""
        if self._store is None:
            with suppress(IndexNotFoundError):
                self._store = _open(self._url, create=False)
        return self._store


def lease_store(url: str) -> Store:
    """The store that a table's settings name for its lease, made if it is not there.

    Raises:
        SettingsError: no store has such a URL.
        StoreUnavailableError: it does not answer.
    """
    return _open(url, create=True)


def _open(url: str, *, create: bool) -> Store:
    # After a fork, a store is of the parent alone.
    key = (os.getpid(), url)
    with _OPENING:
        if key not in _OPENED:
            _OPENED[key] = open_store(StoredUrl(url), create=create)
        return _OPENED[key]


@contextmanager
def _forgotten_once_gone(store: Store) -> Iterator[None]:
    """Let the next write open a store again that was dropped; this one fails with ``IndexNotFoundError``."""
    try:
        yield
    except IndexNotFoundError as error:
        with _OPENING:
            for key in [key for key, opened in _OPENED.items() if opened is store]:
                # Other threads may be at work in it, so it is left to them and not closed.
                del _OPENED[key]
        raise IndexNotFoundError(f"the store of the lease is gone ({error})", remedy="write again") from error
