"""Rollbacks that are left half done."""

from __future__ import annotations

from rli import Table
from rli.commit.recovery import exclusive
from rli.publication.fence import Fence
from rli.services.rollback import ROLLBACK, rollback_plan
from rli.table.table import opened_table
from rli.view.snapshot import Snapshot


def roll_back_in_part(table: Table, instant: str) -> None:
    """Begin a rollback whose process dies when the commit is pending again."""
    definition = opened_table(table).definition
    with exclusive(definition, opened_table(table).index, "rollback") as lease:
        [completed] = (found for found in table.timeline() if found.time == instant)
        snapshot, fence = Snapshot.now(definition), Fence(definition, lease.require_held)
        ROLLBACK.announce(rollback_plan(snapshot, completed), snapshot.timeline, fence)
        definition.storage.delete_files([definition.timeline_layout.path(completed.file_name)])
