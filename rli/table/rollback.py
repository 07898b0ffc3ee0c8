"""Rolling back a completed commit: on the timeline as Hudi does it, so that every reader and writer follows.

The plan lies on the timeline before anything is undone, so a rollback that was interrupted is finished by the next
writer. The index follows in the next sync: the journal says where every key was before.
"""

from __future__ import annotations

import time

from rli.errors import InstantNotFoundError, UnsupportedTableError
from rli.storage import Storage
from rli.table import paths
from rli.table.definition import TableDefinition
from rli.table.journal_list import COMMIT_MARK
from rli.table.snapshot import Snapshot
from rli.timeline.instant import Action
from rli.timeline.rollback_metadata import RollbackMetadata, RollbackPlan


def request_rollback(table: TableDefinition, snapshot: Snapshot, instant_time: str) -> str:
    """Put the plan to roll back a completed commit on the timeline, as the instant that is returned.

    The caller holds the lease.

    Raises:
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
    time_of_rollback = snapshot.timeline.next_time(table.now())
    table.storage.write_bytes(paths.rollback_mark(time_of_rollback), b"")
    plan = RollbackPlan(instant_time, latest.action, files)
    table.timeline_writer.request(time_of_rollback, Action.ROLLBACK, plan.to_avro())
    return time_of_rollback


def finish_rollback(table: TableDefinition, rollback: str) -> str:
    """Carry out a planned rollback, and say which commit it undid; may be repeated. The caller holds the lease."""
    started = time.monotonic()
    storage, writer = table.storage, table.timeline_writer
    plan = RollbackPlan.from_avro(writer.requested(rollback, Action.ROLLBACK) or b"", f"{rollback}.rollback.requested")
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
    completed_at = table.load_timeline().next_time(table.now())
    writer.complete(rollback, Action.ROLLBACK, metadata.to_avro(), completed_at)
    writer.remove(plan.instant_time, plan.action)
    storage.delete_files([paths.rollback_mark(rollback)])
    return plan.instant_time


def _relative(storage: Storage, full_path: str) -> str:
    return full_path.removeprefix(storage.root).lstrip("/")
