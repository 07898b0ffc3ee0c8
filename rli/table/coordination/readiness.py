"""Readiness: has the index seen all of the table, and if not, is somebody about to show it?"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final

from rli.errors import IndexNotReadyError
from rli.index.record_index import RecordIndex
from rli.table.coordination.liveness import Holding
from rli.table.coordination.recovery import writer_record
from rli.table.coordination.shared_records import SharedRecords, shared_records
from rli.table.following.sync import SyncResult, unseen_instants
from rli.table.state.definition import TableDefinition

_PAUSE_SECONDS: Final = 0.02


def require_synced(table: TableDefinition, index: RecordIndex) -> SyncResult:
    """The state of an index that has seen all of the table; raises ``IndexNotReadyError`` for one that has not."""
    state, unseen = unseen_instants(table, index)
    if unseen:
        raise _not_ready(table, index, unseen)
    return state


def await_synced(table: TableDefinition, index: RecordIndex) -> SyncResult:
    """The state of an index that has seen all of the table, once the writers that live have applied their commits.

    Raises:
        IndexNotReadyError: it lacks a commit whose writer is dead, or another engine's: sync it.
    """
    records = shared_records(table, index)
    orphans: set[str] = set()
    while True:
        state, unseen = unseen_instants(table, index)
        if not unseen:
            return state
        # A writer gives its record back once it has applied its commit: perhaps just now, so that it takes two looks.
        if orphans & set(unseen):
            raise _not_ready(table, index, unseen)
        orphans = {instant for instant in unseen if not _is_being_written(records, instant)}
        time.sleep(_PAUSE_SECONDS)


def _is_being_written(records: SharedRecords, instant: str) -> bool:
    record = records.read_control(writer_record(instant))
    return record is not None and not Holding.from_json(record).is_over(time.time())


def _not_ready(table: TableDefinition, index: RecordIndex, unseen: Iterable[str]) -> IndexNotReadyError:
    return IndexNotReadyError(
        f"the index is older than the table: table={table.location} index={index.url} instants={list(unseen)}; "
        "run: rli index sync TABLE"
    )
