"""Folders of requests: files that a write makes before it has an instant, and keeps for all its attempts.

Each has a shared record, ``request/<name>``, which its process renews as long as it lives. The next write removes the
folders of dead processes. Nothing of the table depends on such a folder, so that this needs no lease.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from uuid import uuid4

from rli.coordination.contract import Liveness, SignsOfLife
from rli.coordination.of_table import coordination_of
from rli.errors import LeaseLostError, RliError
from rli.index.contract import TableIndex
from rli.storage import Storage
from rli.telemetry import events
from rli.view import paths
from rli.view.definition import TableDefinition


@dataclass(frozen=True, slots=True)
class RequestFolder:
    """A folder for the files of one request.

    Attributes:
        storage: the table's folder.
        path: of the request's folder in it.
        signs: that the process which keeps the request lives.
    """

    storage: Storage
    path: str
    signs: SignsOfLife

    def require_kept(self) -> None:
        """Raise ``LeaseLostError`` if another writer took this process for dead and removed the files."""
        try:
            self.signs.require_held()
        except LeaseLostError as error:
            raise LeaseLostError(
                f"another writer took this writer for dead and removed its request: folder={self.path}",
                remedy="this process was paused or cut off for too long: write the records again",
            ) from error

    @contextmanager
    def of_attempt(self) -> Iterator[RequestFolder]:
        """A folder in this one for the files of one attempt, removed in the end."""
        path = f"{self.path}/{uuid4().hex}"
        self.storage.make_folder(path)
        try:
            yield replace(self, path=path)
        finally:
            _remove(self.storage, path)


@contextmanager
def request_folder(storage: Storage, liveness: Liveness) -> Iterator[RequestFolder]:
    """A new folder, removed in the end: by this process, or by the next write if this process dies.

    Args:
        storage: the table's folder.
        liveness: of the processes that keep requests of the table.
    """
    while (signs := liveness.begin(name := uuid4().hex)) is None:
        continue  # the name is another one's
    path = paths.request_folder(name)
    try:
        # After its record, and removed before it: a folder without a record is one that a dead process left.
        storage.make_folder(path)
        yield RequestFolder(storage, path, signs)
    finally:
        _remove(storage, path)
        try:
            signs.release()
        except (OSError, RliError) as error:
            # The write has ended as it has. The record lapses, and the next write removes it.
            events.LEFTOVER.log(folder=path, cause=error)


def request_folder_of(table: TableDefinition, index: TableIndex) -> AbstractContextManager[RequestFolder]:
    """A new folder for a request to write a table; see ``request_folder``."""
    return request_folder(table.storage, coordination_of(table, index).requests)


def remove_abandoned_requests(storage: Storage, liveness: Liveness) -> None:
    """Remove the folders of requests whose process is dead.

    Args:
        storage: the table's folder.
        liveness: of the processes that keep requests of the table.
    """
    # Folders first: a living writer that is found by its folder is then found by its record too.
    folders = {posixpath.basename(folder) for folder in storage.list_folders(paths.REQUESTS)}
    for name in sorted(folders | liveness.signs().keys()):
        # The record first: a process that is only paused finds that it has lost the folder.
        if liveness.end(name):
            storage.delete_folder(paths.request_folder(name))
            events.REQUEST_REMOVED.log(folder=paths.request_folder(name))


def _remove(storage: Storage, path: str) -> None:
    try:
        storage.delete_folder(path)
    except OSError as error:
        # The write has ended as it has. The next one finds the folder, and removes it.
        events.LEFTOVER.log(folder=path, cause=error)
