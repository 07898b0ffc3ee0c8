"""Commits of other engines, and of versions of rli whose journals tell less than the index needs to know."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from rli.hudi.timeline.instant import Instant
from rli.index.record.entries.stored_entries import StoredEntries
from rli.index.record.log.actions import FOREIGN
from rli.index.record.log.record import LogRecord, RecordDraft
from rli.index.record.sync.cleaned_groups import apply_cleaned_changes
from rli.index.record.sync.following import Following, TimelineAction
from rli.index.record.sync.foreign_changes import (
    ForeignChanges,
    apply_group_change,
    apply_live_change,
    foreign_changes,
    require_known,
    require_slices_before,
)
from rli.index.record.sync.written_keys import commit_times
from rli.model import KeyMode
from rli.telemetry import events
from rli.view.diff import GroupChange
from rli.view.snapshot import Snapshot


class ForeignCommits(TimelineAction):
    """A run of commits: what they changed is found by comparing the files before and after.

    The first of its sequences is of keys that went, the others are of keys that came, one for each of the commits; where
    keys expire, one for each commit that wrote any of the records last.
    """

    names = frozenset({FOREIGN})

    def runs(self, instants: Sequence[Instant]) -> Iterator[Sequence[Instant]]:
        # All together: the files between them may be gone.
        yield instants

    def draft(self, following: Following, instants: Sequence[Instant]) -> RecordDraft:
        snapshot, index, log = following.snapshot, following.index, following.log
        after = frozenset(
            instant.time for instant in snapshot.timeline.completed_writes if instant.time in log.instants
        )
        changes = _followable(index, foreign_changes(snapshot, after, after | {instant.time for instant in instants}))
        _sync_data_files(snapshot, instants)
        times = [instant.time for instant in instants]
        came_at = times
        if index.ttl is not None:
            slices = [change.after for change in _known(index, changes.compared) if change.after]
            came_at = commit_times(snapshot, slices, index.cutoff(log, max(times)) or "", following.tasks)
        events.SYNC_FOREIGN.log(
            table=snapshot.table.location,
            instants=times,
            file_groups=len(changes.groups),
            cleaned=len(changes.cleaned),
        )
        return RecordDraft(
            instant=times[-1],
            action=FOREIGN,
            writer=times[-1],
            located_at=(times[-1], *came_at),
            file_groups=changes.groups,
            covers=tuple(times[:-1]),
        )

    def apply(self, following: Following, record: LogRecord) -> Iterator[None]:
        snapshot, index = following.snapshot, following.index
        covered = set(record.instants)
        # The same split as in ``draft``, told from the log: any process that applies the record later must compare the
        # same two states, whatever was registered since.
        before = frozenset(
            write.time
            for write in snapshot.timeline.completed_writes
            if write.time not in covered and following.log.instants.is_before(write.time, record.first_sequence)
        )
        changes = _followable(index, foreign_changes(snapshot, before, before | covered))
        task = apply_group_change if index.ttl is None else apply_live_change
        for _ in following.tasks.run(partial(task, snapshot, index, record), _known(index, changes.compared)):
            yield
        cleaned = _known(index, changes.cleaned)
        yield from apply_cleaned_changes(snapshot, index, record, cleaned, following.tasks)


def _followable(index: StoredEntries, changes: ForeignChanges) -> ForeignChanges:
    """The changes, if the index can follow them; raises ``IndexNotReadyError`` otherwise."""
    # Neither a key of which the index has a digest nor the age of a record can be told from an entry.
    if index.ttl is not None or index.settings.key_mode is KeyMode.DIGEST:
        require_slices_before(changes)
    else:
        require_known(changes)
    return changes


def _known(index: StoredEntries, changes: Sequence[GroupChange]) -> list[GroupChange]:
    """Those in partitions that the index knows."""
    return [change for change in changes if change.group.partition_path in index.partitions]


def _sync_data_files(snapshot: Snapshot, instants: Sequence[Instant]) -> None:
    """Make the data files of commits of other engines survive a power cut: these engines leave that to the system."""
    stats = [stat for instant in instants for stat in snapshot.change(instant).stats]
    snapshot.table.storage.flush({stat.path for stat in stats}, {stat.partition_path for stat in stats})
