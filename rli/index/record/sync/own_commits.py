"""Commits of rli: their journals tell how the index changes.

When they are registered and applied, and in which order, is decided by ``rli.index.record.sync.sync``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from rli.file_group.journal import Journal
from rli.file_group.journal_list import JournalShare, require_journals, shares_of
from rli.hudi.timeline.instant import WRITE_ACTIONS, Action, Instant
from rli.index.record.entries.stored_entries import StoredEntries
from rli.index.record.log.record import LogRecord, RecordDraft
from rli.index.record.sync.following import Evidence, Following, TimelineAction
from rli.locations import coalesce_updates
from rli.storage import Storage
from rli.store.home import SupportsHome
from rli.tasks import InProcess, InThreads, at_once

_KEYS_AT_ONCE: Final = 1 << 21
"""Keys of a section that are written together: all of a commit of 20 million, so that none goes between those just written."""
_SHARES_AT_ONCE: Final = 2
"""While a store writes a share of a large commit, the keys of the next one are encoded and sorted. Each may be of millions of
keys, so more of them, on as many cores, would take too much memory."""


class OwnCommit(TimelineAction):
    """A commit that inserts, updates, moves and deletes."""

    names = WRITE_ACTIONS - {Action.REPLACE_COMMIT}
    evidence = Evidence.COMMIT

    def draft(self, following: Following, instants: Sequence[Instant]) -> RecordDraft:
        [instant] = instants
        change = following.snapshot.change(instant)
        return RecordDraft(
            instant=instant.time,
            action=instant.action,
            writer=instant.time,
            located_at=(instant.time,),
            file_groups=tuple(stat.group for stat in change.stats),
        )

    def apply(self, following: Following, record: LogRecord) -> Iterator[None]:
        storage, instant = following.storage, record.instant or ""
        runner, journals = following.runner_for([instant]), require_journals(storage, instant)
        share_bytes = following.index.limits.share_of_journals
        if isinstance(runner, InProcess):
            # The list on the disk decides which journals count. A held one that the commit left out (a clustering that
            # gave way) is not applied.
            ours = [following.held.get(journal.path, journal) for journal in journals]
            shares = shares_of(storage, ours, share_bytes, side_by_side=False)
            if len(shares) > 1 and following.index.store.gains_by_threads:
                runner = InThreads(_SHARES_AT_ONCE)
        else:
            # Other processes read what this one holds. In a store on one machine they would wait for each other.
            tasks = 1 if isinstance(following.index.store, SupportsHome) else at_once(runner)
            shares = shares_of(storage, journals, share_bytes, side_by_side=True, at_once=tasks)
        for _ in runner.run(partial(apply_journals, storage, following.index, record.first_sequence), shares):
            yield


class OwnReplacement(OwnCommit):
    """A commit that replaces file groups: a clustering, which puts records elsewhere, or an overwrite, which ends them.

    An overwrite is as other commits. Of a clustering, the first sequence is not used; the others are of the keys that it put
    elsewhere, one for each instant since which any of them have been where they are.
    """

    names = frozenset({Action.REPLACE_COMMIT})

    def draft(self, following: Following, instants: Sequence[Instant]) -> RecordDraft:
        draft, storage = super().draft(following, instants), following.storage
        [instant] = instants
        if not following.snapshot.change(instant).keeps_records:
            return draft
        journals = require_journals(storage, draft.writer)
        kept = sorted({prior for journal in journals for prior in journal.prior_instants(storage)})
        return replace(draft, located_at=(*draft.located_at, *kept))

    def apply(self, following: Following, record: LogRecord) -> Iterator[None]:
        if len(record.located_at) == 1:
            # Of no clustering: each key that one puts elsewhere has been somewhere since an instant.
            yield from super().apply(following, record)
            return
        storage, instant = following.storage, record.instant or ""
        task = partial(apply_clustering, storage, following.index, record)
        for _ in following.runner_for([instant]).run(task, require_journals(storage, instant)):
            yield


def apply_journals(storage: Storage, index: StoredEntries, sequence: int, share: JournalShare) -> None:
    """Apply a share of the journals of one commit: a task. The fewer and the larger the writes to the store, the better."""
    # A task may run in another process, whose log is older than the record that it applies. The numbers of new file
    # groups are in that record.
    log = index.log.refresh()
    for changes in coalesce_updates(share.changes(storage), _KEYS_AT_ONCE):
        index.apply(changes, log, sequence)


def apply_clustering(storage: Storage, index: StoredEntries, record: LogRecord, journal: Journal) -> None:
    """Apply one journal file of a clustering: a task."""
    log = index.log.refresh()
    for positions, changes in journal.regrouped(storage, record.located_at):
        index.apply(changes, log, record.first_sequence + positions)
