"""Writes that are in conflict with another writer's, or whose tasks went wrong, are tried again a bounded number of times.

The one place for it, whatever engine writes: an attempt begins with a snapshot of its own, and an attempt that is not
published leaves nothing. A write that was in conflict twice gets a turn, in which no other write is published.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Final

from tenacity import RetryCallState, Retrying, retry_if_result, stop_after_attempt, wait_random_exponential

from rli.commit.begun_write import BegunWrite
from rli.commit.outcome import NotPublished, Outcome, Published, Unchanged, Undecided
from rli.commit.prepared_write import PreparedWrite
from rli.commit.publishing import publish
from rli.commit.turns import own_turn
from rli.commit.write_report import WriteReport
from rli.errors import ConflictError, as_nothing_written
from rli.telemetry.waits import waiting
from rli.view.caller_transactions import RepeatedTransactionError
from rli.view.definition import TableDefinition

_FIRST_PAUSE_SECONDS: Final = 0.05
_LONGEST_PAUSE_SECONDS: Final = 5.0


def write_until_published(
    table: TableDefinition,
    begin: Callable[[], BegunWrite],
    prepare: Callable[[BegunWrite], PreparedWrite],
    attempts: int,
    operation: str,
) -> Published | Unchanged:
    """The outcome of the first attempt to write that is in conflict with nobody.

    Pauses between attempts grow exponentially, with full jitter so that writers in conflict do not come back at once.

    Args:
        table: the definition that the write goes by.
        begin: begins an attempt, from a snapshot of its own.
        prepare: tags and writes.
        attempts: how many at most.
        operation: Hudi's name of what is written, such as ``UPSERT``.

    Raises:
        ConflictError: every attempt was in conflict; with what the last one was in conflict with.
        VoidAttemptError: in the last attempt too, tasks had other records than requested.
        UndecidedCommitError: the storage failed while the commit was published.

    Returns:
        What was committed: by this call, or by an earlier one with the same transaction of the caller.
    """
    report = WriteReport(table, attempts, operation)
    retrying = Retrying(
        stop=stop_after_attempt(attempts),
        wait=wait_random_exponential(multiplier=_FIRST_PAUSE_SECONDS, max=_LONGEST_PAUSE_SECONDS),
        retry=retry_if_result(_may_be_repeated),
        before_sleep=lambda state: report.retried(_failure_of(state)),
        retry_error_callback=_given_up,
        sleep=_pause,
    )
    try:
        outcome = retrying(_attempt, begin, prepare, report)
    except BaseException as interruption:
        report.failed(interruption)
        raise
    match outcome:
        case NotPublished(RepeatedTransactionError() as repeated):
            return Unchanged(report.repeated(repeated.result))
        case NotPublished(reason):
            report.failed(reason)
            raise as_nothing_written(reason)
        case Undecided(reason):
            report.failed(reason)
            raise reason
    return report.done(outcome)


def _attempt(
    begin: Callable[[], BegunWrite], prepare: Callable[[BegunWrite], PreparedWrite], report: WriteReport
) -> Outcome:
    # The turn surrounds the whole attempt, snapshot included. A turn taken later would not keep others from publishing
    # between the snapshot and the commit, and that is its only use (P45).
    lost = report.attempt_began()
    with nullcontext() if lost is None else own_turn(lost.table, lost.index, patience=lost.patience) as turn:
        return _tried(begin, prepare, report, turn)


def _tried(
    begin: Callable[[], BegunWrite],
    prepare: Callable[[BegunWrite], PreparedWrite],
    report: WriteReport,
    turn: str | None,
) -> Outcome:
    try:
        begun = begin()
    except Exception as error:  # noqa: BLE001  (the outcome tells of it)
        return NotPublished(error)
    report.attempt_announced(begun)
    try:
        prepared = prepare(begun)
    except Exception as error:  # noqa: BLE001  (the outcome tells of it)
        return begun.abandoned(error)
    except BaseException:
        begun.withdraw()
        raise
    return publish(begun, prepared, turn)


def _may_be_repeated(outcome: Outcome) -> bool:
    # ``Undecided`` is never repeated: a successor may still publish the first attempt, beside its repeat.
    return isinstance(outcome, NotPublished) and outcome.may_be_repeated


def _pause(seconds: float) -> None:
    with waiting(lambda: f"another attempt, because another writer was first: pause={seconds:.1f} s"):
        time.sleep(seconds)


def _given_up(state: RetryCallState) -> Outcome:
    last = _failure_of(state)
    if not isinstance(last, ConflictError):
        return NotPublished(last)
    named = f"keys={last.key_count} sample={list(last.keys)} " if last.key_count else ""
    error = type(last)(
        f"other writers were first in every attempt: attempts={state.attempt_number} {named}"
        f"instants={list(last.instants)} last cause=({last}); nothing was written: write "
        "again later, allow more attempts, or let fewer writers change the same file groups at once",
        keys=last.keys,
        key_count=last.key_count,
        instants=last.instants,
    )
    error.__cause__ = last
    return NotPublished(error)


def _failure_of(state: RetryCallState) -> Exception:
    outcome: object = None if state.outcome is None else state.outcome.result()
    if not isinstance(outcome, NotPublished):
        raise TypeError(f"an attempt that is not to be repeated: outcome={outcome!r}")
    return outcome.reason
