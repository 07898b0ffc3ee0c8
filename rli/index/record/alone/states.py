"""The states of a transaction on the index alone, a type each: what may be called in a state is what its type has.

An ``OpenTransaction`` stages changes. It becomes a ``CommittingTransaction``, which appends its record to the commit log:
that is the commit. Or it becomes a ``PreparingTransaction`` and then a ``PreparedTransaction``, which waits for its caller's
table (P35). Once the commit is decided, nothing raises: what could not be done after that is in the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rli.errors import ConflictError, InvalidInputError, LeaseLostError, RliError, UndecidedCommitError
from rli.index.record.alone import staging
from rli.index.record.alone.applying import apply_transactions
from rli.index.record.alone.commits import IndexCommit, abort_prepared, applied_after_commit, commit_of, commit_prepared
from rli.index.record.alone.key_check import KeyCheck
from rli.index.record.alone.prepared import advance, transaction_draft, write_preparing
from rli.index.record.alone.prepared_record import Prepared, State
from rli.index.record.alone.staged_changes import StagedChanges
from rli.index.record.alone.sweeping import SILENT_SECONDS, sweep, withdraw
from rli.index.record.alone.transaction_tasks import StagedPart, TransactionTasks
from rli.index.record.entries.stored_entries import StoredEntries
from rli.index.record.log.actions import PREPARE
from rli.index.record.log.record import LogRecord, RecordDraft
from rli.index.record.log.state import LogState
from rli.locations import LocationUpdate
from rli.processes import ProcessId


@dataclass(frozen=True, slots=True)
class Begun:
    """What a transaction is from its beginning to its end.

    Attributes:
        index: that it changes.
        snapshot: the commit sequence that it builds on.
        writer: its identity.
        instant: that look-ups will report.
    """

    index: StoredEntries
    snapshot: int
    writer: str
    instant: str

    def record_in(self, log: LogState, action: str) -> LogRecord | None:
        """The record of an action of this transaction; None if the log has none."""
        found = (r for r in log.records_after(self.snapshot) if r.writer == self.writer and r.action == action)
        return next(found, None)

    def taken_for_dead(self) -> LeaseLostError:
        """The error of a transaction whose staged changes others have removed."""
        return LeaseLostError(
            f"the staged changes of this transaction were removed: url={self.index.url} instant={self.instant}",
            remedy="this process was taken for dead: begin a new transaction and tag again",
        )


class OpenTransaction:
    """Changes are staged.

    Args:
        begun: the transaction.
    """

    def __init__(self, begun: Begun) -> None:
        self._begun = begun
        self._changes = StagedChanges(begun.index, begun.writer, begun.snapshot)

    def stage(self, changes: LocationUpdate) -> None:
        """See ``IndexTransaction.stage``."""
        self._announce()
        self._changes.add(changes)

    def for_tasks(self) -> TransactionTasks:
        """This transaction for the tasks of an engine, in other processes; ``accept`` takes what they staged."""
        self._announce()
        self._changes.expect_parts()
        return TransactionTasks(self._begun.index, self._begun.snapshot, self._begun.writer)

    def accept(self, parts: Iterable[StagedPart]) -> None:
        """Take the changes that tasks have staged: one attempt of each task, and no key in two of them."""
        self._changes.accept(parts)

    def preparing(self, strings: Mapping[str, str]) -> PreparingTransaction:
        """Make the staged changes durable under a name by which others find them."""
        begun = self._begun
        self._announce()
        self._changes.remove_others()
        prepared = Prepared(
            writer=begun.writer,
            state=State.PREPARING,
            instant=begun.instant,
            snapshot=begun.snapshot,
            fence=0,
            staged=self._changes.as_record(),
            metadata=tuple(sorted(strings.items())),
            prepared_at=0.0,
            process=ProcessId.current(),
        )
        # The control record before the record of the log: whoever reads the announcement must find the transaction's
        # keys (P35).
        return PreparingTransaction(begun, self._changes, write_preparing(begun.index, prepared))

    def committing(self, strings: Mapping[str, str]) -> CommittingTransaction | None:
        """This transaction, about to be committed; None if there is nothing to commit."""
        self._changes.remove_others()
        if not self._changes and not strings:
            return None
        begun = self._begun
        draft = transaction_draft(
            begun.writer, begun.instant, self._changes.file_groups, self._changes.as_record(), strings
        )
        return CommittingTransaction(begun, self._changes, draft)

    def abort(self) -> None:
        """Remove the staged changes."""
        self._changes.remove()

    def _announce(self) -> None:
        """Show a sign of life, and look for processes that died, before anything is staged."""
        if self._begun.index.owner.announce():
            sweep(self._begun.index, SILENT_SECONDS)


class CommittingTransaction:
    """Its record is to be appended to the commit log, behind all records that its keys were checked against.

    Args:
        begun: the transaction.
        changes: that it has staged.
        draft: of its record.

    Attributes:
        is_asked: whether the store was asked to append the record. From then on, only the log tells whether it has it.
    """

    def __init__(self, begun: Begun, changes: StagedChanges, draft: RecordDraft) -> None:
        self._begun = begun
        self._changes = changes
        self._draft = draft
        self.is_asked = False

    def commit(self) -> IndexCommit:
        """Append the record, and apply it as far as the store lets this process; may be repeated.

        Raises:
            ConflictError: a key is not free; or the staged changes were removed.
            UndecidedCommitError: the store failed, and it is not known whether the record is in the log.
        """
        try:
            record = self._appended()
        except Exception as error:
            # An earlier call may have asked, too, and its append may arrive at any time: a failed look at the log, or a
            # conflict with the transaction's own record, does not tell that nothing was written.
            settled = self._settled(error) if self.is_asked else None
            if settled is None:
                raise
            record = settled
        return commit_of(record, is_behind=not applied_after_commit(self._begun.index, self._begun.instant))

    def abort(self) -> None:
        """Remove the staged changes.

        Raises:
            ConflictError: the commit took effect.
            UndecidedCommitError: as ``commit``.
        """
        if self.is_asked and self._settled() is not None:
            raise ConflictError(
                f"the transaction was committed, although an error hid that: url={self._begun.index.url} "
                f"instant={self._begun.instant}",
                instants=(self._begun.instant,),
                remedy="to take it back, place its records again in a new transaction",
            )
        self.remove()

    def require_same(self, strings: Mapping[str, str]) -> None:
        """Raise ``InvalidInputError`` if a repeated commit has other metadata: the first one may have taken effect."""
        if strings and dict(self._draft.metadata) != dict(strings):
            raise InvalidInputError(
                f"a commit of this transaction may have taken effect with other metadata: metadata={dict(strings)} "
                f"before={dict(self._draft.metadata)}",
                remedy="commit it again with the same",
            )

    def remove(self) -> None:
        """Remove the staged changes of a commit that failed with an error which says that nothing was written."""
        self._changes.remove()

    def _appended(self) -> LogRecord:
        check = KeyCheck(self._begun.index, self._begun.writer, self._begun.snapshot, self._changes)
        was_asked = self.is_asked
        while True:
            checked = checked_or_appended(self._begun, check, self._draft.action)
            if isinstance(checked, LogRecord):
                return checked
            # Before the request, not after it: a request that fails may still arrive.
            self.is_asked = True
            log = self._begun.index.log.append(checked, self._draft)
            if log is not None:
                return log.records[-1]
            # Another record was first. After an earlier call, it may be that of this transaction.
            self.is_asked = was_asked

    def _settled(self, error: Exception | None = None) -> LogRecord | None:
        """The record, if the log has it; None if no append of it can succeed any more (P30).

        Raises:
            UndecidedCommitError: the store does not tell.
        """
        begun = self._begun
        try:
            while True:
                log = begun.index.log.refresh()
                record = begun.record_in(log, self._draft.action)
                # An append that is still on its way fails behind the record of the withdrawal.
                # Both ends are final. If neither holds, another transaction has appended in between, and the log is
                # read again.
                if record is not None or withdraw(begun.index, log, [begun.writer]):
                    return record
        except (OSError, RliError) as unsettled:
            raise UndecidedCommitError(
                f"the store failed while a transaction was committed, and it is not known whether it took effect: "
                f"url={begun.index.url} instant={begun.instant}",
                remedy="commit it again once the store answers, or look for the instant in RecordIndex.history",
            ) from (error or unsettled)


@dataclass(frozen=True, slots=True)
class PreparingTransaction:
    """Others find the staged changes, and its caller does not know yet that they hold. It can only go on, or be aborted.

    Attributes:
        begun: the transaction.
        changes: that it has staged.
        prepared: its control record.
    """

    begun: Begun
    changes: StagedChanges
    prepared: Prepared

    def announced(self) -> PreparedTransaction:
        """Announce it in the log, behind all records that its keys were checked against.

        Raises:
            ConflictError: a key is not free.
            LeaseLostError: this process was taken for dead.
        """
        begun = self.begun
        # The fence is a place in the log: every append behind it was decided by a process that read the announcement,
        # or fails.
        fence = self._appended().first_sequence
        advanced = advance(begun.index, self.prepared, State.PREPARED, fence=fence)
        # Another process has forgotten the record: it took this process for dead, and the keys are no longer held. The
        # caller has not committed to its table yet, so nothing is lost (P35).
        if advanced is None:
            raise begun.taken_for_dead()
        return PreparedTransaction(begun.index, self.prepared)

    def abort(self) -> None:
        """See ``PreparedTransaction.abort``."""
        abort_prepared(self.begun.index, self.prepared)

    def _appended(self) -> LogRecord:
        begun = self.begun
        draft = RecordDraft(instant=None, action=PREPARE, writer=begun.writer, located_at=(begun.instant,))
        check = KeyCheck(begun.index, begun.writer, begun.snapshot, self.changes)
        while True:
            checked = checked_or_appended(begun, check, PREPARE)
            if isinstance(checked, LogRecord):
                return checked
            begun.index.log.append(checked, draft)


@dataclass(frozen=True, slots=True)
class PreparedTransaction:
    """Its keys are held, and its caller decides.

    Attributes:
        index: that it changes.
        prepared: its control record.
    """

    index: StoredEntries
    prepared: Prepared

    def commit(self, strings: Mapping[str, str]) -> IndexCommit:
        """See ``commit_prepared``."""
        return commit_prepared(self.index, self.prepared, strings)

    def abort(self) -> None:
        """Drop it.

        Raises:
            ConflictError: another process has committed it.
        """
        abort_prepared(self.index, self.prepared)


def checked_or_appended(begun: Begun, check: KeyCheck, action: str) -> LogState | LogRecord:
    """The log that the keys were checked against; or the record of an action, if an earlier append of it has succeeded.

    Raises:
        ConflictError: a key is not free.
        LeaseLostError: the staged changes were removed.
    """
    log = apply_transactions(begun.index)
    if (record := begun.record_in(log, action)) is not None:
        return record
    try:
        checked = check.checked(log)
    except staging.ChunksGoneError:
        # Chunks go after a commit is applied, and after a sweep. The log tells the two apart.
        record = begun.record_in(begun.index.log.refresh(), action)
        if record is not None:
            return record
        raise begun.taken_for_dead() from None
    # Read in the same state that the append goes behind. A sweep that comes later makes the append fail, and this is
    # asked again.
    if any(begun.writer in record.swept for record in checked.records_after(begun.snapshot)):
        raise begun.taken_for_dead()
    return checked
