"""Transactions on the index alone, for tables that rli does not write.

The commit log in the store is the timeline. A transaction's changes lie in the store before its record is added to
the log, and adding the record is the commit: whatever dies afterwards, the next transaction applies the changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, NoReturn, Self, TypeAlias

import pyarrow as pa

from rli.arrow_tables import as_arrow_table
from rli.codec.key_arrays import as_key_array
from rli.errors import (
    ConflictError,
    InvalidInputError,
    RliError,
    StoreUnavailableError,
    UndecidedCommitError,
    as_nothing_written,
    with_words,
)
from rli.hudi.timeline.instant import new_instant_time
from rli.index.record.alone.applying import apply_transactions
from rli.index.record.alone.commits import NOTHING_COMMITTED, IndexCommit
from rli.index.record.alone.prepared import finish_decided
from rli.index.record.alone.states import (
    Begun,
    CommittingTransaction,
    OpenTransaction,
    PreparedTransaction,
    PreparingTransaction,
)
from rli.index.record.alone.transaction_tasks import placing, tag_as_of
from rli.index.record.entries.stored_entries import StoredEntries
from rli.locations import LocationUpdate
from rli.telemetry import events
from rli.view.caller_metadata import CallerMetadata

_State: TypeAlias = OpenTransaction | CommittingTransaction | PreparingTransaction | PreparedTransaction


class IndexTransaction:
    """A snapshot of an index and a set of changes that take effect together, or not at all.

    Use it as a context manager; leaving it without ``commit`` aborts it, unless it was prepared.

    A table of another format has a commit of its own. Prepare the transaction, commit to the table, then commit the
    transaction. Whatever dies in between, ``RecordIndex.pending`` has the transaction, and the table knows whether it is to
    be committed.

    Example:
        >>> with index.begin() as txn:
        ...     known = txn.tag(["k1"])
        ...     txn.stage(pa.table({"record_key": ["k1"], "partition_path": ["p"], "file_id": ["f-0"]}))
        ...     committed = txn.commit(metadata={"delta.version": "17"})
        >>> committed.placed, index.last_commit().metadata
        (1, {'delta.version': '17'})
        >>> index.lookup(["k1"])["file_id"].to_pylist()
        ['f-0']

    Attributes:
        id: names the transaction, and no other one. Keep it with the commit to the table: by it the table tells later
            whether it has this very commit.
        instant: the instant that look-ups will report for the staged locations.
    """

    def __init__(self, index: StoredEntries, snapshot: int, instant: str) -> None:
        self._begun = Begun(index, snapshot, index.owner.new_writer(), instant)
        self.id = self._begun.writer
        self.instant = instant
        self._state: _State | None = OpenTransaction(self._begun)

    def tag(self, record_keys: Sequence[str] | pa.Array | pa.ChunkedArray) -> pa.Table:
        """Where each record key lives, as of the snapshot; see ``RecordIndex.lookup``.

        Raises:
            ConflictError: a key was changed by a commit after the snapshot: begin again. Or a prepared transaction holds
                it: its table may have changes that the index does not show yet.
        """
        begun = self._begun
        return tag_as_of(begun.index, begun.snapshot, begun.writer, as_key_array(record_keys))

    def stage(self, locations: Any) -> None:
        """Stage new locations of record keys.

        Args:
            locations: columns ``record_key``, ``partition_path``, ``file_id``, all strings without nulls; a key
                occurs once. A key that was staged before gets the new location. A ``pyarrow.Table``, or anything that
                Arrow makes one of: record batches and their readers, data frames.

        Raises:
            InvalidInputError: Arrow makes no table of it.
            SchemaError: a column is missing.
            InvalidKeyError: a value is null or no string, or a key occurs twice.
        """
        self._opened().stage(placing(as_arrow_table(locations)))

    def stage_deletes(self, record_keys: Sequence[str] | pa.Array | pa.ChunkedArray) -> None:
        """Stage the removal of record keys; they may repeat, and keys that the index does not hold are no error."""
        self._opened().stage(LocationUpdate.removing(as_key_array(record_keys).unique()))

    def prepare(self, metadata: Mapping[str, str] | None = None) -> None:
        """Make all staged changes durable and hold their keys, so that ``commit`` meets no conflict any more.

        Afterwards commit to the table of the other format, with ``id``, and then ``commit``, or ``abort`` if the table
        refused. Other transactions that take one of the keys fail meanwhile. If this process dies, the transaction stays:
        see ``RecordIndex.pending``. Leaving the context manager does not abort a prepared transaction, because an error of
        the table may hide that it has the commit.

        Args:
            metadata: names and strings to keep with the commit, such as the version that the table will have.

        Raises:
            ConflictError: a later commit took one of the keys, or a prepared transaction holds it; nothing of this
                transaction stays.
            LeaseLostError: this process was taken for dead, and the staged changes were removed.
            RliError: any other one says that nothing was written, or that the keys may be held until it is aborted.
        """
        opened, strings = self._opened(), CallerMetadata.of(None, metadata).strings
        try:
            self._state = preparing = opened.preparing(strings)
        except (OSError, RliError) as error:
            raise as_nothing_written(error) from error.__cause__
        try:
            self._state = preparing.announced()
        except ConflictError as conflict:
            self._end(preparing)
            raise as_nothing_written(conflict) from conflict.__cause__
        except (OSError, RliError) as error:
            raise with_words(error, "the transaction may hold its keys until it is aborted") from error.__cause__

    def commit(self, metadata: Mapping[str, str] | None = None) -> IndexCommit:
        """Make all staged changes visible.

        Args:
            metadata: names and strings to keep with the commit, such as the version of the table that it belongs to; in
                addition to those of ``prepare``.

        Returns:
            What was committed. Without changes and without metadata, nothing is. If the store failed after that, so that the
            changes are not all in the index yet, ``index_behind`` is set.

        Raises:
            ConflictError: a later commit took one of the keys, or a prepared transaction holds it; nothing of this
                transaction stays. A prepared transaction meets this error only if another process aborted it.
            LeaseLostError: this process was taken for dead, and the staged changes were removed.
            InvalidInputError: a commit of the transaction may have taken effect with other metadata.
            UndecidedCommitError: the store failed in the one step that commits, and does not tell whether that was done.
                Commit again once it answers, also after the ``with`` block.
            RliError: any other one says that nothing was written.
        """
        state, strings = self._state, CallerMetadata.of(None, metadata).strings
        if isinstance(state, PreparingTransaction):
            raise InvalidInputError("this transaction failed to be prepared", remedy="abort it, and begin a new one")
        committed = state.commit(strings) if isinstance(state, PreparedTransaction) else self._committed(strings)
        self._state = None
        return committed

    def abort(self) -> None:
        """Drop everything staged; the index stays as it was.

        Raises:
            ConflictError: the transaction took effect: an error hid that, or it was prepared and another process has
                committed it.
            UndecidedCommitError: a commit failed before, and it is not known whether it took effect.
            StoreUnavailableError: the transaction was prepared, and the store does not answer; abort it again.
        """
        state = self._state
        if state is None:
            return
        if isinstance(state, OpenTransaction):
            self._end(state)
            return
        try:
            state.abort()
        except ConflictError:
            self._state = None
            raise
        self._state = None

    def _committed(self, strings: Mapping[str, str]) -> IndexCommit:
        opened = self._state
        if isinstance(opened, CommittingTransaction):
            opened.require_same(strings)
        try:
            committing = opened if isinstance(opened, CommittingTransaction) else self._opened().committing(strings)
        except (OSError, StoreUnavailableError) as error:
            raise as_nothing_written(error) from error.__cause__
        if committing is None:
            return NOTHING_COMMITTED
        # Whatever comes in between: from here on, an abort asks the log first.
        self._state = committing
        try:
            return committing.commit()
        except UndecidedCommitError:
            raise
        except (OSError, RliError) as error:
            # After a request to append, ``commit`` has made sure that the record is not in the log and never will be.
            # Before one, the failure is of a check, and the same transaction may try again.
            if isinstance(error, ConflictError) or committing.is_asked:
                self._state = None
                self._tell_of_failure(committing.remove)
            else:
                self._state = opened
            raise as_nothing_written(error) from error.__cause__

    def _end(self, state: OpenTransaction | CommittingTransaction | PreparingTransaction) -> None:
        """End the transaction beside an error that its caller is to see; if it may hold keys, it can be aborted again."""
        is_over = self._tell_of_failure(state.abort)
        if is_over or isinstance(state, OpenTransaction):
            self._state = None

    def _tell_of_failure(self, remove: Callable[[], None]) -> bool:
        """Remove what is staged, or log why that failed; whether the transaction has come to its end."""
        told = {"index": self._begun.index.url, "instant": self.instant}
        try:
            remove()
        except ConflictError as committed:
            events.TRANSACTION_STANDS.log(**told, cause=committed)
        except UndecidedCommitError as undecided:
            events.TRANSACTION_UNDECIDED.log(**told, cause=undecided)
            return False
        except (OSError, RliError) as error:
            events.TRANSACTION_LEFTOVER.log(**told, cause=error)
            return False
        return True

    def _opened(self) -> OpenTransaction:
        if isinstance(self._state, OpenTransaction):
            return self._state
        if self._state is None:
            raise InvalidInputError("this transaction has ended", remedy="begin a new one")
        if isinstance(self._state, CommittingTransaction):
            raise InvalidInputError(
                "a commit of this transaction failed, and may have taken effect", remedy="commit it again"
            )
        raise InvalidInputError(
            "this transaction is prepared, or failed to be", remedy="commit or abort it, and begin a new one"
        )

    def __reduce__(self) -> NoReturn:
        # A copy would stage under the same names, and compare hashes that have no meaning in another process.
        raise InvalidInputError(
            f"a transaction belongs to one process, and cannot be pickled: url={self._begun.index.url}",
            remedy=(
                "to stage from Spark, call rli_spark.stage in the driver, or begin a transaction of its own in the "
                "other process"
            ),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        state = self._state
        # Of a prepared transaction only the table of the caller knows whether it is to be committed. An undecided one is to
        # be committed again.
        if isinstance(state, PreparedTransaction) or (
            isinstance(state, CommittingTransaction) and isinstance(error, UndecidedCommitError)
        ):
            return
        if state is None or error is None:
            self.abort()
        else:
            # The error is what the caller is to see.
            self._end(state)


def begin_transaction(index: StoredEntries) -> IndexTransaction:
    """Bring the index up to its commit log and take a snapshot."""
    # Before the snapshot: a decided commit is part of the past of this transaction, even if its writer died before the
    # append.
    finish_decided(index)
    log = apply_transactions(index)
    return IndexTransaction(index, log.head, new_instant_time(datetime.now(UTC), log.instants.last))


def open_transaction(transaction: IndexTransaction) -> OpenTransaction:
    """For engines: the transaction for their tasks, and the changes that these have staged.

    Raises:
        InvalidInputError: the transaction has ended, or its commit was asked for.
    """
    return transaction._opened()  # noqa: SLF001  (users of a transaction need none of it)
