"""Staged changes of transactions that will never commit, because their processes died, are removed (P30).

First a record of the log names these transactions; only then do their chunks go. A transaction commits by an append
right behind all records that it has read. So a process that was taken for dead by mistake reads that record, and fails.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final
from uuid import uuid4

from rli.hudi.timeline.instant import new_instant_time
from rli.index.record.alone import staging
from rli.index.record.alone.applying import apply_transactions
from rli.index.record.alone.prepared import all_prepared, finish_decided, forget
from rli.index.record.alone.prepared_record import Prepared, State
from rli.index.record.entries.limits import IndexLimits
from rli.index.record.entries.owner import PROCESSES, StagingProcess
from rli.index.record.entries.stored_entries import StoredEntries
from rli.index.record.log.actions import SWEEP, TRANSACTION
from rli.index.record.log.record import LogRecord, RecordDraft
from rli.index.record.log.state import LogState

SILENT_SECONDS: Final = 7 * 24 * 3600.0
"""A process of another host that has shown no sign of life for so long is taken for dead."""


def sweep(index: StoredEntries, silent_seconds: float) -> int:
    """Remove the staged changes of dead processes; may be repeated, interrupted and raced.

    Args:
        index: that is used on its own.
        silent_seconds: a process of another host without a sign of life for so long counts as dead.

    Returns:
        How many transactions were removed.
    """
    finish_decided(index)
    now = time.time()
    removed = 0
    for name, content in index.store.scan_control(PROCESSES):
        process = StagingProcess.from_json(name, content)
        if process is not None and process.is_over(now, silent_seconds):
            # The record of the process goes last: while it is there, a sweep that dies is repeated by the next one.
            removed += _remove_transactions(index, process.token)
            index.store.compare_and_set(name, content, None)
    return removed


def _remove_transactions(index: StoredEntries, token: str) -> int:
    """Remove what a process staged and nobody will need; returns of how many transactions that did not commit."""
    while True:
        log = apply_transactions(index)
        # After the log: a transaction that is prepared by now is announced in the log, or will find our record there.
        prepared = _prepared_without(index, token)
        newest = _newest(log, index.limits)
        needed: set[str] = set().union(*(staging.full_names(p.writer, p.staged.chunks) for p in prepared))
        needed.update(*(staging.full_names(record.writer, record.staged.chunks) for record in newest))
        unneeded = [name for name in staging.names_of(index.store, token) if name not in needed]
        ended = {p.writer for p in prepared} | {record.writer for record in newest if record.action == TRANSACTION}
        lost = sorted({staging.writer_of(name) for name in unneeded} - ended)
        # The withdrawal is in the log before a chunk goes. A process that wakes up either reads it before its append,
        # or appends behind an older log and fails (P30).
        if not lost or withdraw(index, log, lost):
            break
    for name in unneeded:
        staging.remove(index.store, name)
    return len(lost)


def _prepared_without(index: StoredEntries, token: str) -> list[Prepared]:
    """The prepared transactions; those are forgotten whose process, which is dead, did not know yet that they were."""
    found = all_prepared(index)
    for prepared in found:
        if prepared.state is State.PREPARING and prepared.writer.startswith(token):
            forget(index, prepared)
    # Read again: a transaction that became prepared meanwhile keeps its chunks.
    return all_prepared(index)


def _newest(log: LogState, limits: IndexLimits) -> Sequence[LogRecord]:
    """The records of transactions whose chunks are kept, and those whose chunks may be on their way out."""
    return log.records_after(max(0, log.head - limits.transactions_kept - 1))


def withdraw(index: StoredEntries, log: LogState, writers: Sequence[str]) -> bool:
    """Append a record that names transactions which cannot commit any more; False, with nothing done, if another was first."""
    instant = new_instant_time(datetime.now(UTC), log.instants.last)
    draft = RecordDraft(instant=instant, action=SWEEP, writer=uuid4().hex, located_at=(instant,), swept=tuple(writers))
    return index.log.append(log, draft) is not None
