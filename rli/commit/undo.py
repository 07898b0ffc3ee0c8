"""Undoing commits: a rollback of the last one, a restore to an earlier one.

Each is announced on the timeline before it changes a file, so any process can finish it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from rli.commit.brought_back import require_unique_after
from rli.commit.exclusive_service import made_ready
from rli.commit.readiness import require_synced
from rli.commit.recovery import exclusive, recover
from rli.commit.unique_values import require_unique_values_after
from rli.errors import ConflictError, InstantNotFoundError, InvalidInputError, LeaseLostError
from rli.hudi.table_features import require_writable
from rli.hudi.timeline.instant import Action
from rli.index.contract import IndexState, TableIndex
from rli.publication.fence import Fence
from rli.publication.instants import TableInstant
from rli.services.clean import finish_cleans
from rli.services.restore import RESTORE, RestoreResult, commits_after, restore_outcome, restore_plan, undoable_after
from rli.services.rollback import ROLLBACK, commits_to_undo, last_commit, require_rollback, rollback_plan
from rli.view.definition import TableDefinition
from rli.view.snapshot import told_of_now

LAST: Final = "last"
"""Names the last commit, where a rollback asks for an instant."""


def roll_back(table: TableDefinition, index: TableIndex, instant: str, *, patience: float) -> str:
    """Undo the last completed commit; returns the instant of the rollback. See ``Table.rollback``.

    Args:
        table: the table.
        index: of the table.
        instant: of the last commit, or ``LAST``.
        patience: seconds; for how long to wait for the lease, whenever it is needed.
    """
    is_last = instant == LAST
    if is_last:
        # Before anybody is waited for: a commit that comes meanwhile is not the one that the caller means.
        instant = _last_commit(table)
    ready = made_ready(table, index, f"rollback of {instant}", patience=patience)
    definition, writer, finished = ready.table.durable(), ready.writer, ready.finished.of(Action.ROLLBACK)
    index.sync(definition)
    # The caller repeats a call that died, and recovery has just finished its rollback. A second one would fail: the
    # commit is gone.
    if instant in finished:
        return finished[instant]
    if is_last and finished:
        return max(finished.values())
    with exclusive(definition, index, writer, patience=patience) as lease:
        fence = Fence(definition, lease.require_held)
        state = _state_to_undo(definition, index, fence)
        snapshot = state.snapshot
        *clusterings, commit = commits_to_undo(snapshot, instant)
        # All of it is checked before any of it is done: a rollback that is refused changes nothing.
        require_rollback(snapshot, [*clusterings, commit])
        require_unique_after(index, state, [*clusterings, commit])
        require_unique_values_after(index, snapshot, [*clusterings, commit])
        for clustering in clusterings:
            # One at a time, the newest first: a process that dies between two of them leaves the state after some
            # commit (P12). The snapshot is loaded again: the next plan starts from the state that this one left.
            ROLLBACK.finish(ROLLBACK.announce(rollback_plan(snapshot, clustering), snapshot.timeline, fence), fence)
            snapshot = _state_to_undo(definition, index, fence).snapshot
        rollback = ROLLBACK.announce(rollback_plan(snapshot, commit), snapshot.timeline, fence)
        # It is announced: if another process takes the lease over, that one carries it out.
        with suppress(LeaseLostError):
            ROLLBACK.finish(rollback, fence)
    # Where the lease was lost, another process has the plan, but may have died too. This waits for it, or carries out
    # the plan.
    recover(definition, index, writer, patience=patience)
    index.sync(definition)
    return rollback.time


def restore(table: TableDefinition, index: TableIndex, instant: str, *, patience: float) -> RestoreResult:
    """Undo all commits after one. See ``Table.restore``.

    Args:
        table: the table.
        index: of the table.
        instant: of the commit to go back to.
        patience: as for ``roll_back``.
    """
    _require_target(table, instant)
    ready = made_ready(table, index, f"restore to {instant}", patience=patience)
    definition, writer, finished = ready.table.durable(), ready.writer, ready.finished.of(Action.RESTORE)
    index.sync(definition)
    if instant in finished:
        return _outcome(TableInstant(definition, finished[instant], Action.RESTORE), instant)
    with exclusive(definition, index, writer, patience=patience) as lease:
        fence = Fence(definition, lease.require_held)
        state = _state_to_undo(definition, index, fence)
        snapshot = state.snapshot
        require_unique_after(index, state, commits_after(snapshot.timeline, instant))
        plan = restore_plan(snapshot, instant)
        require_unique_values_after(index, snapshot, commits_after(snapshot.timeline, instant))
        # A restore is one plan for all commits: a process that dies half way cannot leave some of them undone for good.
        announced = None if plan is None else RESTORE.announce(plan, snapshot.timeline, fence)
        # As for a rollback.
        with suppress(LeaseLostError):
            if announced is not None:
                RESTORE.finish(announced, fence)
    recover(definition, index, writer, patience=patience)
    index.sync(definition)
    return RestoreResult(None, instant, ()) if announced is None else _outcome(announced, instant)


def _outcome(restore: TableInstant, instant: str) -> RestoreResult:
    done = restore_outcome(restore)
    if done is None:
        raise ConflictError(
            f"another writer committed after the restore was planned, and its commit stays: restore={restore.time} "
            f"instant={instant}",
            remedy="restore again to undo that commit, too",
        )
    return done


def foretold_restore(table: TableDefinition, index: TableIndex, instant: str) -> RestoreResult:
    """Which commits a restore would undo now; raises as ``restore`` does. Nothing is changed, and no lease is needed."""
    _require_target(table, instant)
    require_writable(table.properties)
    state = require_synced(table, index)
    later = undoable_after(state.snapshot, instant)
    require_unique_after(index, state, later)
    require_unique_values_after(index, state.snapshot, later)
    return RestoreResult(None, instant, tuple(commit.time for commit in later), dry_run=True)


def _require_target(table: TableDefinition, instant: str) -> None:
    if instant == LAST:
        raise _last_is_no_target(table)


def _last_is_no_target(table: TableDefinition) -> InvalidInputError:
    last = _last_commit(table)
    earlier = [instant.time for instant in table.load_timeline().completed_writes if instant.time < last]
    or_back = f", or go back to the commit before it: rli restore TABLE {earlier[-1]}" if earlier else ""
    return InvalidInputError(
        f"a restore undoes the commits after one, and no commit is after the last: last={last}",
        remedy=f"undo the last commit: rli rollback TABLE last{or_back}",
    )


def _last_commit(table: TableDefinition) -> str:
    last = told_of_now(table.reloaded(), last_commit)
    if last is None:
        raise InstantNotFoundError(
            f"there is no commit to roll back: table={table.location}", remedy="look at `rli timeline TABLE`"
        )
    return last.time


def _state_to_undo(table: TableDefinition, index: TableIndex, fence: Fence) -> IndexState:
    """The table's state, once no clean is planned that could delete files that the undo restores."""
    synced = index.sync(table)
    finish_cleans(table, fence)
    return synced
