"""Sync: the index follows the table's timeline, which alone says what is true.

First, every completed instant that the index's commit log does not know is registered there, which gives it its
commit sequences. Then every registered commit whose changes may not all be in the index is applied. Both may be
repeated, interrupted and raced: registering is a compare-and-set at the log's head, and applying is idempotent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any, Final

from rli.errors import IndexNotReadyError
from rli.index.commit_log import LogRecord
from rli.index.record_index import RecordIndex
from rli.model import FileGroupId
from rli.storage import Storage
from rli.table.definition import TableDefinition
from rli.table.foreign_changes import apply_group_change, changed_groups
from rli.table.journal import Journal
from rli.table.journal_list import COMMIT_MARK, load_journals
from rli.table.snapshot import Snapshot
from rli.table.tasks import TaskRunner
from rli.timeline.instant import WRITE_ACTIONS, Action, Instant
from rli.timeline.rollback_metadata import RollbackMetadata
from rli.timeline.timeline import Timeline

_FOREIGN: Final = "foreign"
_FOLLOWED: Final = frozenset[str]({_FOREIGN, Action.COMMIT, Action.ROLLBACK})
_UNDOING: Final = frozenset[str]({Action.ROLLBACK, Action.RESTORE})
_NO_EFFECT: Final = frozenset({Action.CLEAN, Action.SAVEPOINT, Action.INDEXING, Action.SCHEMA_COMMIT})


@dataclass(frozen=True, slots=True)
class SyncResult:
    """What a sync found.

    Attributes:
        timeline: the timeline that the index now follows.
        sequence: the last commit sequence of it: a snapshot of the index.
        applied: the instants that were applied.
    """

    timeline: Timeline
    sequence: int
    applied: tuple[str, ...]


def sync(table: TableDefinition, index: RecordIndex, tasks: TaskRunner) -> SyncResult:
    """Apply every completed instant that the index has not applied.

    Raises:
        IndexNotReadyError: the index was never bootstrapped, or an instant cannot be followed.
    """
    applied = require_bootstrapped(table, index)
    index.log.refresh()
    timeline = table.load_timeline()
    _require_known_past(table, timeline, index)
    snapshot = Snapshot(table, timeline)
    while not _register_all(snapshot, index):
        index.log.refresh()
    records = index.log.records_after(applied)
    for record in records:
        apply_record(snapshot, index, record, tasks)
    return SyncResult(timeline, index.log.head, _instants(records))


def require_bootstrapped(table: TableDefinition, index: RecordIndex) -> int:
    """The sequence up to which the index is applied; raises ``IndexNotReadyError`` if it was never bootstrapped."""
    applied = index.applied_sequence()
    if applied is None:
        raise IndexNotReadyError(
            f"the index has not been bootstrapped: table={table.location} index={index.url}; "
            "run: rli index bootstrap TABLE"
        )
    return applied


def require_synced(table: TableDefinition, index: RecordIndex) -> SyncResult:
    """The state of an index that has seen all of the table; raises ``IndexNotReadyError`` for one that has not."""
    applied = require_bootstrapped(table, index)
    index.log.refresh()
    timeline = table.load_timeline()
    _require_known_past(table, timeline, index)
    unseen = [instant.time for instant in _unseen(timeline, index)]
    # A commit that is pending again is being rolled back.
    unseen += [instant.time for instant in timeline.pending if index.log.knows(instant.time)]
    unseen += _instants(index.log.records_after(applied))
    if unseen:
        raise IndexNotReadyError(
            f"the index is older than the table: table={table.location} index={index.url} instants={unseen}; "
            "run: rli index sync TABLE"
        )
    return SyncResult(timeline, index.log.head, ())


def register_own(snapshot: Snapshot, index: RecordIndex, instant: Instant) -> LogRecord | None:
    """Register one commit that rli made; None if another writer changed the log first."""
    stats = snapshot.commit(instant).write_stats
    groups = [FileGroupId(stat.partition_path, stat.file_id) for stat in stats]
    return index.log.append(
        instant.time, instant.action, file_groups=groups, writer=instant.time, located_at=[instant.time]
    )


def apply_record(
    snapshot: Snapshot,
    index: RecordIndex,
    record: LogRecord,
    tasks: TaskRunner,
    on_part: Callable[[], None] = lambda: None,
) -> None:
    """Bring the changes of a registered commit into the index, and say so in the index.

    Args:
        snapshot: holds the commit.
        index: whose commit log holds the record.
        record: the commit.
        tasks: runs the work on each journal or file group.
        on_part: called after each of those.
    """
    for function, items in _work_of(snapshot, index, record):
        for _ in tasks.run(function, items):
            on_part()
    index.mark_applied(record.last_sequence)


def apply_journal(storage: Storage, index: RecordIndex, sequence: int, journal: Journal) -> None:
    """Apply one journal file: a task."""
    index.log.refresh()
    for changes in journal.changes(storage):
        changes.apply(index, sequence)


def undo_journal(storage: Storage, index: RecordIndex, record: LogRecord, journal: Journal) -> None:
    """Bring back where the keys of one journal file were: a task."""
    index.log.refresh()
    instants = (None, *record.located_at[1:])
    for position, changes in journal.undone(storage, instants):
        changes.apply(index, record.first_sequence + position)


def _require_known_past(table: TableDefinition, timeline: Timeline, index: RecordIndex) -> None:
    """Raise ``IndexNotReadyError`` if the last commit that the index followed is not in the table's past."""
    followed = [record.instant for record in index.log.records if record.action in _FOLLOWED and record.instant]
    if not followed or timeline.is_archived(followed[-1]):
        return
    # Of a commit that was rolled back, the rollback is left.
    undone = any(instant.action in _UNDOING and instant.time > followed[-1] for instant in timeline.completed)
    if not undone and all(instant.time != followed[-1] for instant in timeline.instants):
        raise IndexNotReadyError(
            f"the index has followed a commit that the table does not hold: table={table.location} index={index.url} "
            f"instant={followed[-1]}; if the table was restored, bootstrap the index again: rli index bootstrap TABLE"
        )


def _instants(records: Sequence[LogRecord]) -> tuple[str, ...]:
    return tuple(instant for record in records for instant in record.instants)


def _register_all(snapshot: Snapshot, index: RecordIndex) -> bool:
    """Register what the log does not know; False if another process changed the log meanwhile."""
    for kind, group in groupby(_unseen(snapshot.timeline, index), key=partial(_kind, snapshot)):
        instants = list(group)
        if kind == _FOREIGN:
            if _register_foreign(snapshot, index, instants) is None:
                return False
            continue
        register = register_own if kind in WRITE_ACTIONS else _register_rollback
        if any(register(snapshot, index, instant) is None for instant in instants):
            return False
    return True


def _unseen(timeline: Timeline, index: RecordIndex) -> list[Instant]:
    return [
        instant
        for instant in timeline.completed
        if instant.action not in _NO_EFFECT and not index.log.knows(instant.time)
    ]


def _kind(snapshot: Snapshot, instant: Instant) -> str:
    if instant.action in WRITE_ACTIONS:
        return instant.action if COMMIT_MARK in snapshot.commit(instant).extra else _FOREIGN
    if instant.action == Action.ROLLBACK:
        return instant.action
    raise IndexNotReadyError(
        f"the timeline holds an action that the index cannot follow: instant={instant.time} action={instant.action}; "
        "bootstrap the index again: rli index bootstrap TABLE"
    )


def _register_foreign(snapshot: Snapshot, index: RecordIndex, instants: Sequence[Instant]) -> LogRecord | None:
    """Register a run of commits of another engine as one.

    Its first sequence is of keys that went, the others are of keys that came, one for each instant that placed any.
    """
    after = frozenset(instant.time for instant in snapshot.timeline.completed_writes if index.log.knows(instant.time))
    changes = changed_groups(snapshot, after, after | {instant.time for instant in instants})
    placed_at = sorted({change.after.instant for change in changes if change.after is not None})
    last = instants[-1]
    return index.log.append(
        last.time,
        _FOREIGN,
        file_groups=[change.group for change in changes],
        writer=last.time,
        located_at=(last.time, *placed_at),
        covers=[instant.time for instant in instants[:-1]],
    )


def _register_rollback(snapshot: Snapshot, index: RecordIndex, instant: Instant) -> LogRecord | None:
    """Register a rollback: its first sequence is of keys that had been absent, the others of prior instants."""
    storage = snapshot.table.storage
    undone = _undone_commit(snapshot, index, instant)
    priors: set[str | None] = set()
    groups: set[FileGroupId] = set()
    for journal in undone:
        priors |= journal.prior_instants(storage)
        groups |= journal.prior_groups(storage)
    known = sorted(prior for prior in priors if prior is not None)
    return index.log.append(
        instant.time,
        instant.action,
        file_groups=sorted(groups),
        writer=instant.time,
        located_at=(instant.time, *known),
    )


def _undone_commit(snapshot: Snapshot, index: RecordIndex, rollback: Instant) -> list[Journal]:
    """Journals of the commit that a rollback undid; none if the index never saw that commit."""
    path = snapshot.timeline.layout.path(rollback.file_name)
    content = snapshot.table.storage.read_bytes(path) or b""
    undone = RollbackMetadata.from_avro(content, path).instant_time
    if not index.log.knows(undone):
        return []
    journals = load_journals(snapshot.table.storage, undone)
    if journals is None:
        raise IndexNotReadyError(
            f"another engine rolled back a commit that is in the index: instant={undone} rollback={rollback.time}; "
            "bootstrap the index again: rli index bootstrap TABLE"
        )
    return journals


def _work_of(
    snapshot: Snapshot, index: RecordIndex, record: LogRecord
) -> Iterator[tuple[Callable[[Any], None], Sequence[Any]]]:
    """A task function and its items: the journals of a commit, or the file groups that it changed."""
    storage = snapshot.table.storage
    if record.action == Action.ROLLBACK:
        instant = snapshot.timeline.find(record.instant or "")
        yield partial(undo_journal, storage, index, record), _undone_commit(snapshot, index, instant)
    elif record.action == _FOREIGN:
        covered = set(record.instants)
        before = frozenset(
            instant.time
            for instant in snapshot.timeline.completed_writes
            if instant.time not in covered and index.log.knows_before(instant.time, record.first_sequence)
        )
        yield partial(apply_group_change, snapshot, index, record), changed_groups(snapshot, before, before | covered)
    elif record.action in WRITE_ACTIONS:
        journals = load_journals(storage, record.instant or "")
        if journals is None:
            raise IndexNotReadyError(
                f"the journal of a commit is gone: instant={record.instant}; bootstrap the index again: "
                "rli index bootstrap TABLE"
            )
        yield partial(apply_journal, storage, index, record.first_sequence), journals
