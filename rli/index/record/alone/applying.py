"""Transactions of the commit log are brought into an index that is used on its own."""

from __future__ import annotations

from collections.abc import Callable

from rli.errors import CorruptIndexError
from rli.index.record.alone import staging
from rli.index.record.entries.stored_entries import StoredEntries
from rli.index.record.log.record import LogRecord
from rli.index.record.log.state import LogState
from rli.store.contract import Watermarks


def apply_transactions(index: StoredEntries, on_part: Callable[[], None] = lambda: None) -> LogState:
    """Bring an index that is used on its own up to its commit log, which is returned; may be repeated and raced.

    Args:
        index: the index.
        on_part: called after each part of a transaction; may raise, so that the rest is left to others.
    """
    while True:
        applied, log = index.read_progress()
        least = applied.least or 0
        # One record too many, on purpose: the process that applied the last one may have died before the removal of its
        # chunks.
        for record in log.records_after(max(0, least - 1)):
            if record.last_sequence <= least:
                # The process that applied it may have died before it had removed anything.
                _remove_what_nobody_needs(index, log, record)
            elif not _apply_record(index, log, record, applied, on_part):
                break
        else:
            return log


def _apply_record(
    index: StoredEntries, log: LogState, record: LogRecord, since: Watermarks, on_part: Callable[[], None]
) -> bool:
    """Apply a transaction of the log; False if the store went back to an earlier state meanwhile."""
    try:
        for changes in staging.read_chunks(index.store, record.writer, record.staged.chunks):
            # Chunks are read from the last to the first, and equal sequences do not replace each other: what was staged
            # last wins.
            index.apply(changes, log, record.first_sequence)
            on_part()
    except staging.ChunksGoneError:
        # Chunks are removed once they are marked as applied, by another process just now.
        if (index.store.applied().least or 0) >= record.last_sequence:
            return True
        raise CorruptIndexError(
            f"the index has lost entries of a transaction: url={index.url} instant={record.instant}",
            remedy=(
                "a server went back to an earlier state, and the transaction's staged changes are gone: restore all "
                "servers from backups of the same time, or rebuild the index"
            ),
        ) from None
    # Before the chunks go. In the other order, a crash in between would leave a commit that nobody can apply.
    if not index.store.mark_applied(since, record.last_sequence):
        return False
    _remove_what_nobody_needs(index, log, record)
    return True


def _remove_what_nobody_needs(index: StoredEntries, log: LogState, applied: LogRecord) -> None:
    """Remove the staged changes of a transaction that was applied, or those that are now too old to be kept."""
    if not applied.staged.keeps_chunks:
        staging.remove_chunks(index.store, applied.writer, applied.staged.chunks)
    # Each record of an index alone owns one sequence, so this counts records.
    old = log.record_at(applied.last_sequence - index.limits.transactions_kept)
    if old is not None and old.staged.keeps_chunks:
        staging.remove_chunks(index.store, old.writer, old.staged.chunks)
