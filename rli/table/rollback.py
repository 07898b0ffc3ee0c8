"""Rolling back a completed commit: on the timeline as Hudi does it, so that every reader and writer follows.

The plan lies on the timeline before anything is undone, so a rollback that was interrupted is finished by the next
writer. The index follows in the next sync: the journal says where every key was before.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from rli.errors import InstantNotFoundError, LeaseLostError, UnsupportedTableError
from rli.storage import Storage
from rli.table import paths
from rli.table.definition import TableDefinition
from rli.table.journal_list import COMMIT_MARK
from rli.table.snapshot import Snapshot
from rli.timeline.instant import Action, State, new_instant_time
from rli.timeline.rollback_metadata import RollbackMetadata, RollbackPlan
from rli.timeline.writing import TimelineWriter, instant_path


def request_rollback(
    table: TableDefinition, snapshot: Snapshot, instant_time: str, require_held: Callable[[], None]
) -> str:
    """Put the plan to roll back a completed commit on the timeline, as the instant that is returned.

    Args:
        table: the table.
        snapshot: its present state; the caller holds the lease.
        instant_time: of the commit.
        require_held: raises ``LeaseLostError`` once the caller holds the lease no more.

    Raises:
        LeaseLostError: another writer took the lease over; nothing was rolled back.
        InstantNotFoundError: it is not the last completed commit.
        UnsupportedTableError: another engine made it, so that there is no journal to bring the index back by.
    """
    latest = snapshot.timeline.latest_write
    if latest is None or latest.time != instant_time:
        raise InstantNotFoundError(
            f"only the last completed commit can be rolled back: instant={instant_time} "
            f"last={latest.time if latest else 'none'}; roll later commits back first"
        )
    commit = snapshot.commit(latest)
    if COMMIT_MARK not in commit.extra:
        raise UnsupportedTableError(
            f"the last commit was made by another engine: instant={instant_time} operation={commit.operation}; "
            "roll it back with that engine, then bootstrap the index again"
        )
    files: dict[str, tuple[str, ...]] = {}
    for stat in commit.write_stats:
        full_path = table.storage.full_path(stat.path)
        files[stat.partition_path] = (*files.get(stat.partition_path, ()), full_path)
    time_of_rollback = new_instant_time(table.now(), snapshot.timeline.latest_time)
    mark = paths.rollback_mark(time_of_rollback)
    table.storage.write_bytes(mark, RollbackPlan(instant_time, latest.action, files).to_avro())
    require_held()
    try:
        table.storage.publish(mark, instant_path(time_of_rollback, Action.ROLLBACK, State.REQUESTED))
    except FileNotFoundError as error:
        raise LeaseLostError(
            f"another writer took the lease over: rollback={time_of_rollback} instant={instant_time}; roll back again"
        ) from error
    return time_of_rollback


def finish_rollback(storage: Storage, rollback: str) -> str:
    """Carry out a planned rollback, and say which commit it undid; may be repeated. The caller holds the lease."""
    started = time.monotonic()
    path = instant_path(rollback, Action.ROLLBACK, State.REQUESTED)
    plan = RollbackPlan.from_avro(storage.read_bytes(path) or b"", path)
    writer = TimelineWriter(storage)
    writer.start(rollback, Action.ROLLBACK)
    # The commit stops being visible at once, and its files are gone before its instant is: a base file without an
    # instant that is older than all others would pass for one of an archived commit.
    writer.withdraw(plan.instant_time, plan.action)
    storage.delete_files(
        _relative(storage, full_path) for full_paths in plan.files.values() for full_path in full_paths
    )
    metadata = RollbackMetadata(
        start_time=rollback,
        instant_time=plan.instant_time,
        action=plan.action,
        milliseconds=int((time.monotonic() - started) * 1000),
        deleted=plan.files,
    )
    writer.complete(rollback, Action.ROLLBACK, metadata.to_avro())
    writer.remove(plan.instant_time, plan.action)
    storage.delete_files([paths.rollback_mark(rollback)])
    return plan.instant_time


def _relative(storage: Storage, full_path: str) -> str:
    return full_path.removeprefix(storage.root).lstrip("/")
