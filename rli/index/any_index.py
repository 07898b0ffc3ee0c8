"""Questions that every index answers, of either sort: an index of files answers them by the table's files."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import pyarrow as pa

from rli.errors import IndexNotReadyError
from rli.index.contract import FileIndex, PointIndex, TableIndex
from rli.index.locators import joined_locations
from rli.index.reports import IndexFacts, VerifyReport
from rli.index.roles import RemembersCommits
from rli.tasks import TaskRunner
from rli.view.definition import TableDefinition
from rli.view.second_look import OVERTAKEN, SecondLook
from rli.view.time_travel import told_of_verified, told_of_whole, whole_snapshot


def locate_now(
    table: TableDefinition,
    index: TableIndex,
    record_keys: pa.Array,
    *,
    timeout: float,
    await_synced: Callable[[float], object],
    partition_paths: pa.Array | None = None,
) -> pa.Table:
    """Where each key lives now: ``LOCATION_SCHEMA``, in input order, nulls where the table does not hold a key.

    The caller has shown the index all commits of the table. Runs in executors. With partition scope, a key that
    lives in several partitions has a row for each of them, if the caller does not say in which one to look.

    Args:
        table: the table.
        index: its index.
        record_keys: string array, shape (n,); keys may repeat.
        timeout: seconds at most.
        await_synced: shows the index all commits of the table, in so many seconds.
        partition_paths: string array, shape (n,): where the records belong by their own values; None if the caller
            does not know. With global scope they do not matter.

    Raises:
        IndexNotReadyError: others changed the table again and again in that time.
    """
    if isinstance(index, PointIndex):
        return index.locate_now(record_keys, timeout, await_synced, partition_paths)
    deadline = time.monotonic() + timeout
    distinct, second = record_keys.unique(), SecondLook(table)
    while True:
        try:
            locator = _of_files(index).locator_of(whole_snapshot(table))
            if partition_paths is not None:
                return locator.locate(record_keys, partition_paths)
            found = locator.locate_all(distinct)
        except OVERTAKEN as error:
            second.require_change(error)
            if time.monotonic() > deadline:
                raise IndexNotReadyError(
                    f"files were cleaned again and again while keys were looked up: table={table.location} "
                    f"seconds={timeout:g}",
                    remedy="look up again with a longer timeout, or let cleans keep more commits",
                ) from error
        else:
            return joined_locations(record_keys, distinct, found)


def verified(
    table: TableDefinition, index: TableIndex, tasks: TaskRunner, await_synced: Callable[[], object]
) -> VerifyReport:
    """Compare index and table while writers go on; arguments as for ``PointIndex.verify_against``."""
    if isinstance(index, PointIndex):
        return index.verify_against(table, tasks, await_synced)
    return told_of_verified(table, _of_files(index).verify)


def repaired(table: TableDefinition, index: TableIndex, tasks: TaskRunner) -> VerifyReport:
    """Make the index say what the table says; returns what was wrong. The caller holds the lease.

    Raises:
        CorruptTableError: the table's own files are wrong, which no repair of an index mends.
    """
    if isinstance(index, PointIndex):
        return index.repair_from(table, tasks)
    files = _of_files(index)
    report = told_of_verified(table, files.verify)
    files.require_sound(table, report)
    return report


def checked_records(table: TableDefinition, index: TableIndex) -> int:
    """How many records a table has, once it was checked that an index of files can serve it.

    Raises:
        CorruptTableError: it cannot.
    """
    files = _of_files(index)
    report = told_of_whole(table, files.verify)
    files.require_sound(table, report)
    return report.records


def facts_of(index: TableIndex) -> IndexFacts:
    """What an index tells of itself without reading much."""
    return index.facts() if isinstance(index, PointIndex) else IndexFacts()


def is_built(index: TableIndex) -> bool:
    """Whether an index can follow its table; False before a bootstrap."""
    return not isinstance(index, RemembersCommits) or index.is_built


def standing_in(index: TableIndex, instants: Iterable[str]) -> list[str]:
    """Those of some instants whose changes an index holds and has not taken back, the newest first."""
    return index.standing(instants) if isinstance(index, RemembersCommits) else []


def _of_files(index: TableIndex) -> FileIndex:
    if not isinstance(index, FileIndex):
        raise TypeError(f"neither a point index nor a file index: {type(index).__name__}")
    return index
