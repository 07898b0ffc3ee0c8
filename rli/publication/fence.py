"""The fence: changes of a table that only the present holder of its lease can make.

A process may be paused between any two lines, lose the lease, and wake up later. So each file that a service adds gets its
name from a *prepared file* (a draft of the storage):

1. the holder writes the prepared file;
2. it asks whether it still holds the lease;
3. it gives the file its name, which fails if the prepared file is gone.

A successor settles all prepared files after it has the lease, and only then looks at the table. If the holder asked
before the takeover, its file was there before the takeover. So either the successor sees the name, or the holder fails
(docs/protocol.md, P4 and P21). What a service deletes needs no fence: the names of these files are never used twice,
and the successor finishes an announced service before anything else.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import uuid4

from rli.errors import LeaseLostError
from rli.publication.instants import TableInstant
from rli.storage import Draft
from rli.view import paths
from rli.view.definition import TableDefinition


@dataclass(frozen=True, slots=True)
class Fence:
    """Adds files to a table for as long as its process holds the lease.

    Every method raises ``LeaseLostError`` once another process has taken the lease over; then it has changed nothing.

    Attributes:
        table: the table.
        require_held: raises ``LeaseLostError`` once the lease is another one's.
    """

    table: TableDefinition
    require_held: Callable[[], None]

    def announce(self, instant: TableInstant, plan: bytes) -> None:
        """Put a plan on the timeline, as a requested instant; from then on every holder of the lease carries it out."""
        mark = paths.service_mark(instant.time, instant.action)
        draft = self.table.storage.draft(mark, plan)
        self.table.storage.sync(folders=[posixpath.dirname(mark)])
        with self._naming_the_loss(str(instant)):
            self.require_held()
            instant.announce_from(draft)

    def start(self, instant: TableInstant, content: bytes = b"") -> None:
        """Say that work on a requested instant begins, unless that was said before."""
        with self._prepared(content) as draft:
            instant.begin_from(draft)

    def complete(self, instant: TableInstant, content: bytes) -> None:
        """Complete an instant, unless it is completed."""
        if instant.is_completed:
            return
        timeline = self.table.load_timeline()
        with self._prepared(content) as draft:
            instant.complete_from(draft, timeline)
        instant.sync()

    def create(self, path: str, content: bytes) -> bool:
        """Write a file unless one exists; returns whether it was written."""
        self.table.storage.make_folder(posixpath.dirname(path))
        with self._prepared(content) as draft:
            created = self.table.storage.publish(draft, path)
        self.table.storage.sync(folders=[posixpath.dirname(path)])
        return created

    def replace(self, path: str, content: bytes) -> None:
        """Write a file in place of the one of that name, in one step."""
        with self._prepared(content) as draft:
            self.table.storage.replace(draft, path)
        self.table.storage.sync(folders=[posixpath.dirname(path)])

    @contextmanager
    def _prepared(self, content: bytes) -> Iterator[Draft]:
        storage, path = self.table.storage, f"{paths.PREPARED}/{uuid4().hex}"
        draft = storage.draft(path, content)
        try:
            with self._naming_the_loss(f"table={self.table.location}"):
                self.require_held()
                yield draft
        except BaseException:
            # If it is decided that the draft gets its name, the next holder of the lease sees to it.
            storage.retract(path)
            raise
        storage.delete_files([path])

    @contextmanager
    def _naming_the_loss(self, what: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise LeaseLostError(
                f"another process took the lease over: {what}; nothing was done, call it again"
            ) from error


def settle_prepared(fence: Fence) -> None:
    """Fence off all former holders of the lease. The caller has the lease, and prepares nothing itself yet."""
    storage = fence.table.storage
    prepared, contents = (storage.list_files(folder) for folder in (paths.PREPARED, f"{paths.PREPARED}/drafts"))
    if prepared or contents:
        # What was listed before is of no successor, which would lose its content before it is published.
        fence.require_held()
    for file in prepared:
        storage.settle(file.path)
        storage.delete_files([file.path])
    storage.delete_files(file.path for file in contents)


def remove_unfinished_drafts(fence: Fence) -> None:
    """Remove contents of drafts that were never finished; the caller has the lease, and prepares nothing itself yet.

    In an object store a draft is there with its decision, which its writer makes after the content (P22). A writer that
    was paused in between asks for the lease after it has made the decision, and fails.
    """
    storage, folders = fence.table.storage, (paths.UNDOING, paths.SERVICES, paths.PREPARED)
    contents = [(folder, content) for folder in folders for content in storage.list_files(f"{folder}/drafts")]
    if contents:
        # As for prepared files.
        fence.require_held()
    for folder, content in contents:
        decision, _, _ = content.name.rpartition(".")
        if not storage.exists(f"{folder}/{decision}"):
            storage.delete_files([content.path])
