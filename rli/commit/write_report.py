"""How a write went, in its result, its log records and metrics: attempts, conflicts, and where the time went."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Final, TypeVar

from rli.commit.begun_write import BegunWrite
from rli.commit.outcome import Published, Unchanged
from rli.errors import ConflictError, InvalidInputError, RliError, UndecidedCommitError
from rli.model import CommitResult, Step
from rli.telemetry import events, metrics
from rli.view.definition import TableDefinition
from rli.view.registration import seems_to_have_other_index

Done = TypeVar("Done", bound=Published | Unchanged)

_MOST_CONFLICTS: Final = 2
"""A write that was in conflict so often has a turn in its next attempt."""

_CHANGES = ("inserted", "updated", "moved", "deleted", "unchanged", "duplicates")


class WriteReport:
    """Follows one write through its attempts.

    Args:
        table: the definition that the write goes by.
        most_attempts: after which the write gives up.
        operation: Hudi's name of what is written.
    """

    def __init__(self, table: TableDefinition, most_attempts: int, operation: str) -> None:
        self._table = table
        self._most_attempts = most_attempts
        self._operation = operation.lower()
        self._began = self._attempt_began = time.monotonic()
        self._attempts = 0
        self._conflicts = 0
        self._write: BegunWrite | None = None

    def attempt_began(self) -> BegunWrite | None:
        """An attempt begins, before it has a transaction. Returns the one before it, if the write should have a turn now.

        A write that works longer than a turn lasts would hold others up in vain. A long wait for others is no work: it is what a
        turn is to end.
        """
        before = self._write
        self._attempts += 1
        self._attempt_began = time.monotonic()
        if before is None or self._conflicts < _MOST_CONFLICTS:
            return None
        return before if before.clock.work_seconds < before.table.require_settings().lease_seconds else None

    def attempt_announced(self, write: BegunWrite) -> None:
        """The attempt has an instant."""
        self._write = write
        write.clock.follow(self._attempts - 1, self._conflicts, self._attempt_began - self._began)

    def retried(self, failure: Exception) -> None:
        """An attempt failed, and there will be another one."""
        is_conflict = isinstance(failure, ConflictError)
        metrics.RETRIES.add(1, reason="conflict" if is_conflict else "void")
        where = {"table": self._table.location, "instant": self._instant, "attempt": self._attempts}
        if isinstance(failure, ConflictError):
            self._conflicts += 1
            events.COMMIT_RETRIED.log(
                **where, attempts=self._most_attempts, keys=failure.key_count, instants=failure.instants, cause=failure
            )
        else:
            events.COMMIT_VOID.log(**where, attempts=self._most_attempts, cause=failure)

    def failed(self, failure: BaseException) -> None:
        """The write has failed for good, or is about to be repeated with the index that the table has now (P37)."""
        if self._is_repeated_elsewhere(failure):
            # The repetition tells how the write went.
            return
        if self._write is not None and self._write.clock.has_reached(Step.PUBLISHED):
            # Ctrl-C came after the publication: the commit stands.
            metrics.WRITES.add(1, operation=self._operation, outcome="committed")
            events.COMMIT_UNFINISHED.log(table=self._table.location, instant=self._instant, cause=failure)
            return
        self._conflicts += isinstance(failure, ConflictError)
        metrics.WRITES.add(1, operation=self._operation, outcome="failed")
        if isinstance(failure, InvalidInputError):
            # The caller's mistake, and most of these are found before there is an attempt to report.
            return
        events.COMMIT_FAILED.log(
            table=self._table.location,
            operation=self._operation,
            instant=self._instant,
            attempts=self._attempts,
            conflicts=self._conflicts,
            seconds=self._seconds,
            cause=failure,
        )

    def _is_repeated_elsewhere(self, failure: BaseException) -> bool:
        if not isinstance(failure, RliError) or isinstance(failure, UndecidedCommitError):
            return False
        return seems_to_have_other_index(self._table)

    def repeated(self, result: CommitResult) -> CommitResult:
        """The caller's transaction was committed before, with this result."""
        metrics.WRITES.add(1, operation=self._operation, outcome="repeated")
        events.COMMIT_REPEATED.log(instant=result.instant, attempts=self._attempts, seconds=self._seconds)
        return result

    def done(self, outcome: Done) -> Done:
        """The outcome, whose result says what it took."""
        result = outcome.result
        told = replace(result, attempts=self._attempts, conflicts=self._conflicts)
        self._count(told)
        common = {
            "table": self._table.location,
            "operation": self._operation,
            "unchanged": told.unchanged,
            "duplicates": told.duplicates,
            "attempts": told.attempts,
            "conflicts": told.conflicts,
            "seconds": self._seconds,
            "seconds_by_step": told.seconds,
        }
        if told.instant is None:
            events.COMMIT_EMPTY.log(**common)
        else:
            events.COMMIT_DONE.log(
                **common,
                instant=told.instant,
                inserted=told.inserted,
                updated=told.updated,
                moved=told.moved,
                deleted=told.deleted,
                files_created=told.files_created,
                files_rewritten=told.files_rewritten,
                files_replaced=told.files_replaced,
                bytes=told.written_bytes,
            )
        return replace(outcome, result=told)

    def _count(self, result: CommitResult) -> None:
        operation = self._operation
        metrics.WRITES.add(1, operation=operation, outcome="empty" if result.instant is None else "committed")
        for change in _CHANGES:
            if count := getattr(result, change):
                metrics.RECORDS.add(count, operation=operation, change=change)
        if result.instant is not None:
            metrics.WRITTEN_BYTES.add(result.written_bytes, operation=operation)
            metrics.WRITE_SECONDS.add(self._seconds, operation=operation)
            for step, seconds in result.seconds.items():
                metrics.STEP_SECONDS.add(seconds, step=step)

    @property
    def _seconds(self) -> float:
        return time.monotonic() - self._began

    @property
    def _instant(self) -> str | None:
        return None if self._write is None else self._write.instant
