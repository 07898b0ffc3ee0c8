"""What the records in the commit log of a table's index do: the shape of their classes.

``rli.index.record.sync.actions`` has one class for each kind of record.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import ClassVar

from rli.file_group.journal import Journal
from rli.file_group.journal_list import journal_bytes
from rli.hudi.timeline.instant import Instant
from rli.index.record.entries.stored_entries import StoredEntries
from rli.index.record.log.record import LogRecord, RecordDraft
from rli.index.record.log.state import LogState
from rli.storage import Storage
from rli.store.contract import Watermarks
from rli.tasks import InProcess, TaskRunner
from rli.view.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Following:
    """A table and its index, while the index follows the table.

    Attributes:
        snapshot: the table.
        index: its index.
        log: the commit log of the index.
        tasks: runs the work on each journal or file group.
        held: journals that the caller has just written, by their paths.
    """

    snapshot: Snapshot
    index: StoredEntries
    log: LogState
    tasks: TaskRunner
    held: Mapping[str, Journal] = field(default_factory=dict)

    @property
    def storage(self) -> Storage:
        """The table's storage."""
        return self.snapshot.table.storage

    def runner_for(self, instants: Sequence[str]) -> TaskRunner:
        """What applies the journals of some commits: the engine if they are large, else this process."""
        if isinstance(self.tasks, InProcess):
            return self.tasks
        return InProcess() if journal_bytes(self.storage, instants) <= self.index.limits.small_journals else self.tasks


class Evidence(Enum):
    """What a record tells a process that looks for the last commits of rli in the log."""

    COMMIT = auto()
    """It is such a commit."""
    NONE = auto()
    """It is none, and older ones may follow."""
    END = auto()
    """It hides all older commits: look no further."""


class LogAction:
    """One kind of record in the commit log of a table's index.

    Attributes:
        names: of the action in the log.
        is_followed: whether the instant of a record is on the table's timeline, which must keep it.
        evidence: of commits of rli.
    """

    names: ClassVar[frozenset[str]]
    is_followed: ClassVar[bool] = True
    evidence: ClassVar[Evidence] = Evidence.END


class Unrepeatable(ABC):
    """The role of a kind of record whose entries were written when it was appended, from files that may be gone now."""

    @abstractmethod
    def require_repeatable(self, index: StoredEntries, record: LogRecord, since: Watermarks) -> None:
        """Raise ``IndexNotReadyError`` if the index has lost entries of a record that cannot be applied again.

        Args:
            index: the index.
            record: that is to be applied.
            since: how far each part of the index was applied.
        """


class AppliedAction(LogAction, ABC):
    """A kind of record whose changes are brought into the index after it was appended."""

    @abstractmethod
    def apply(self, following: Following, record: LogRecord) -> Iterable[None]:
        """Bring the changes of a record into the index; stops after each part. May be repeated and raced.

        Raises:
            IndexNotReadyError: files that are needed are gone.
        """


class TimelineAction(AppliedAction):
    """A kind of record that stands for instants of the timeline."""

    @abstractmethod
    def draft(self, following: Following, instants: Sequence[Instant]) -> RecordDraft:
        """The record of one of the ``runs``.

        Raises:
            IndexNotReadyError: files that are needed are gone.
        """

    def runs(self, instants: Sequence[Instant]) -> Iterator[Sequence[Instant]]:
        """Share consecutive instants out over records: one for each."""
        return ([instant] for instant in instants)
