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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

from rli.errors import LeaseLostError
from rli.hudi.timeline.timeline import Timeline
from rli.metadata_table.deltacommit import Deltacommit
from rli.metadata_table.upkeep import Upkept
from rli.publication.deltacommits import files_of_deltacommit, is_deltacommit_completed, publish_deltacommit
from rli.publication.instants import TableInstant
from rli.publication.metadata_table import kept_by_service, let_go, upkept_by_service
from rli.storage import Draft
from rli.view import paths
from rli.view.definition import TableDefinition
from rli.view.table_change import TableChange

_LOST: Final = (
    "that process carries out what was announced, so see what was done before calling again: rli timeline TABLE"
)


@dataclass(frozen=True, slots=True)
class NeededFiles:
    """What a commit refers to, besides what its tasks have flushed.

    Attributes:
        files: paths in the table.
        folders: whose new names must be durable.
    """

    files: Sequence[str]
    folders: Sequence[str]


@dataclass(frozen=True, slots=True)
class PreparedCommit:
    """A commit whose content is on the disk.

    Attributes:
        instant: inflight.
        content: of the completed instant.
        deltacommit: brings the commit into the metadata table, with its content; None if nothing changes there.
    """

    instant: TableInstant
    content: Draft
    deltacommit: tuple[Deltacommit, Draft] | None = None

    def publish(self, timeline: Timeline) -> None:
        """Complete the instant in one step, after its deltacommit.

        Args:
            timeline: loaded under the lease.

        Raises:
            FileNotFoundError: a successor in the lease has retracted a draft.
        """
        # Readers pass over the deltacommit as long as the instant is pending. In the other order, they would miss files of
        # a commit that they see.
        if self.deltacommit is not None:
            publish_deltacommit(self.instant.table.storage, *self.deltacommit)
        self.instant.complete_from(self.content, timeline)


@dataclass(frozen=True, slots=True)
class Fence:
    """Adds files to a table for as long as its process holds the lease.

    Every method raises ``LeaseLostError`` once another process has taken the lease over; then it has changed nothing. What was
    announced before is that process's to carry out.

    Attributes:
        table: the table.
        require_held: raises ``LeaseLostError`` once the lease is another one's.
    """

    table: TableDefinition
    require_held: Callable[[], None]

    def announce(self, instant: TableInstant, plan: bytes) -> None:
        """Put a plan on the timeline, as a requested instant; from then on every holder of the lease carries it out."""
        announcement = paths.announcement(instant.time, instant.action)
        # The announcement is the draft of the request itself. It stays after the publication, and leads the next holder of the
        # lease to the announced service, however far that got.
        draft = self.table.storage.draft(announcement, plan)
        self.table.storage.flush(folders=[posixpath.dirname(announcement)])
        with self._naming_the_loss(str(instant), "it was not announced, call it again"):
            self.require_held()
            instant.announce_from(draft)

    def schedule(self, instant: TableInstant, plan: bytes) -> None:
        """Put a plan on the timeline for whoever carries it out later, of any engine: no holder of the lease has to."""
        with self._prepared(plan) as draft:
            instant.announce_from(draft)

    def start(self, instant: TableInstant, change: TableChange, content: bytes = b"") -> None:
        """Say that a service begins to change the table, unless that was said before.

        Args:
            instant: requested.
            change: what the service is about to change.
            content: of the inflight state.
        """
        # Before the change shows. In the other order, a reader of Hudi could list files by a metadata table that lacks
        # this change.
        if change.concerns_metadata:
            let_go(kept_by_service(self.table, change), self, self.table.reloaded())
        with self._prepared(content) as draft:
            instant.begin_from(draft)

    def complete(self, instant: TableInstant, change: TableChange, content: bytes) -> None:
        """Complete the instant of a service, unless it is completed.

        Args:
            instant: inflight.
            change: what the service has changed.
            content: of the completed instant.
        """
        # A repeat by the next holder: the service had completed, and only its announcement was left.
        if instant.is_completed:
            return
        if change.concerns_metadata:
            self._bring_into_metadata_table(instant.time, change)
        # Loaded under the lease, for the completion time: it must be greater than all times that any reader has seen.
        timeline = self.table.load_timeline()
        with self._prepared(content) as draft:
            instant.complete_from(draft, timeline)
        instant.flush()

    def prepare_commit(
        self, instant: TableInstant, change: TableChange, needed: NeededFiles, upkept: Upkept
    ) -> PreparedCommit:
        """Make the content of a commit, and have it on the disk with all that it needs; then the lease is checked.

        The definition of the table was read under the lease, when the write was checked.

        Args:
            instant: inflight, of a write.
            change: what the write changes.
            needed: the files that must be durable before the commit is visible.
            upkept: what becomes of the metadata table.
        """
        if change.changes_files:
            let_go(upkept.partitions, self, self.table)
        storage, path = self.table.storage, paths.commit_content(instant.time)
        files, deltacommit = [path, *needed.files], None
        if upkept.deltacommit is not None:
            files.append(paths.deltacommit_content(instant.time))
            deltacommit = upkept.deltacommit, storage.unflushed().draft(files[-1], upkept.deltacommit.content)
        # The order of P4: the draft, then the check of the lease, then (by the caller) the publication. If the lease is
        # held at the check, every successor comes later, and finds the draft.
        draft = storage.unflushed().draft(path, self.table.timeline_layout.encode(change.commit_metadata))
        storage.flush(files=files, folders=needed.folders)
        self.require_held()
        return PreparedCommit(instant, draft, deltacommit)

    def create(self, path: str, content: bytes) -> bool:
        """Write a file unless one exists; returns whether it was written."""
        self.table.storage.make_folder(posixpath.dirname(path))
        with self._prepared(content) as draft:
            created = self.table.storage.publish(draft, path)
        self.table.storage.flush(folders=[posixpath.dirname(path)])
        return created

    def replace(self, path: str, content: bytes) -> None:
        """Write a file in place of the one of that name, in one step."""
        with self._prepared(content) as draft:
            self.table.storage.replace(draft, path)
        self.table.storage.flush(folders=[posixpath.dirname(path)])

    def _bring_into_metadata_table(self, instant: str, change: TableChange) -> None:
        """Complete the deltacommit of a table service, unless it is completed."""
        storage, layout = self.table.storage, self.table.timeline_layout
        if is_deltacommit_completed(storage, layout, instant):
            return
        # What an earlier attempt has left. No later attempt has given a file one of these names.
        left = files_of_deltacommit(storage, instant)
        upkept = upkept_by_service(self.table, instant, change)
        let_go(upkept.partitions, self, self.table.reloaded())
        if upkept.deltacommit is None:
            return
        for path, content in upkept.deltacommit.files.items():
            self.create(path, content)
        self.require_held()
        storage.discard_files(path for path in left if path not in upkept.deltacommit.files)
        with self._prepared(upkept.deltacommit.content) as draft:
            publish_deltacommit(storage, upkept.deltacommit, draft)

    @contextmanager
    def _prepared(self, content: bytes) -> Iterator[Draft]:
        storage, path = self.table.storage, f"{paths.PREPARED}/{uuid4().hex}"
        draft = storage.draft(path, content)
        try:
            with self._naming_the_loss(f"table={self.table.location}", _LOST):
                self.require_held()
                yield draft
        except BaseException:
            # If it is decided that the draft gets its name, the next holder of the lease sees to it.
            # Only retracted, not settled: to finish a decided publication needs the lease, and this process may have
            # lost it.
            storage.retract(path)
            raise
        storage.delete_files([path])

    @contextmanager
    def _naming_the_loss(self, what: str, remedy: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise LeaseLostError(f"another process took the lease over: {what}", remedy=remedy) from error


def settle_prepared(fence: Fence) -> None:
    """Fence off all former holders of the lease. The caller has the lease, and prepares nothing itself yet."""
    storage = fence.table.storage
    listed = storage.list_files(paths.PREPARED, recursive=True)
    prepared = [file for file in listed if posixpath.dirname(file.path) == paths.PREPARED]
    contents = [file for file in listed if posixpath.dirname(file.path) == f"{paths.PREPARED}/drafts"]
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
