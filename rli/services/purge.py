"""Purge: removing the tombstones of the index that no reader within the kept commits needs (P30)."""

from __future__ import annotations

from typing import Final

from rli.index.record.purging import purge
from rli.index.record.record_index import RecordIndex
from rli.services.clean import earliest_kept
from rli.store.purging import SupportsPurge
from rli.view.definition import TableDefinition

_LEAST_TOMBSTONES: Final = 1024
_ENTRIES_PER_TOMBSTONE: Final = 4


def purge_tombstones(table: TableDefinition, index: RecordIndex, keep_commits: int) -> int:
    """Remove tombstones of commits that are older than all kept ones; how many.

    A purge reads the whole index, so it waits until one entry in five is a tombstone.

    Args:
        table: the table; the caller holds the lease.
        index: has followed the timeline.
        keep_commits: as for the clean.
    """
    if not isinstance(index.store, SupportsPurge):
        return 0
    stored = index.store.stats()
    if stored.tombstones < max(_LEAST_TOMBSTONES, stored.live_entries // _ENTRIES_PER_TOMBSTONE):
        return 0
    return purge(index, _needed_by_nobody(table, index, keep_commits))


def _needed_by_nobody(table: TableDefinition, index: RecordIndex, keep_commits: int) -> int:
    """The last sequence before those of all commits that are kept, by pending writes and savepoints too; 0 if none."""
    timeline, log = table.load_timeline(), index.log.refresh()
    earliest = earliest_kept(timeline, keep_commits)
    if earliest is None:
        return 0
    oldest = min([earliest.time, *(instant.time for instant in timeline.savepoints)])
    kept = [log.sequence_of(instant.time) or 0 for instant in timeline.completed_writes if instant.time >= oldest]
    return min(kept, default=0) - 1
