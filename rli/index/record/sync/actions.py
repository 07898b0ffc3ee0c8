"""The kinds of records in the commit log of a table's index, by their names and by what the timeline shows."""

from __future__ import annotations

from typing import Final, Protocol

from rli.errors import IndexNotReadyError
from rli.file_group.journal_list import journals_tell_updates
from rli.hudi.timeline.instant import UNDOING_ACTIONS, WRITE_ACTIONS, Instant
from rli.index.record.entries.stored_entries import StoredEntries
from rli.index.record.log.record import LogRecord
from rli.index.record.sync.following import LogAction, TimelineAction
from rli.index.record.sync.foreign_commits import ForeignCommits
from rli.index.record.sync.own_commits import OwnCommit, OwnReplacement
from rli.index.record.sync.read_from_files import Expiry, ReadFromFiles, UnknownAction
from rli.index.record.sync.undoing import Rereading, Undoing
from rli.view.snapshot import Snapshot

_FOREIGN: Final = ForeignCommits()
_ACTIONS: Final[tuple[LogAction, ...]] = (
    OwnCommit(),
    OwnReplacement(),
    _FOREIGN,
    Undoing(),
    Rereading(),
    ReadFromFiles(),
    Expiry(),
)
_BY_NAME: Final = {name: action for action in _ACTIONS for name in action.names}
_UNKNOWN: Final = UnknownAction()


class LogActions(Protocol):
    """The kinds of records in the commit log of an index that follows a table."""

    def of(self, record: LogRecord) -> LogAction:
        """The kind of a record of the log."""
        ...

    def to_follow(self, snapshot: Snapshot, index: StoredEntries, instant: Instant) -> TimelineAction:
        """The kind of the record that will stand for an instant of the timeline.

        Raises:
            IndexNotReadyError: the index cannot follow it.
        """
        ...


FOLLOWED: Final = frozenset(name for name, action in _BY_NAME.items() if action.is_followed)
"""Names of the actions whose instants the table's timeline must keep."""


class RecordActions:
    """Those of the record index."""

    def of(self, record: LogRecord) -> LogAction:
        return _BY_NAME.get(record.action, _UNKNOWN)

    def to_follow(self, snapshot: Snapshot, index: StoredEntries, instant: Instant) -> TimelineAction:
        if instant.action in WRITE_ACTIONS and not _has_told_all(snapshot, index, instant):
            return _FOREIGN
        found = _BY_NAME.get(instant.action) if instant.action in WRITE_ACTIONS | UNDOING_ACTIONS else None
        if isinstance(found, TimelineAction):
            return found
        raise cannot_follow(instant, index)


def cannot_follow(instant: Instant, index: StoredEntries) -> IndexNotReadyError:
    """The error of an action that an index cannot follow."""
    return IndexNotReadyError(
        f"the timeline holds an action that the index cannot follow: instant={instant.time} action={instant.action}",
        remedy=f"build the index again: {index.rebuilding}",
    )


def _has_told_all(snapshot: Snapshot, index: StoredEntries, instant: Instant) -> bool:
    """Whether a commit is of rli, and its journals say all that the index needs to know."""
    if not snapshot.change(instant).is_native:
        return False
    # Without a time to live, writers do not tell which records they updated.
    return index.ttl is None or journals_tell_updates(snapshot.table.storage, instant.time)
