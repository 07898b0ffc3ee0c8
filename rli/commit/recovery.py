"""Recovery: what a writer finds of writers that died, and how it cleans up after them.

Every write of rli has a shared record that says who writes (``writer/<instant>``) and a work folder. Where the
writer is dead, its instant either completed, and only its work folder is left to remove, or it did not, and is rolled
back as if it had never been. Pending instants of other engines are left alone.

A writer that is taken for dead may only be paused, and go on at any moment. So whatever it publishes by is removed
first, and only then it is asked whether it has published (docs/protocol.md, P3 and P4).
"""

from __future__ import annotations

import math
import posixpath
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

from rli.commit.manifest import listed_files
from rli.coordination.contract import Held
from rli.coordination.of_table import coordination_of
from rli.coordination.requests import remove_abandoned_requests
from rli.hudi.timeline.instant import Action, is_instant_time
from rli.index.any_index import standing_in
from rli.index.contract import TableIndex
from rli.publication.archiving import finish_archives
from rli.publication.deltacommits import withdraw_deltacommit
from rli.publication.fence import Fence
from rli.publication.instants import TableInstant
from rli.publication.markers import remove_markers
from rli.publication.metadata_recovery import drop_unfinished
from rli.services.planned import Finished
from rli.services.registry import announced_in, finish_announced
from rli.telemetry import events, metrics
from rli.view import paths
from rli.view.definition import TableDefinition
from rli.view.registration import require_same_lease

_OWN_ACTIONS: Final = (Action.COMMIT, Action.DELTA_COMMIT, Action.REPLACE_COMMIT)
"""What writes of rli complete as."""


@contextmanager
def exclusive(
    table: TableDefinition, index: TableIndex, writer: str, *, patience: float = math.inf, is_unlocked: bool = False
) -> Iterator[Held]:
    """Hold the table's lease, with nothing left that an earlier holder began, or could still publish if it woke up.

    If there is something left, it is cleared up under the lock of Hudi's writers.

    Args:
        table: the table.
        index: its index.
        writer: identity of the caller.
        patience: seconds; for how long to wait for the lease at most.
        is_unlocked: see ``rli.coordination.contract.MutualExclusion.hold``.

    Raises:
        LeaseBusyError: it was not free in that time.
        IndexMismatchError: the table has been given another index since this process opened it.
        UnsupportedTableError: a newer version of rli announced a service that this one does not know.
    """
    exclusion = coordination_of(table, index).exclusion
    with exclusion.hold(writer, patience=patience, is_unlocked=is_unlocked) as lease:
        with ExitStack() as locked:
            clearing = _Clearing(lease, locked)
            # Displaced writers first, then services: a decided publication belongs on the timeline before a service changes
            # it.
            fence = Fence(table.durable(), clearing.require_held)
            _clear_displaced(table, index, lease, fence)
            # Also those whose process failed and let the lease go: nothing may be built on what is to be undone.
            finish_announced(fence)
            finish_archives(fence)
            drop_unfinished(fence)
        yield lease


@dataclass(frozen=True, slots=True)
class _Clearing:
    """The right to clear up: with the first question for it comes the lock, as nearly always nothing is left.

    Attributes:
        lease: of the table.
        locked: gives the lock back in its end.
    """

    lease: Held
    locked: ExitStack

    def require_held(self) -> None:
        self.locked.enter_context(self.lease.locked())
        self.lease.require_held()


def recover(table: TableDefinition, index: TableIndex, writer: str, *, patience: float = math.inf) -> Finished:
    """Roll back or tidy up what dead writers left, and finish rollbacks and restores that they began.

    Args:
        table: the table.
        index: its index.
        writer: identity of the caller, for the lease.
        patience: seconds; for how long to wait for the lease at most, if it is needed.

    Raises:
        LeaseBusyError: it was not free in that time.
        IndexMismatchError: the table has been given another index since this process opened it.
        UnsupportedTableError: a newer version of rli announced a service that this one does not know.
    """
    # Otherwise all writers that live would be taken for dead, because their records are elsewhere.
    require_same_lease(table)
    # A look without the lease, because nearly every write finds nothing. It can only be wrong in the harmless
    # direction: what a writer leaves after this look, the next writer finds.
    coordination = coordination_of(table, index)
    remove_abandoned_requests(table.storage, coordination.requests)
    if not (
        coordination.writers.abandoned()
        or announced_in(table, table.storage.list_files(paths.UNDOING))
        or coordination.exclusion.seems_left_behind()
    ):
        return Finished()
    with coordination.exclusion.hold(writer, patience=patience) as lease:
        fence = Fence(table.durable(), lease.require_held)
        finished = _clear_displaced(table, index, lease, fence)
        # Asked again, because the lease may have been long in coming.
        # Displaced holders were cleared above. These never had the lease, or gave it back. A draft is possible here,
        # too: a crash between the release of the lease and the withdrawal leaves one.
        for instant in coordination.writers.abandoned():
            _clear(table, index, instant)
        return finished | finish_announced(fence)


def undo_unpublished(table: TableDefinition, instant: str, promoted: Iterable[str] | None = None) -> None:
    """Remove every trace of a write that nobody can publish any more; may be repeated, and raced by the writer itself.

    Args:
        table: the table.
        instant: of the write.
        promoted: the files that the caller, as the writer, may have brought into the table; None for the files of the
            manifest, which is written before any of them is promoted.
    """
    storage = table.storage
    # Unpublished files go first, so that a living writer can move no more of them into the table. The manifest is read after
    # that, because until then the writer may replace the manifest, and promote files of the new list (P9).
    storage.delete_folder(paths.unpublished_files(instant))
    # As long as the instant is pending, readers pass over its deltacommit; once the instant is gone, they would not.
    withdraw_deltacommit(storage, table.timeline_layout, instant)
    in_table = frozenset(listed_files(storage, instant) if promoted is None else promoted)
    storage.discard_files(in_table)
    # Files first, then journals, the request last: while the timeline shows the instant as pending, a file left by a
    # crash here cannot pass for archived data (P13).
    storage.delete_folder(paths.journal_folder(instant))
    # The action is not known here: only the request tells it, and a repeat finds no request.
    for action in _OWN_ACTIONS:
        TableInstant(table, instant, action).remove()
    # A compaction was scheduled before the attempt to carry it out, and stays so.
    TableInstant(table, instant, Action.COMPACTION).stop()
    remove_markers(table, instant)
    # The folder tells of the write, after a power cut too, until nothing else is left of it.
    storage.flush(folders={table.timeline_layout.folder, *map(posixpath.dirname, in_table)})
    storage.delete_folder(paths.work_folder(instant))


def is_published(table: TableDefinition, instant: str) -> bool:
    """Whether a write has become part of the table."""
    return any(TableInstant(table, instant, action).is_completed for action in _OWN_ACTIONS)


def _clear_displaced(table: TableDefinition, index: TableIndex, lease: Held, fence: Fence) -> Finished:
    """Clear up after those who held the lease and did not release it; what was finished by that."""
    _clear_forgotten(table, index, fence)
    if not lease.displaced:
        return Finished()
    fence.require_held()
    for writer in lease.displaced:
        # Of the holders only writes are named by an instant; table services leave announcements.
        if is_instant_time(writer):
            _clear(table, index, writer)
    finished = finish_announced(fence)
    # Not before all of them are cleared: the record of the lease names them until here, so a successor of this process
    # would clear up again (P3).
    lease.settle()
    return finished


def _clear_forgotten(table: TableDefinition, index: TableIndex, fence: Fence) -> None:
    """Clear up after holders of the lease whose record was lost, with the last changes of a server. The caller has the lease.

    Only a holder of the lease makes a draft. Another writer that has one has had the lease in a former life of the server, and
    may have checked it just before the loss (P43).
    """
    coordination = coordination_of(table, index)
    # Behind the taking of the lease: if the server has yet another life later, the caller itself finds its lease lost.
    life = coordination.exclusion.new_life()
    if life is None:
        return
    fence.require_held()
    for instant in coordination.writers.at_work():
        if table.storage.exists(paths.commit_content(instant)):
            _clear(table, index, instant)
    life.settle()


def _clear(table: TableDefinition, index: TableIndex, instant: str) -> None:
    """Undo a write whose writer is taken for dead, or tidy up after it if it was published. The caller has the lease."""
    writers = coordination_of(table, index).writers
    # First of all the writer, should it live, is told: what it finds missing from here on is no error of the table.
    displaced = writers.displace(instant)
    # The draft is settled before the question whether the commit stands. In the other order, the writer could publish
    # between the question and the clean-up, and its files would vanish from under a commit (P4).
    # The deltacommit's before the commit's, which is published after it.
    table.storage.settle(paths.deltacommit_content(instant))
    table.storage.settle(paths.commit_content(instant))
    # What the index has followed was published; if it is not any more, its journal is needed to undo it there.
    was_published = is_published(table, instant) or bool(standing_in(index, [instant]))
    if was_published:
        remove_markers(table, instant)
        table.storage.delete_folder(paths.work_folder(instant))
        outcome = "its commit stands"
    elif displaced.may_have_requested:
        undo_unpublished(table, instant)
        outcome = "rolled back"
    else:
        # An instant of this time on the timeline may be another engine's. Should the dead writer have requested it after all, it counts
        # as an instant of a dead writer of Hudi.
        table.storage.delete_folder(paths.work_folder(instant))
        outcome = "had written nothing"
    if displaced.is_of_former_index:
        events.WRITER_DISPLACED.log(table=table.location, instant=instant, outcome=outcome)
        return
    process = displaced.sign and displaced.sign.process
    metrics.RECOVERED_WRITERS.add(1, outcome=outcome)
    events.WRITER_RECOVERED.log(
        table=table.location,
        instant=instant,
        outcome=outcome,
        pid=process and process.pid,
        is_on_this_host=process and process.is_on_this_host,
    )
    # The record goes last. While it is there, no other writer gets this instant, and if this process dies, the next one
    # clears up again.
    writers.forget(displaced, was_published=was_published)
