"""An instant that this process has requested, and its entry in the registry of writers.

A writer undoes its own write here, without the lease. Undoing another process's write needs the lease:
``rli.commit.recovery``.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Self

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

from rli.commit.recovery import exclusive, is_published, undo_unpublished
from rli.coordination.contract import SignsOfLife, Writers
from rli.coordination.of_table import coordination_of
from rli.errors import LeaseLostError
from rli.hudi.lock_settings import is_lock_named
from rli.hudi.timeline.instant import Action, new_instant_time
from rli.hudi.timeline.rollback_metadata import RollbackPlan
from rli.hudi.timeline.timeline import Timeline
from rli.index.contract import TableIndex
from rli.publication.instants import TableInstant
from rli.view import paths
from rli.view.definition import TableDefinition

_MOST_REQUESTS: Final = 5


@dataclass(frozen=True, slots=True)
class AnnouncedInstant:
    """A requested instant. Others leave its files alone as long as its writer gives signs of life.

    Attributes:
        on_timeline: the instant.
        signs: of life of this writer, until they are released.
    """

    on_timeline: TableInstant
    signs: SignsOfLife

    @classmethod
    def request(
        cls, table: TableDefinition, index: TableIndex, timeline: Timeline, action: Action, *, patience: float
    ) -> Self:
        """Request a new instant, after registering this writer.

        Args:
            table: the table.
            index: its index.
            timeline: of the table.
            action: of the instant.
            patience: seconds; for how long to wait at most for the lease and the lock, on a table with a lock of Hudi.

        Raises:
            LeaseBusyError: one of them was not free in that time.
            LeaseLostError: one of them was lost meanwhile; nothing is requested.
        """
        coordination = coordination_of(table, index)
        if not coordination.exclusion.covers_instants:
            return cls._requested(table, coordination.writers, timeline.latest_time, action)
        # A release of Hudi may delete the lock file of the next holder. Nothing is requested then.
        attempts = Retrying(
            stop=stop_after_attempt(_MOST_REQUESTS), retry=retry_if_exception_type(LeaseLostError), reraise=True
        )
        deadline = time.monotonic() + patience
        return attempts(cls._requested_alone, table, index, coordination.writers, action, deadline)

    @classmethod
    def _requested_alone(
        cls, table: TableDefinition, index: TableIndex, writers: Writers, action: Action, deadline: float
    ) -> Self:
        """Request an instant under the lease and the lock, as writers of Hudi do, or leave nothing of it."""
        announced: Self | None = None
        registered: Self | None = None
        patience = max(deadline - time.monotonic(), 0.0)
        try:
            with exclusive(table, index, "request of an instant", patience=patience, is_unlocked=True) as lease:
                # Before the lock: a registration waits for the disk, and others wait for the lock.
                registered = cls._registered(table, writers, table.load_timeline().latest_time, action)
                # If this process dies now, an instant of this time on the timeline is another engine's.
                table.storage.write_bytes(paths.unrequested(registered.time), b"")
                with lease.locked(is_tentative=True) as lock:
                    # Writers of Hudi take a later instant for a write that began later.
                    latest = table.load_timeline().latest_time
                    candidate, registered = registered, None
                    announced = cls._requested(table, writers, latest, action, candidate)
                    # If the lock was lost, a writer of Hudi may have requested a later instant before this one.
                    lock.require_held()
                table.storage.delete_files([paths.unrequested(announced.time)])
        except BaseException:
            # No other process withdraws it, because this process would go on to renew its heartbeat.
            if announced is not None:
                announced.withdraw()
            # An instant of this time on the timeline is another engine's.
            if registered is not None:
                registered.forget()
            raise
        return announced

    @classmethod
    def _requested(
        cls,
        table: TableDefinition,
        writers: Writers,
        latest: str | None,
        action: Action,
        registered: Self | None = None,
    ) -> Self:
        """A requested instant after the latest one; the registered one, if it is such an instant."""
        announced = registered or cls._registered(table, writers, latest, action)
        while True:
            if latest is None or announced.time > latest:
                announced = announced.beating(writers)
                if announced.try_request():
                    return announced
            announced.forget()
            latest = max(announced.time, latest or "")
            announced = cls._registered(table, writers, latest, action)

    @classmethod
    def _registered(cls, table: TableDefinition, writers: Writers, latest: str | None, action: Action) -> Self:
        """An instant after the latest one, with this process as its writer, and not yet on the timeline."""
        while True:
            instant = new_instant_time(table.now(), latest)
            # The record and the work folder come before the request on the timeline. A crash in between leaves a
            # folder, and recovery looks at folders. A request without a folder would look like a pending instant of
            # another engine, and stay for ever.
            signs = writers.register(instant)
            if signs is not None:
                return cls(TableInstant(table, instant, action), signs)
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
        self.signs.require_held()
        # A process that undoes a write removes its request before its record, and a record in files may have been made again
        # by a renewal that was paused. The folder does not tell: this write may have made it again.
        if self.on_timeline.plan() is None:
            raise self._rolled_back_by_other_engine() or self.taken_for_dead()
        if is_lock_named(self.table.properties.raw) and self._is_to_be_rolled_back():
            raise self._rolled_back()

    def taken_for_dead(self) -> LeaseLostError:
        """The error of a writer whose files others have removed."""
        return LeaseLostError(
            f"another writer took this writer for dead and removed its files: instant={self.time}",
            remedy="this writer was paused or cut off for too long, write again",
        )

    def _rolled_back_by_other_engine(self) -> LeaseLostError | None:
        """The error of a writer whose instant another engine rolled back; None if the timeline shows no such rollback."""
        instants = self.table.load_timeline().instants
        is_told = any(found.action == Action.ROLLBACK and found.time > self.time for found in instants)
        return self._rolled_back() if is_told else None

    def _is_to_be_rolled_back(self) -> bool:
        """Whether another engine is about to roll this write back: its plan names files that the write may have by now."""
        rollbacks = [found for found in self.table.load_timeline().pending if found.action == Action.ROLLBACK]
        plans = [(found, TableInstant(self.table, found.time, Action.ROLLBACK).plan()) for found in rollbacks]
        return any(
            RollbackPlan.from_avro(plan, found.file_name).instant_time == self.time for found, plan in plans if plan
        )

    def _rolled_back(self) -> LeaseLostError:
        return LeaseLostError(
            f"another engine rolled this write back while it was under way: instant={self.time}",
            remedy=(
                "let writers of Hudi run with hoodie.write.concurrency.mode=optimistic_concurrency_control, "
                "hoodie.clean.failed.writes.policy=LAZY and the lock of the table (docs/how-to/beside-hudi-writers.md), "
                "and write again"
            ),
        )

    def retracted(self) -> bool:
        """Retract the drafts of the write; True if neither its deltacommit nor its commit can be published any more."""
        return all(self.table.storage.retract(path) for path in self._drafts)

    def settle(self) -> None:
        """Retract the drafts of the write, or finish their publication if that is decided. The caller holds the lease."""
        for path in self._drafts:
            self.table.storage.settle(path)

    @property
    def _drafts(self) -> tuple[str, str]:
        """In the order in which they are published."""
        return paths.deltacommit_content(self.time), paths.commit_content(self.time)

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
            # First the draft, then the question (P4). In the other order, a publication by this very write, whose
            # answer was lost, could arrive between the two, and its files would be removed from under a commit.
            if self.retracted() and not self.is_published():
                undo_unpublished(self.table, self.time, promoted)
        finally:
            # A record that is renewed without a write behind it would keep others from clearing up.
            was_held = self.signs.release()
        return was_held

    def beating(self, writers: Writers) -> Self:
        """The instant with heartbeats for writers of Hudi, if the table shares a lock with them.

        The caller knows that no other engine has the instant: else the heartbeats would be that engine's.
        """
        try:
            return replace(self, signs=writers.beating(self.time, self.signs))
        except BaseException:
            self.forget()
            raise

    def try_request(self) -> bool:
        """Request the instant; False if the time is taken."""
        try:
            return self.on_timeline.request()
        except BaseException:
            self.signs.release()
            raise

    def forget(self) -> None:
        """End a registration whose instant was not requested."""
        try:
            self.table.storage.delete_folder(self.folder)
        finally:
            self.signs.release()
