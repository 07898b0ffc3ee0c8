"""What every writer and table service begins with: nothing is left of dead writers, and a service is alone on the table."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from rli.commit.recovery import exclusive, recover
from rli.commit.torn import require_no_empty_commit, undo_torn
from rli.hudi.lock_settings import is_lock_named
from rli.hudi.table_features import require_writable
from rli.hudi.timeline.instant import Action
from rli.hudi.timeline.timeline import Timeline
from rli.index.contract import TableIndex
from rli.publication.fence import Fence
from rli.services.planned import Finished
from rli.view.definition import TableDefinition
from rli.view.flushed_commits import flush_commits


@dataclass(frozen=True, slots=True)
class Ready:
    """A table that can be written.

    Attributes:
        table: as it is defined now.
        writer: identity of the caller, for the lease.
        finished: what others had begun.
        timeline: without torn commits.
    """

    table: TableDefinition
    writer: str
    finished: Finished
    timeline: Timeline


def made_ready(table: TableDefinition, index: TableIndex, name: str, *, patience: float = math.inf) -> Ready:
    """Clear up after dead writers, and undo what a power cut has torn.

    Args:
        table: the table.
        index: its index.
        name: of the caller, for those who wait for it.
        patience: seconds; for how long to wait for the lease at most, if it is needed.

    Raises:
        LeaseBusyError: it was not free in that time.
        UnsupportedTableError: rli does not write such tables.
        CorruptTableError: the last commit of another engine is empty.
    """
    definition = table.reloaded()
    require_writable(definition.properties)
    writer = _identity(name)
    # Dead writers first, so that the look for torn commits finds a timeline that no displaced writer changes any more.
    finished = recover(definition, index, writer, patience=patience)
    undone, timeline = undo_torn(definition, index, writer, patience=patience)
    if timeline.torn and is_lock_named(definition.properties.raw):
        # A writer of Hudi creates the file of a commit before it writes it. It does both under its lock.
        with exclusive(definition, index, writer, patience=patience):
            timeline = definition.load_timeline()
    require_no_empty_commit(definition, timeline)
    rolled_back = Finished({(Action.ROLLBACK, commit): rollback for commit, rollback in undone.items()})
    return Ready(definition, writer, finished | rolled_back, timeline)


@contextmanager
def table_service(
    table: TableDefinition, index: TableIndex, name: str, *, patience: float = math.inf, is_unlocked: bool = False
) -> Iterator[tuple[TableDefinition, Fence]]:
    """Hold the lease for a table service; what it does survives a power cut, whatever the table's settings say.

    Args:
        table: the table.
        index: its index.
        name: of the service, for those who wait for it.
        patience: seconds; for how long to wait for the lease at most.
        is_unlocked: see ``rli.coordination.contract.MutualExclusion.hold``.

    Raises:
        LeaseBusyError: it was not free in that time.
        UnsupportedTableError: rli does not write such tables.
        IndexNotReadyError: the index was never bootstrapped, or cannot follow the timeline.
    """
    ready = made_ready(table, index, name, patience=patience)
    definition = ready.table.durable()
    with exclusive(definition, index, ready.writer, patience=patience, is_unlocked=is_unlocked) as lease:
        # The service may delete journals and instants. The index must have followed them, or it could never follow them
        # again.
        synced = index.sync(definition)
        if not ready.table.storage.is_durable:
            # Older versions and instants are about to go, or to be relied on.
            flush_commits(synced.snapshot)
        yield definition, Fence(definition, lease.require_held)


@contextmanager
def unsynced_service(
    table: TableDefinition, index: TableIndex, name: str, *, patience: float = math.inf
) -> Iterator[tuple[TableDefinition, Fence]]:
    """As ``table_service``, for one that removes no journal and no commit: it neither undoes torn commits nor syncs the index.

    So it can run where a commit is damaged.
    """
    definition = table.reloaded().durable()
    require_writable(definition.properties)
    with exclusive(definition, index, _identity(name), patience=patience) as lease:
        yield definition, Fence(definition, lease.require_held)


def _identity(name: str) -> str:
    return f"{name} at {datetime.now(UTC).isoformat()}"
