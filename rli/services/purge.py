"""Purge: behind a clean, the index forgets the deletes that no reader within the kept commits needs (P30), and dropped indexes go."""

from __future__ import annotations

from rli.errors import StoreUnavailableError
from rli.index.contract import TableIndex
from rli.index.roles import ForgetsDeletes
from rli.publication.fence import Fence
from rli.services.column_indexes import remove_dropped
from rli.telemetry import events
from rli.view.definition import TableDefinition
from rli.view.kept_instants import KeptInstants


def purge_index(table: TableDefinition, index: TableIndex, keep_commits: int, fence: Fence) -> None:
    """Remove what the index keeps of old deletes and of dropped indexes on columns.

    The clean before is done: if the store does not answer, that is logged, and the next clean tries again.

    Args:
        table: the table.
        index: has followed the timeline.
        keep_commits: as for the clean.
        fence: of the caller, who holds the lease.
    """
    try:
        purge_tombstones(table, index, keep_commits)
        remove_dropped(fence, index)
    except (OSError, StoreUnavailableError) as error:
        events.CLEAN_LEFT.log(table=table.location, cause=error)


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
