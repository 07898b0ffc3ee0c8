"""The change of a table's type: copy-on-write to merge-on-read and back, beside writers and readers.

The type is an entry of the table's properties. A copy-on-write table is a merge-on-read table without log files, to Hudi as well:
commits of both kinds may be on the timeline of a merge-on-read table. Readers of a copy-on-write table, however, know neither log files
nor deltacommits. They would pass over the base files of a deltacommit, unless its instant is older than their timeline. So on the way
back no file slice may have log files, and no deltacommit on the active timeline.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from rli.errors import UnsupportedTableError
from rli.hudi.java_properties import format_properties
from rli.hudi.properties import PROPERTIES_PATH, of_type
from rli.hudi.table_features import require_writable
from rli.hudi.timeline.instant import Action
from rli.model import TableType
from rli.publication.fence import Fence
from rli.view.merging.rules import MergeRules
from rli.view.snapshot import Snapshot

_STEPS: Final = (
    "run: rli compact TABLE; rli metadata compact TABLE, if there is a metadata table; rli archive TABLE --keep 1; and call again, "
    "while no writer is at work"
)


def change_table_type(fence: Fence, wanted: TableType) -> None:
    """Make a table one of the other type. Writes under way are in conflict, and are repeated.

    Args:
        fence: of the caller, who holds the lease.
        wanted: the type; nothing changes if the table has it.

    Raises:
        LeaseLostError: another process took the lease over; nothing was changed.
        UnsupportedTableError: the table has log files, deltacommits or pending instants, and is to become copy-on-write; or rli does
            not know how records of its log files would be merged.
    """
    table = fence.table.reloaded()
    require_writable(table.properties)
    if table.properties.table_type == wanted.upper():
        return
    changed = of_type(table.properties, wanted.upper())
    if wanted is TableType.MERGE_ON_READ:
        MergeRules.of(changed)
    else:
        _require_base_files_alone(Snapshot.now(replace(table, properties=changed)))
    fence.replace(PROPERTIES_PATH, format_properties(changed.raw))


def _require_base_files_alone(snapshot: Snapshot) -> None:
    """Pass a table of which readers of copy-on-write tables see every record."""
    pending = next((one for one in snapshot.timeline.pending if one.is_write), None)
    if pending is not None:
        raise _refused(f"an instant is pending: {pending.time} {pending.action}")
    _require_no_logs(snapshot)
    deltacommit = next((one for one in snapshot.timeline.completed_writes if one.action == Action.DELTA_COMMIT), None)
    if deltacommit is not None:
        raise _refused(
            "readers of copy-on-write tables pass over a deltacommit on the timeline: "
            f"instant={deltacommit.time} (if it is the last commit, update a record first)"
        )


def _require_no_logs(snapshot: Snapshot) -> None:
    """Pass a copy-on-write table without log files in live slices: it cannot be read otherwise."""
    try:
        len(snapshot.slices.values())
    except UnsupportedTableError as error:
        raise _refused(str(error)) from error


def _refused(reason: str) -> UnsupportedTableError:
    return UnsupportedTableError(f"the table cannot become copy-on-write yet: {reason}", remedy=_STEPS)
