"""What transactions on the index alone have committed, and what waits for its caller's decision."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from rli.errors import ConflictError, CorruptIndexError, UndecidedCommitError
from rli.index.record.alone.applying import apply_transactions
from rli.index.record.alone.prepared import advance, finish_abort, finish_commit, finish_decided, read_prepared
from rli.index.record.alone.prepared_record import Prepared, State
from rli.index.record.entries.stored_entries import StoredEntries
from rli.index.record.log.actions import TRANSACTION
from rli.index.record.log.record import LogRecord
from rli.index.record.log.state import LogState
from rli.telemetry import events
from rli.view.caller_metadata import CallerMetadata


@dataclass(frozen=True, slots=True)
class IndexCommit:
    """A commit of a transaction on the index alone.

    Attributes:
        instant: that look-ups report for its locations; None where nothing was committed.
        sequence: its place in the order of all commits; None where nothing was committed.
        placed: record keys that got a location; None if an older version of rli committed it.
        deleted: record keys that were removed, known to the index or not; None as for ``placed``.
        metadata: names and strings that the caller gave.
        index_behind: whether the store failed after the commit, so that the changes are not all in the index yet. The next
            transaction brings them in; then the history has the ``sequence``, if that is None here.
    """

    instant: str | None
    sequence: int | None
    placed: int | None
    deleted: int | None
    metadata: Mapping[str, str] = field(default_factory=dict)
    index_behind: bool = False


NOTHING_COMMITTED: Final = IndexCommit(None, None, 0, 0)


def commit_of(record: LogRecord, *, is_behind: bool = False) -> IndexCommit:
    """The commit that a record of the log is."""
    placed, deleted = record.staged.placed, record.staged.deleted
    return IndexCommit(record.instant, record.first_sequence, placed, deleted, dict(record.metadata), is_behind)


def commits_in(log: LogState) -> Iterator[IndexCommit]:
    """The transactions of a log, the newest first."""
    return (commit_of(record) for record in log.newest_first() if record.action == TRANSACTION)


@dataclass(frozen=True, slots=True)
class PendingTransaction:
    """A transaction that was prepared, and neither committed nor aborted. ``RecordIndex.pending`` finds them.

    Its writer may be at work between the commit to its own table and that to the index. If the writer died, ask its table
    whether it has the commit, then ``commit`` or ``abort``. Ask after ``RecordIndex.pending``: a writer that was dead by then
    commits nothing more to its table. Never abort a transaction whose writer may live.

    Attributes:
        id: names the transaction: ``IndexTransaction.id``.
        instant: that look-ups will report.
        placed: record keys that get a location.
        deleted: record keys that are removed.
        metadata: that it was prepared with.
        prepared_at: by the clock of its host.
        writer_is_dead: whether the process that prepared it ran on this host and has ended; False if nobody here knows.
    """

    id: str
    instant: str
    placed: int
    deleted: int
    metadata: Mapping[str, str]
    prepared_at: datetime
    writer_is_dead: bool
    _index: StoredEntries = field(repr=False, compare=False)
    _prepared: Prepared = field(repr=False, compare=False)

    def commit(self, metadata: Mapping[str, str] | None = None) -> IndexCommit:
        """Commit it: its writer's table has the commit.

        Args:
            metadata: in addition to what it was prepared with.

        Raises:
            ConflictError: it was aborted.
        """
        return commit_prepared(self._index, self._prepared, CallerMetadata.of(None, metadata).strings)

    def abort(self) -> None:
        """Abort it: its writer's table does not have the commit, and will not get it.

        Raises:
            ConflictError: it was committed.
        """
        abort_prepared(self._index, self._prepared)


def pending_in(index: StoredEntries) -> list[PendingTransaction]:
    """The prepared transactions that wait for a decision, the oldest first."""
    found = [prepared for prepared in finish_decided(index) if prepared.state is State.PREPARED]
    return [
        PendingTransaction(
            id=prepared.writer,
            instant=prepared.instant,
            placed=prepared.staged.placed or 0,
            deleted=prepared.staged.deleted or 0,
            metadata=dict(prepared.metadata),
            prepared_at=datetime.fromtimestamp(prepared.prepared_at, UTC),
            writer_is_dead=prepared.process.is_known_dead,
            _index=index,
            _prepared=prepared,
        )
        for prepared in sorted(found, key=lambda prepared: (prepared.prepared_at, prepared.writer))
    ]


def commit_prepared(index: StoredEntries, prepared: Prepared, strings: Mapping[str, str]) -> IndexCommit:
    """Decide that a prepared transaction takes effect, and see to it; may be repeated and raced.

    Raises:
        ConflictError: it was aborted.
        UndecidedCommitError: the store failed before it told the outcome.
    """
    try:
        return _committed(index, prepared, strings)
    except (ConflictError, CorruptIndexError):
        raise
    except Exception as error:
        # An earlier call, or another process, may have committed it.
        raise UndecidedCommitError(
            f"the store failed while a prepared transaction was committed, and it is not known whether it took effect: "
            f"url={index.url} instant={prepared.instant}",
            remedy="commit it again once the store answers; RecordIndex.pending has it if it did not take effect",
        ) from error


def _committed(index: StoredEntries, prepared: Prepared, strings: Mapping[str, str]) -> IndexCommit:
    # A loop, because other processes may decide as well. Each round reads the record anew, and one compare-and-set
    # decides for all of them (P35).
    while (found := read_prepared(index, prepared.writer)) is not None and found.state is not State.ABORTING:
        if found.state is State.COMMITTING:
            # Decided. From here on an error is reported in the result: the caller's table has the commit already.
            return _finished(index, found)
        # Its result is not asked for: the next round reads what was decided, by this call or by another.
        advance(index, found, State.COMMITTING, metadata=strings)
    # The record is gone, so somebody has finished the decision. Only the log tells which one it was.
    record = prepared.commit_in(index.log.refresh())
    if record is None:
        raise ConflictError(
            f"the prepared transaction was aborted by another process: url={index.url} instant={prepared.instant}",
            instants=(prepared.instant,),
            remedy="if the table has its commit, place the records of that commit in a new transaction",
        )
    return commit_of(record)


def applied_after_commit(index: StoredEntries, instant: str) -> bool:
    """Apply what is committed; False if that failed, which is logged: the commit stands."""
    try:
        apply_transactions(index)
    except Exception as error:  # noqa: BLE001  (whatever it is, the commit stands)
        events.TRANSACTION_BEHIND.log(index=index.url, instant=instant, cause=error)
        return False
    return True


def _finished(index: StoredEntries, committing: Prepared) -> IndexCommit:
    """Finish what is decided; if that fails, the next transaction does it."""
    try:
        return commit_of(finish_commit(index, committing))
    except Exception as error:  # noqa: BLE001  (whatever it is, the commit is decided)
        events.TRANSACTION_BEHIND.log(index=index.url, instant=committing.instant, cause=error)
        staged = committing.staged
        return IndexCommit(
            committing.instant, None, staged.placed, staged.deleted, dict(committing.metadata), index_behind=True
        )


def abort_prepared(index: StoredEntries, prepared: Prepared) -> None:
    """Decide that a prepared transaction takes no effect, and remove it; may be repeated and raced.

    Raises:
        ConflictError: it was committed.
    """
    while (found := read_prepared(index, prepared.writer)) is not None and found.state is not State.COMMITTING:
        aborting = found if found.state is State.ABORTING else advance(index, found, State.ABORTING)
        if aborting is not None:
            finish_abort(index, aborting)
            return
    if found is not None or prepared.commit_in(index.log.refresh()) is not None:
        raise ConflictError(
            f"the prepared transaction was committed by another process: url={index.url} instant={prepared.instant}",
            instants=(prepared.instant,),
            remedy="to take it back, place its records again in a new transaction",
        )
