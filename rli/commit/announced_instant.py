"""An instant that this process has requested, and the shared record that says so."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from rli.commit.beginnings import note_beginning
from rli.commit.lease import HeldLease
from rli.commit.recovery import is_published, undo_unpublished, writer_record
from rli.commit.shared_records import shared_records
from rli.errors import LeaseLostError
from rli.hudi.timeline.instant import Action, new_instant_time
from rli.hudi.timeline.timeline import Timeline
from rli.index.contract import TableIndex
from rli.publication.instants import TableInstant
from rli.view import paths
from rli.view.definition import TableDefinition


@dataclass(frozen=True, slots=True)
class AnnouncedInstant:
    """A requested instant. Others leave its files alone as long as its record shows signs of life.

    Attributes:
        on_timeline: the instant.
        record: of this writer, renewed until it is released.
    """

    on_timeline: TableInstant
    record: HeldLease

    @classmethod
    def request(cls, table: TableDefinition, index: TableIndex, timeline: Timeline, action: Action) -> Self:
        """Request a new instant, after registering this writer in the shared records."""
        records, latest = shared_records(table, index), timeline.latest_time
        while True:
            instant = new_instant_time(table.now(), latest)
            record = HeldLease(records, writer_record(instant), instant, table.require_settings().lease_seconds)
            announced = cls(TableInstant(table, instant, action), record)
            if record.take(over=None):
                try:
                    if announced._was_requested():
                        return announced
                except BaseException:
                    record.release()
                    raise
                record.release()
            latest = instant

    @property
    def table(self) -> TableDefinition:
        return self.on_timeline.table

    @property
    def time(self) -> str:
        return self.on_timeline.time

    @property
    def folder(self) -> str:
        """The write's work folder."""
        return paths.work_folder(self.time)

    def require_not_undone(self) -> None:
        """Raise ``LeaseLostError`` if another writer took this one for dead before it had the lease."""
        self.record.require_held()
        # A process that undoes a write removes its request before its record, and a record in files may have been made again
        # by a renewal that was paused. The folder does not tell: this write may have made it again.
        if self.on_timeline.plan() is None:
            raise self.taken_for_dead()

    def taken_for_dead(self) -> LeaseLostError:
        """The error of a writer whose files others have removed."""
        return LeaseLostError(
            f"another writer took this writer for dead and removed its files: instant={self.time}; this "
            "writer was paused or cut off for too long, write again"
        )

    def retracted(self) -> bool:
        """Retract the draft of the commit; True if the write can no longer be published."""
        return self.table.storage.retract(paths.commit_content(self.time))

    def settle(self) -> None:
        """Retract the draft of the commit, or finish its publication if that is decided. The caller holds the lease."""
        self.table.storage.settle(paths.commit_content(self.time))

    def is_published(self) -> bool:
        """Whether the instant is part of the table."""
        return is_published(self.table, self.time)

    def withdraw(self, promoted: Iterable[str] = ()) -> bool:
        """Remove every trace of a write that is not published.

        Args:
            promoted: the files that it may have brought into the table.

        Returns:
            False if another process had taken this one for dead, and has removed them.
        """
        was_held = False
        try:
            if self.retracted() and not self.is_published():
                undo_unpublished(self.table, self.time, promoted)
        finally:
            # A record that is renewed without a write behind it would keep others from clearing up.
            was_held = self.record.release()
        return was_held

    def _was_requested(self) -> bool:
        storage = self.table.storage
        # By its folder the write is found, after a power cut too, whatever else is left of it.
        storage.make_folder(self.folder)
        note_beginning(storage, self.time, self.table.require_settings().index_generation)
        storage.sync([paths.WORK, posixpath.dirname(paths.WORK)])
        if self.on_timeline.request():
            return True
        storage.delete_folder(self.folder)
        return False
