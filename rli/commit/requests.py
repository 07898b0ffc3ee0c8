"""Folders of requests: files that a write makes before it has an instant, and keeps for all its attempts.

Each has a shared record, ``request/<name>``, which its process renews as long as it lives. The next write removes the
folders of dead processes. Nothing of the table depends on such a folder, so that this needs no lease.
"""

from __future__ import annotations

import posixpath
import re
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

from rli.commit.lease import HeldLease
from rli.commit.liveness import Holding
from rli.commit.shared_records import SharedRecords, shared_records
from rli.errors import LeaseLostError, RliError
from rli.index.contract import TableIndex
from rli.storage import Storage
from rli.telemetry import events
from rli.view import paths
from rli.view.definition import TableDefinition

REQUESTS: Final = "request/"
"""What the names of the shared records of requests begin with."""

_NAME: Final = re.compile(r"[0-9a-f]{32}")
"""Other names are passed over: a name becomes that of a folder which is deleted."""


@dataclass(frozen=True, slots=True)
class RequestFolder:
    """A folder for the files of one request.

    Attributes:
        storage: the table's folder.
        path: of the request's folder in it.
        holding: says that the process which keeps the request lives.
    """

    storage: Storage
    path: str
    holding: HeldLease

    def require_kept(self) -> None:
        """Raise ``LeaseLostError`` if another writer took this process for dead and removed the files."""
        try:
            self.holding.require_held()
        except LeaseLostError as error:
            raise LeaseLostError(
                f"another writer took this writer for dead and removed its request: folder={self.path}; this process was "
                "paused or cut off for too long: write the records again"
            ) from error


@contextmanager
def request_folder(storage: Storage, records: SharedRecords, seconds: float) -> Iterator[RequestFolder]:
    """A new folder, removed in the end: by this process, or by the next write if this process dies.

    Args:
        storage: the table's folder.
        records: of the table.
        seconds: for how long the folder is kept without a sign of life.
    """
    name = uuid4().hex
    path = paths.request_folder(name)
    holding = HeldLease(records, REQUESTS + name, name, seconds)
    holding.take(over=None)
    try:
        # After its record, and removed before it: a folder without a record is one that a dead process left.
        storage.make_folder(path)
        yield RequestFolder(storage, path, holding)
    finally:
        _remove(storage, path)
        try:
            holding.release()
        except RliError as error:
            # The write has ended as it has. The record lapses, and the next write removes it.
            events.LEFTOVER.log(folder=path, cause=error)


def request_folder_of(table: TableDefinition, index: TableIndex) -> AbstractContextManager[RequestFolder]:
    """A new folder for a request to write a table; see ``request_folder``."""
    return request_folder(table.storage, shared_records(table, index), table.require_settings().lease_seconds)


def remove_abandoned_requests(storage: Storage, records: SharedRecords) -> None:
    """Remove the folders of requests whose process is dead."""
    # Folders first: a living writer that is found by its folder is then found by its record too.
    folders = {posixpath.basename(folder) for folder in storage.list_folders(paths.REQUESTS)}
    stored = {name.removeprefix(REQUESTS): content for name, content in records.scan_control(REQUESTS)}
    now = time.time()
    for name in sorted(name for name in folders | stored.keys() if _NAME.fullmatch(name)):
        holder = stored.get(name)
        if holder is not None:
            # The record first: a process that is only paused finds that it has lost the folder.
            is_over = Holding.from_json(holder).is_over(now)
            if not (is_over and records.compare_and_set(REQUESTS + name, holder, None)):
                continue
        storage.delete_folder(paths.request_folder(name))
        events.REQUEST_REMOVED.log(folder=paths.request_folder(name))


def _remove(storage: Storage, path: str) -> None:
    try:
        storage.delete_folder(path)
    except OSError as error:
        # The write has ended as it has. The next one finds the folder, and removes it.
        events.LEFTOVER.log(folder=path, cause=error)
