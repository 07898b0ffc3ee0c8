"""Following rollbacks and restores: the index goes back to where the records were.

Where all undone commits have journals, they are followed by them, in time proportional to the commits. What else
another engine undoes is followed from the files: the entries that the undone commits placed are removed, and of the
file groups whose base files went, the keys that are missing are placed again. That scans the index once, and reads
the key columns of the file groups concerned and of no others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import takewhile

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rli.errors import IndexNotReadyError
from rli.file_group.journal import Journal
from rli.file_group.journal_list import journals_tell_updates, readable_journals, require_journals
from rli.file_group.undone_commits import forget_undone
from rli.hudi.file_names import data_file_name
from rli.hudi.timeline.instant import UNDOING_ACTIONS, Instant
from rli.index.record.entries.expiring import remove_entries
from rli.index.record.entries.stored_entries import StoredEntries
from rli.index.record.log.actions import REREAD
from rli.index.record.log.record import LogRecord, RecordDraft
from rli.index.record.log.state import LogState
from rli.index.record.sync.following import AppliedAction, Evidence, Following, TimelineAction
from rli.index.record.sync.foreign_changes import foreign_changes, require_slices_before
from rli.index.record.sync.repair import correct_live_keys, correct_slice
from rli.index.record.sync.written_keys import entry_instants
from rli.locations import LocationUpdate
from rli.model import FileGroupId, Scope
from rli.storage import Storage
from rli.view.snapshot import Snapshot


class Undoing(TimelineAction):
    """A rollback or restore of commits that all have journals.

    The record has a block of sequences for each undone commit, the newest commit first. The first sequence of a block is
    of keys that go, the others are of keys that come back, one for each instant that had placed any.
    """

    names = UNDOING_ACTIONS
    evidence = Evidence.NONE

    def draft(self, following: Following, instants: Sequence[Instant]) -> RecordDraft:
        """The record of one; of a ``Rereading`` if a journal is missing."""
        [instant] = instants
        storage, log = following.storage, following.log
        undone_instants = following.snapshot.change(instant).undone
        # Before the record is appended: a process that dies behind the append would not come here again, and a caller's
        # record of an undone commit would count as soon as the timeline has forgotten the undo (P26).
        forget_undone(storage, frozenset(undone_instants))
        # Only what this index has followed and no record has taken back: undone twice, a key would get an older place
        # than it had.
        undone = log.instants.standing(undone_instants)
        found = [_journals(following.index, storage, time) for time in undone]
        commits = [journals for journals in found if journals is not None]
        if len(commits) < len(found):
            return _rereading_draft(following, instant, undone)
        groups = {group for journals in commits for journal in journals for group in journal.prior_groups(storage)}
        blocks = [{prior for journal in journals for prior in journal.prior_instants(storage)} for journals in commits]
        return RecordDraft(
            instant=instant.time,
            action=instant.action,
            writer=instant.time,
            located_at=tuple(time for priors in blocks or [set()] for time in (instant.time, *sorted(priors))),
            file_groups=tuple(sorted(groups)),
            undoes=tuple(undone),
        )

    def apply(self, following: Following, record: LogRecord) -> Iterator[None]:
        storage = following.storage
        runner = following.runner_for(record.undoes)
        for _ in runner.run(partial(undo_journal, storage, following.index, record), journals_to_undo(storage, record)):
            yield


class Rereading(AppliedAction):
    """A rollback or restore of commits without journals: the file groups that they had changed are indexed again.

    The record has one block of sequences, as ``Undoing``.
    """

    names = frozenset({REREAD})

    def apply(self, following: Following, record: LogRecord) -> Iterator[None]:
        return _reread(following, record)


def _rereading_draft(following: Following, instant: Instant, undone: Sequence[str]) -> RecordDraft:
    snapshot, index, log = following.snapshot, following.index, following.log
    slices = _followed_before(snapshot, log, log.head + 1).slices
    known = [part for group, part in slices.items() if group.partition_path in index.partitions]
    came_back = set(entry_instants(snapshot, known, index.cutoff(log, instant.time), following.tasks))
    return RecordDraft(
        instant=instant.time,
        action=REREAD,
        writer=instant.time,
        located_at=(instant.time, *sorted(came_back)),
        file_groups=tuple(sorted(slices)),
        undoes=tuple(undone),
    )


def _journals(index: StoredEntries, storage: Storage, instant: str) -> list[Journal] | None:
    """The journals of a commit if they tell all that it did to the index, else None."""
    found = readable_journals(storage, instant)
    # None also for a list that a power cut has torn.
    if found is not None and index.ttl is not None and not journals_tell_updates(storage, instant):
        return None
    return found


def journals_to_undo(storage: Storage, record: LogRecord) -> list[tuple[int, Journal]]:
    """The journals of a registered rollback or restore, each with the first sequence of its block.

    Raises:
        IndexNotReadyError: one is gone.
    """
    positions = (position for position, time in enumerate(record.located_at) if time == record.instant)
    return [
        (record.first_sequence + position, journal)
        for position, time in zip(positions, record.undoes, strict=False)
        for journal in require_journals(storage, time)
    ]


def undo_journal(storage: Storage, index: StoredEntries, record: LogRecord, item: tuple[int, Journal]) -> None:
    """Bring back where the keys of one journal file were: a task.

    Args:
        storage: the table.
        index: its index.
        record: of the rollback or restore.
        item: the first sequence of the commit's block, and the journal.
    """
    start, journal = item
    log = index.log.refresh()
    after = record.located_at[start - record.first_sequence + 1 :]
    instants = (None, *takewhile(lambda time: time != record.instant, after))
    for positions, changes in journal.undone(storage, instants):
        # The blocks are in the order of undoing, so the greatest sequence of a key is of the oldest undone commit: its
        # place before that one wins, in whatever order the journals are applied.
        index.apply(changes, log, start + positions)
        if index.scope is Scope.PARTITION:
            # Of a commit under global scope: what it moved is two keys now, of which one goes.
            path = journal.group.partition_path
            moved = changes.record_keys.filter(pc.not_equal(changes.partition_paths, path))
            index.apply(LocationUpdate.removing(moved, path), log, start)


def _reread(following: Following, record: LogRecord) -> Iterator[None]:
    """Index the file groups again that the commits undone by a registered rollback or restore had changed.

    Raises:
        IndexNotReadyError: a base file that is needed is gone.
    """
    snapshot, index, log, tasks = following.snapshot, following.index, following.log, following.tasks
    instant = snapshot.timeline.find(record.instant or "")
    touched = _touched_groups(snapshot, instant)
    view = _followed_before(snapshot, log, record.first_sequence)
    followed = view.timeline.write_times
    later = snapshot.timeline.write_times - followed
    if later:
        # Raises if a base file that a later commit built on is gone.
        require_slices_before(foreign_changes(snapshot, followed, followed | later))
    undone = snapshot.change(instant).undone
    # The tombstones get the first sequence, and placed keys a later one. So a repeat of this scan removes nothing that
    # the second half has placed.
    remove = partial(remove_entries, index, record.first_sequence, _sequences_of(log, undone))
    indexed: set[int] = set()
    for found in tasks.run(remove, range(index.settings.shard_count)):
        indexed |= found
        yield
    # A file group without entries had been replaced as a whole by what was undone.
    slices = [
        file_slice
        for group, file_slice in sorted(view.slices.items())
        if group.partition_path in index.partitions
        and (group in touched or log.dictionary.number_of(group) not in indexed)
    ]
    cutoff = index.cutoff(log)
    if cutoff is None:
        items = [(part, record.first_sequence + _position(record, part.instant)) for part in slices]
        corrected = tasks.run(partial(correct_slice, view, index), items)
    else:
        sequences = record.first_sequence + 1, record.located_at[1:]
        corrected = tasks.run(partial(correct_live_keys, view, index, cutoff, sequences), slices)
    for _ in corrected:
        yield


def _sequences_of(log: LogState, instants: Sequence[str]) -> NDArray[np.bool_]:
    """For each commit sequence, from 0, whether its entries are of one of these instants."""
    located_at = log.dictionary.instants_of(np.arange(1, log.head + 1))
    chosen = pc.is_in(located_at, value_set=pa.array(instants, pa.string()))
    return np.concatenate([[False], chosen.to_numpy(zero_copy_only=False)])


def _touched_groups(snapshot: Snapshot, instant: Instant) -> set[FileGroupId]:
    return {
        FileGroupId(partition_path, parts.file_id)
        for partition_path, names in snapshot.change(instant).removed.items()
        for name in names
        if (parts := data_file_name(name)) is not None
    }


def _followed_before(snapshot: Snapshot, log: LogState, sequence: int) -> Snapshot:
    """The table as the index knew it before a commit sequence, less what was undone since."""
    writes = (instant.time for instant in snapshot.timeline.completed_writes)
    return snapshot.reduced_to(frozenset(time for time in writes if log.instants.is_before(time, sequence)))


def _position(record: LogRecord, instant: str) -> int:
    try:
        return record.located_at.index(instant, 1)
    except ValueError:
        raise IndexNotReadyError(
            f"base files were removed while the index followed an undo of another engine: instant={record.instant}",
            remedy="bootstrap the index again: rli index bootstrap TABLE",
        ) from None
