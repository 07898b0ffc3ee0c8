"""What an index and the timeline of its table have in common, and in what they differ."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rli.errors import IndexNotReadyError
from rli.hudi.timeline.instant import Action, Instant
from rli.hudi.timeline.timeline import Timeline
from rli.index.record.entries.stored_entries import StoredEntries
from rli.index.record.log.state import LogState
from rli.index.record.sync.actions import FOLLOWED
from rli.index.record.sync.archived_commits import followed_beginning, require_archived_known
from rli.index.record.sync.result import withdrawn_instants
from rli.view import paths
from rli.view.definition import TableDefinition
from rli.view.second_look import SecondLook

_NO_EFFECT: Final = frozenset({Action.CLEAN, Action.SAVEPOINT, Action.INDEXING, Action.SCHEMA_COMMIT})


def unseen_in(timeline: Timeline, log: LogState) -> list[Instant]:
    """The completed instants that a log does not know and that concern an index."""
    return [
        instant
        for instant in timeline.completed
        if instant.action not in _NO_EFFECT and instant.time not in log.instants
    ]


def settled_timeline(table: TableDefinition, log: LogState) -> Timeline:
    """The timeline; raises ``IndexNotReadyError`` while another engine is undoing what the index has followed."""
    timeline = table.load_timeline()
    # Rollbacks and restores of rli are finished by the process that finds them, under the lease; one may complete between these lines.
    if not withdrawn_instants(timeline, log) or table.storage.list_files(paths.UNDOING):
        return timeline
    # The first timeline may be older than the end of the undo, so its announcement may be gone for a good reason. Only a
    # timeline loaded after the missing announcement proves that no rollback of rli is under way.
    timeline = table.load_timeline()
    withdrawn = withdrawn_instants(timeline, log)
    if withdrawn and not table.storage.list_files(paths.UNDOING):
        raise IndexNotReadyError(
            f"another engine is rolling back commits that the index has followed: table={table.location} "
            f"instants={withdrawn}",
            remedy=(
                "wait for it, or let it write once more: it finishes the rollback. If the power went off and no other "
                "engine writes the table: rli index sync TABLE"
            ),
        )
    return timeline


def log_and_timeline(
    table: TableDefinition, index: StoredEntries, log: LogState, load: Callable[[LogState], Timeline]
) -> tuple[LogState, Timeline]:
    """A commit log that was just read, or a later one, and the timeline that is loaded for it.

    Raises:
        IndexNotReadyError: index and table have no past in common that reaches to the active timeline.
    """
    second = SecondLook(table)
    while True:
        # The order of P7: whatever the log knows was published by now, so the timeline loaded next shows it, or shows
        # its rollback.
        timeline = load(log)
        try:
            _require_known_past(table, timeline, index, log)
        except IndexNotReadyError as problem:
            # In between, a commit may have been undone and that archived, or all that the log knew. Then the log went on.
            # Or the folder was listed while the commit went and its rollback came (P44).
            before, log = log, index.log.refresh()
            if before.head == log.head:
                second.require_change(problem)
        else:
            return log, timeline


def _require_known_past(table: TableDefinition, timeline: Timeline, index: StoredEntries, log: LogState) -> None:
    """Raise ``IndexNotReadyError`` if index and table have no past in common that reaches to the active timeline."""
    beginning = followed_beginning(index)
    if beginning is None:
        _require_oldest_known(table, timeline, index, log)
    else:
        require_archived_known(table, timeline, beginning, index, log)
    # The last one is enough: records are registered in the order of the timeline, so index and table share the past up
    # to it.
    followed = log.last_of(FOLLOWED)
    if followed is None or timeline.is_archived(followed):
        return
    # Of a commit that was undone, the rollback or restore is left. A restore removes the rollbacks before it.
    undone = timeline.is_undone(followed) or any(
        instant.action == Action.RESTORE and instant.time > followed for instant in timeline.undoing
    )
    if not undone and all(instant.time != followed for instant in timeline.instants):
        raise IndexNotReadyError(
            f"the index has followed a commit that the table does not hold: table={table.location} index={index.url} "
            f"instant={followed}",
            remedy=(
                "if the power went off, write to the table: that undoes the commit in the index, too. If the table was "
                f"restored, build the index again: {index.rebuilding}"
            ),
        )


def _require_oldest_known(table: TableDefinition, timeline: Timeline, index: StoredEntries, log: LogState) -> None:
    """Pass an index of an earlier version, which has noted nothing, if it knows the oldest commit that is left.

    Then it has most likely followed those that have left.
    """
    oldest = next((write.time for write in timeline.completed_writes if write.time >= (timeline.first or "")), None)
    if oldest is not None and oldest not in log.instants and table.has_archive():
        raise IndexNotReadyError(
            f"commits that the index may not have followed have left the active timeline: table={table.location} "
            f"index={index.url} oldest={oldest}",
            remedy=f"build the index again: {index.rebuilding}",
        )
