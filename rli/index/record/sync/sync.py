"""Sync: the index follows the table's timeline, which alone says what is true.

First, every completed instant that the index's commit log does not know is registered there, which gives it its
commit sequences. Then every registered commit whose changes may not all be in the index is applied. Both may be
repeated, interrupted and raced: registering is a compare-and-set at the log's head, and applying is idempotent.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any, Final

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

from rli.errors import IndexNotReadyError, StoreRestartedError
from rli.file_group.journal import Journal
from rli.file_group.journal_list import (
    SMALL_JOURNALS,
    JournalShare,
    journal_bytes,
    journals_tell_updates,
    require_journals,
    shares_of,
)
from rli.hudi.timeline.commit_metadata import COMMIT_MARK
from rli.hudi.timeline.instant import UNDOING_ACTIONS, WRITE_ACTIONS, Action, Instant
from rli.hudi.timeline.timeline import Timeline
from rli.index.record.entries.stored_entries import StoredEntries
from rli.index.record.log.record import LogRecord, RecordDraft
from rli.index.record.log.state import LogState
from rli.index.record.sync.bootstrap import BOOTSTRAP
from rli.index.record.sync.foreign_changes import apply_group_change, apply_live_change, changed_groups
from rli.index.record.sync.repair import REPAIR
from rli.index.record.sync.result import SyncResult, withdrawn_instants
from rli.index.record.sync.undoing import REREAD, journals_to_undo, register_undoing, reread, undo_journal
from rli.index.record.sync.written_keys import commit_times
from rli.index.reports import Unseen
from rli.locations import coalesce_updates
from rli.model import FileGroupId
from rli.storage import Storage
from rli.store.contract import Watermarks
from rli.tasks import InProcess, InThreads, TaskRunner
from rli.telemetry import events, metrics
from rli.view import paths
from rli.view.definition import TableDefinition
from rli.view.snapshot import Snapshot

_FOREIGN: Final = "foreign"
_UNDOING: Final = "undoing"
_FOLLOWED: Final = frozenset[str]({_FOREIGN, *WRITE_ACTIONS, *UNDOING_ACTIONS, REREAD})
_READ_FROM_FILES: Final = frozenset({BOOTSTRAP, REPAIR})
_ATTEMPTS: Final = 5
_KEYS_AT_ONCE: Final = 1 << 21
"""Keys of a section that are written together: all of a commit of 20 million, so that none goes between those just written."""
_SHARES_AT_ONCE: Final = 2
"""While a store writes a share of a large commit, the keys of the next one are encoded and sorted. Each may be of millions of
keys, so more of them, on as many cores, would take too much memory."""

_NO_EFFECT: Final = frozenset({Action.CLEAN, Action.SAVEPOINT, Action.INDEXING, Action.SCHEMA_COMMIT})


def sync(
    table: TableDefinition,
    index: StoredEntries,
    tasks: TaskRunner,
    on_registered: Callable[[], None] = lambda: None,
    on_part: Callable[[], None] = lambda: None,
    *,
    held: Sequence[Journal] = (),
) -> SyncResult:
    """Apply every completed instant that the index has not applied, or of which a server of its store lost entries.

    Args:
        table: the table.
        index: its index.
        tasks: runs the work on each journal or file group.
        on_registered: called when every completed instant has its commit sequence.
        on_part: called after each part of the changes of a commit.
        held: journals that the caller has just written; those that it holds in memory are not read back.

    Raises:
        IndexNotReadyError: the index was never bootstrapped, or an instant cannot be followed.
        CorruptIndexError: the commit log has lost commits whose entries are in the index.
        StoreRestartedError: a server of its store was restarted in every attempt.
    """
    began = time.monotonic()
    # A server may be restarted while we go by what it said before; whoever asks again learns what it has lost (P32).
    attempts = Retrying(
        stop=stop_after_attempt(_ATTEMPTS), retry=retry_if_exception_type(StoreRestartedError), reraise=True
    )
    result = attempts(_follow, table, index, tasks, on_registered, on_part, {journal.path: journal for journal in held})
    _tell(table, index, result, time.monotonic() - began)
    return result


def _follow(  # noqa: PLR0917  (called by ``sync`` alone)
    table: TableDefinition,
    index: StoredEntries,
    tasks: TaskRunner,
    on_registered: Callable[[], None],
    on_part: Callable[[], None],
    held: Mapping[str, Journal],
) -> SyncResult:
    while True:
        applied, _ = index.read_progress()
        _require_bootstrapped(table, index, applied.least)
        snapshot, log = _register(table, index, tasks)
        on_registered()
        records = log.records_after(applied.least or 0)
        if all(_apply_record(snapshot, index, log, record, applied, tasks, on_part, held) for record in records):
            return SyncResult(snapshot, log, _instants(records))


def _tell(table: TableDefinition, index: StoredEntries, result: SyncResult, seconds: float) -> None:
    if not result.applied:
        return
    metrics.APPLIED_COMMITS.add(len(result.applied))
    metrics.SYNC_SECONDS.add(seconds)
    events.SYNC_APPLIED.log(
        table=table.location, index=index.url, instants=result.applied, sequence=result.sequence, seconds=seconds
    )


def _register(table: TableDefinition, index: StoredEntries, tasks: TaskRunner) -> tuple[Snapshot, LogState]:
    """Register every completed instant; returns the state of the table, and the commit log that describes it."""
    while True:
        # The log first: what it knows by now has completed by now, so the timeline that is read next shows it. A
        # timeline without a commit whose sequence counts would let that commit be overwritten (P7). Other threads
        # read the log on meanwhile, so from here only the state counts that was read here (P18).
        log, timeline = _log_and_timeline(table, index, partial(_settled_timeline, table))
        snapshot = Snapshot(table, timeline)
        registered = _register_all(snapshot, index, log, tasks)
        if registered is not None:
            return snapshot, registered


def _require_bootstrapped(table: TableDefinition, index: StoredEntries, applied: int | None) -> int:
    """The sequence up to which the index is applied; raises ``IndexNotReadyError`` if it was never bootstrapped."""
    if applied is None:
        raise IndexNotReadyError(
            f"the index has not been bootstrapped: table={table.location} index={index.url}; "
            "run: rli index bootstrap TABLE"
        )
    return applied


def unseen_instants(table: TableDefinition, index: StoredEntries) -> tuple[SyncResult, Unseen]:
    """The state of table and index, and the instants in which they differ.

    Raises:
        IndexNotReadyError: the index was never bootstrapped, or an instant cannot be followed.
    """
    applied = _require_bootstrapped(table, index, index.applied_sequence())
    log, timeline = _log_and_timeline(table, index, lambda _: table.load_timeline())
    unseen = (instant.time for instant in _unseen(timeline, log))
    unapplied = (*unseen, *_instants(log.records_after(applied)))
    return SyncResult(Snapshot(table, timeline), log, ()), Unseen(unapplied, tuple(withdrawn_instants(timeline, log)))


def _register_own(snapshot: Snapshot, index: StoredEntries, log: LogState, instant: Instant) -> LogState | None:
    """Register one commit that rli made; returns the log with it, None if another writer changed the log first.

    The first sequence of a clustering is not used; the others are of the keys that it put elsewhere, one for each
    instant since which any of them have been where they are.
    """
    stats = snapshot.commit(instant).write_stats
    groups = [FileGroupId(stat.partition_path, stat.file_id) for stat in stats]
    kept: list[str] = []
    if instant.action == Action.REPLACE_COMMIT:
        storage = snapshot.table.storage
        journals = require_journals(storage, instant.time)
        kept = sorted({prior for journal in journals for prior in journal.prior_instants(storage)})
    draft = RecordDraft(
        instant=instant.time,
        action=instant.action,
        writer=instant.time,
        located_at=(instant.time, *kept),
        file_groups=tuple(groups),
    )
    return index.log.append(log, draft)


def _apply_record(  # noqa: PLR0917  (called by ``sync`` alone)
    snapshot: Snapshot,
    index: StoredEntries,
    log: LogState,
    record: LogRecord,
    since: Watermarks,
    tasks: TaskRunner,
    on_part: Callable[[], None],
    held: Mapping[str, Journal],
) -> bool:
    """Bring the changes of a registered commit into the index, and say so in the index.

    Returns:
        False if a part of the index's store went back to an earlier state meanwhile.
    """
    if record.action in _READ_FROM_FILES and record.last_sequence <= (since.greatest or 0):
        raise IndexNotReadyError(
            f"a server of the index has lost entries that no journal has: index={index.url} written by={record.action} "
            f"sequence={record.last_sequence}; bootstrap the index again: rli index bootstrap TABLE"
        )
    if record.action == REREAD:
        reread(snapshot, index, log, record, tasks=tasks, on_part=on_part)
    for runner, function, items in _work_of(snapshot, index, log, record, tasks, held):
        for _ in runner.run(function, items):
            on_part()
    return index.store.mark_applied(since, record.last_sequence)


def apply_journals(storage: Storage, index: StoredEntries, sequence: int, share: JournalShare) -> None:
    """Apply a share of the journals of one commit: a task. The fewer and the larger the writes to the store, the better."""
    log = index.log.refresh()
    for changes in coalesce_updates(share.changes(storage), _KEYS_AT_ONCE):
        index.apply(changes, log, sequence)


def apply_clustering(storage: Storage, index: StoredEntries, record: LogRecord, journal: Journal) -> None:
    """Apply one journal file of a clustering: a task."""
    log = index.log.refresh()
    for positions, changes in journal.regrouped(storage, record.located_at):
        index.apply(changes, log, record.first_sequence + positions)


def _settled_timeline(table: TableDefinition, log: LogState) -> Timeline:
    """The timeline; raises ``IndexNotReadyError`` while another engine is undoing what the index has followed."""
    timeline = table.load_timeline()
    # Rollbacks and restores of rli are finished by the process that finds them, under the lease; one may complete between these lines.
    if not withdrawn_instants(timeline, log) or table.storage.list_files(paths.UNDOING):
        return timeline
    timeline = table.load_timeline()
    withdrawn = withdrawn_instants(timeline, log)
    if withdrawn and not table.storage.list_files(paths.UNDOING):
        raise IndexNotReadyError(
            f"another engine is rolling back commits that the index has followed: table={table.location} "
            f"instants={withdrawn}; wait for it, or let it write once more: it finishes the rollback. If the power went off "
            "and no other engine writes the table: rli index sync TABLE"
        )
    return timeline


def _log_and_timeline(
    table: TableDefinition, index: StoredEntries, load: Callable[[LogState], Timeline]
) -> tuple[LogState, Timeline]:
    """The commit log, then the timeline that is loaded for it; raises ``IndexNotReadyError`` as ``_require_known_past``."""
    while True:
        log = index.log.refresh()
        timeline = load(log)
        try:
            _require_known_past(table, timeline, index, log)
        except IndexNotReadyError:
            # In between, a commit may have been undone and that archived, or all that the log knew. Then the log went on.
            if index.log.refresh().head == log.head:
                raise
        else:
            return log, timeline


def _require_known_past(table: TableDefinition, timeline: Timeline, index: StoredEntries, log: LogState) -> None:
    """Raise ``IndexNotReadyError`` if index and table have no past in common that reaches to the active timeline."""
    # An index that knows the oldest commit that is left has followed all that have left: they were there when it completed.
    oldest = next((write.time for write in timeline.completed_writes if write.time >= (timeline.first or "")), None)
    if oldest is not None and not log.knows(oldest) and table.has_archive():
        raise IndexNotReadyError(
            f"commits that the index may not have followed have left the active timeline: table={table.location} "
            f"index={index.url} oldest={oldest}; bootstrap the index again: rli index bootstrap TABLE"
        )
    followed = log.last_of(_FOLLOWED)
    if followed is None or timeline.is_archived(followed):
        return
    # Of a commit that was undone, the rollback or restore is left. A restore removes the rollbacks before it.
    undone = followed in timeline.undone or any(
        instant.action == Action.RESTORE and instant.time > followed for instant in timeline.undoing
    )
    if not undone and all(instant.time != followed for instant in timeline.instants):
        raise IndexNotReadyError(
            f"the index has followed a commit that the table does not hold: table={table.location} index={index.url} "
            f"instant={followed}; if the power went off, write to the table: that undoes the commit in the index, too. If the "
            "table was restored, bootstrap the index again: rli index bootstrap TABLE"
        )


def _instants(records: Sequence[LogRecord]) -> tuple[str, ...]:
    return tuple(instant for record in records for instant in record.instants)


def _register_all(snapshot: Snapshot, index: StoredEntries, log: LogState, tasks: TaskRunner) -> LogState | None:
    """Register what the log does not know; returns the log with it, None if another process changed that meanwhile."""
    unseen = _unseen(snapshot.timeline, log)
    if unseen:
        # What the index has followed, the table must not lose (P17); who published it may not have got that far.
        layout = snapshot.timeline.layout
        snapshot.table.storage.sync([layout.folder, *(layout.path(instant.file_name) for instant in unseen)])
    registered: LogState | None = log
    for kind, group in groupby(unseen, key=partial(_kind, snapshot, index)):
        instants = list(group)
        if kind == _FOREIGN:
            registered = registered and _register_foreign(snapshot, index, registered, instants, tasks)
            continue
        for instant in instants:
            if kind == _UNDOING:
                registered = registered and register_undoing(snapshot, index, registered, instant, tasks)
            else:
                registered = registered and _register_own(snapshot, index, registered, instant)
    return registered


def _unseen(timeline: Timeline, log: LogState) -> list[Instant]:
    return [
        instant for instant in timeline.completed if instant.action not in _NO_EFFECT and not log.knows(instant.time)
    ]


def _kind(snapshot: Snapshot, index: StoredEntries, instant: Instant) -> str:
    if instant.action in WRITE_ACTIONS:
        return instant.action if _has_told_all(snapshot, index, instant) else _FOREIGN
    if instant.action in UNDOING_ACTIONS:
        return _UNDOING
    raise IndexNotReadyError(
        f"the timeline holds an action that the index cannot follow: instant={instant.time} action={instant.action}; "
        "bootstrap the index again: rli index bootstrap TABLE"
    )


def _has_told_all(snapshot: Snapshot, index: StoredEntries, instant: Instant) -> bool:
    """Whether a commit is of rli, and its journals say all that the index needs to know."""
    if COMMIT_MARK not in snapshot.commit(instant).extra:
        return False
    # Without a time to live, writers do not tell which records they updated.
    return index.ttl is None or journals_tell_updates(snapshot.table.storage, instant.time)


def _register_foreign(
    snapshot: Snapshot, index: StoredEntries, log: LogState, instants: Sequence[Instant], tasks: TaskRunner
) -> LogState | None:
    """Register a run of commits of another engine as one; returns as ``_register_own``.

    Its first sequence is of keys that went, the others are of keys that came, one for each of the commits; where keys
    expire, one for each commit that wrote any of the records last.
    """
    after = frozenset(instant.time for instant in snapshot.timeline.completed_writes if log.knows(instant.time))
    changes = changed_groups(snapshot, after, after | {instant.time for instant in instants})
    _sync_base_files(snapshot, instants)
    times = [instant.time for instant in instants]
    came_at = times
    if index.ttl is not None:
        known = [change.after for change in changes if change.after and change.group.partition_path in index.partitions]
        came_at = commit_times(snapshot, known, index.cutoff(log, max(times)) or "", tasks)
    events.SYNC_FOREIGN.log(table=snapshot.table.location, instants=times, file_groups=len(changes))
    draft = RecordDraft(
        instant=times[-1],
        action=_FOREIGN,
        writer=times[-1],
        located_at=(times[-1], *came_at),
        file_groups=tuple(change.group for change in changes),
        covers=tuple(times[:-1]),
    )
    return index.log.append(log, draft)


def _sync_base_files(snapshot: Snapshot, instants: Sequence[Instant]) -> None:
    """Make the base files of commits of other engines survive a power cut: these engines leave that to the system."""
    stats = [stat for instant in instants for stat in snapshot.commit(instant).write_stats]
    snapshot.table.storage.sync({stat.path for stat in stats}, {stat.partition_path for stat in stats})


def _work_of(  # noqa: PLR0917  (called by ``_apply_record`` alone)
    snapshot: Snapshot,
    index: StoredEntries,
    log: LogState,
    record: LogRecord,
    tasks: TaskRunner,
    held: Mapping[str, Journal],
) -> Iterator[tuple[TaskRunner, Callable[[Any], None], Sequence[Any]]]:
    """Who runs which function on which items: the journals of a commit, or the file groups that it changed."""
    storage, instant = snapshot.table.storage, record.instant or ""
    if record.action in UNDOING_ACTIONS:
        runner = _runner_for(storage, record.undoes, tasks)
        yield runner, partial(undo_journal, storage, index, record), journals_to_undo(storage, record)
    elif record.action == _FOREIGN:
        covered = set(record.instants)
        before = frozenset(
            write.time
            for write in snapshot.timeline.completed_writes
            if write.time not in covered and log.knows_before(write.time, record.first_sequence)
        )
        changes = changed_groups(snapshot, before, before | covered)
        known = [change for change in changes if change.group.partition_path in index.partitions]
        apply = apply_group_change if index.ttl is None else apply_live_change
        yield tasks, partial(apply, snapshot, index, record), known
    elif record.action in WRITE_ACTIONS:
        runner, journals = _runner_for(storage, [instant], tasks), require_journals(storage, instant)
        if record.action == Action.REPLACE_COMMIT:
            yield runner, partial(apply_clustering, storage, index, record), journals
        else:
            ours = [held.get(journal.path, journal) for journal in journals]
            if isinstance(runner, InProcess):
                shares = shares_of(storage, ours, side_by_side=False)
                if len(shares) > 1 and index.store.gains_by_threads:
                    runner = InThreads(_SHARES_AT_ONCE)
            else:
                # Other processes read what this one holds.
                shares = shares_of(storage, journals, side_by_side=True)
            yield runner, partial(apply_journals, storage, index, record.first_sequence), shares


def _runner_for(storage: Storage, instants: Sequence[str], tasks: TaskRunner) -> TaskRunner:
    """What applies the journals of some commits: the engine if they are large, else this process."""
    return InProcess() if journal_bytes(storage, instants) <= SMALL_JOURNALS else tasks
