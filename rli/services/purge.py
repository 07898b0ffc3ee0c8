"""Purge: the index forgets the deletes that no reader within the kept commits needs (P30)."""

from __future__ import annotations

from rli.index.contract import TableIndex
from rli.index.roles import ForgetsDeletes
from rli.view.definition import TableDefinition
from rli.view.kept_instants import KeptInstants


def purge_tombstones(table: TableDefinition, index: TableIndex, keep_commits: int) -> int:
    """Remove tombstones of commits that are older than all kept ones; how many.

    Args:
        table: the table; the caller holds the lease.
        index: has followed the timeline; kinds that keep nothing of deletes have nothing to remove.
        keep_commits: as for the clean.
    """
    if not isinstance(index, ForgetsDeletes):
        return 0
    kept = KeptInstants(table.load_timeline())
    earliest = kept.earliest_readable(keep_commits)
    if earliest is None:
        return 0
    oldest = kept.earliest_delete(earliest)
    return index.forget_deletes([instant.time for instant in kept.timeline.completed_writes if instant.time >= oldest])
