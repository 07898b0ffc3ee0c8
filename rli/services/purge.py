"""Purge: the index forgets the deletes that no reader within the kept commits needs (P30)."""

from __future__ import annotations

from rli.index.contract import TableIndex
from rli.index.roles import ForgetsDeletes
from rli.services.clean import earliest_kept
from rli.view.definition import TableDefinition


def purge_tombstones(table: TableDefinition, index: TableIndex, keep_commits: int) -> int:
    """Remove tombstones of commits that are older than all kept ones; how many.

    Args:
        table: the table; the caller holds the lease.
        index: has followed the timeline; kinds that keep nothing of deletes have nothing to remove.
        keep_commits: as for the clean.
    """
    if not isinstance(index, ForgetsDeletes):
        return 0
    timeline = table.load_timeline()
    earliest = earliest_kept(timeline, keep_commits)
    if earliest is None:
        return 0
    oldest = min([earliest.time, *(instant.time for instant in timeline.savepoints)])
    return index.forget_deletes([instant.time for instant in timeline.completed_writes if instant.time >= oldest])
