"""Staged changes of transactions that will never commit, because their processes died, are removed (P30).

First a record of the log names these transactions; only then do their chunks go. A transaction commits by an append
right behind all records that it has read. So a process that was taken for dead by mistake reads that record, and fails.
"""

from __future__ import annotations

import time
from collections import defaultdict
from datetime import UTC, datetime
from typing import Final
from uuid import uuid4

from rli.hudi.timeline.instant import new_instant_time
from rli.index.record import staging
from rli.index.record.applying import TRANSACTIONS_KEPT, apply_transactions
from rli.index.record.log_state import LogState
from rli.index.record.owner import PROCESSES, StagingProcess
from rli.index.record.stored_entries import StoredEntries

SILENT_SECONDS: Final = 7 * 24 * 3600.0
"""A process of another host that has shown no sign of life for so long is taken for dead."""

_ACTION: Final = "sweep"


def sweep(index: StoredEntries, silent_seconds: float) -> int:
    """Remove the staged changes of dead processes; may be repeated, interrupted and raced.

    Args:
        index: that is used on its own.
        silent_seconds: a process of another host without a sign of life for so long counts as dead.

    Returns:
        How many transactions were removed.
    """
    now = time.time()
    removed = 0
    for name, content in index.store.scan_control(PROCESSES):
        process = StagingProcess.from_json(name, content)
        if process is not None and process.is_over(now, silent_seconds):
            removed += _remove_transactions(index, process.token)
            index.store.compare_and_set(name, content, None)
    return removed


def _remove_transactions(index: StoredEntries, token: str) -> int:
    """Remove what a process staged and did not commit; returns for how many transactions."""
    while True:
        log = apply_transactions(index)
        staged = _uncommitted(index, token, log)
        if not staged or _is_announced(index, log, sorted(staged)):
            break
    for names in staged.values():
        for name in names:
            staging.remove(index.store, name)
    return len(staged)


def _uncommitted(index: StoredEntries, token: str, log: LogState) -> dict[str, list[str]]:
    """The transactions of a process that are not among those whose chunks are kept, and the names of their chunks."""
    found: dict[str, list[str]] = defaultdict(list)
    for name in staging.names_of(index.store, token):
        found[staging.writer_of(name)].append(name)
    committed = {record.writer for record in log.records_after(max(0, log.head - TRANSACTIONS_KEPT - 1))}
    return {writer: names for writer, names in found.items() if writer not in committed}


def _is_announced(index: StoredEntries, log: LogState, writers: list[str]) -> bool:
    """Append a record that names transactions which cannot commit any more; False if another process was first."""
    instant = new_instant_time(datetime.now(UTC), log.last_instant)
    appended = index.log.append(
        log, instant, _ACTION, file_groups=(), writer=uuid4().hex, located_at=[instant], swept=writers
    )
    return appended is not None
