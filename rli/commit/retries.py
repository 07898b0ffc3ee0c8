"""Writes that are in conflict with another writer's, or whose tasks went wrong, are tried again a bounded number of times.

The one place for it, whatever engine writes: an attempt begins with a snapshot of its own, and an attempt that fails
has removed what it wrote before it says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception,
    stop_after_attempt,
    wait_random_exponential,
)

from rli.commit.prepared_write import PreparedWrite
from rli.commit.write_report import WriteReport
from rli.commit.write_transaction import WriteTransaction
from rli.errors import ConflictError, RliError, VoidAttemptError
from rli.model import CommitResult
from rli.telemetry.waits import waiting
from rli.view.caller_transactions import RepeatedTransactionError

_FIRST_PAUSE_SECONDS: Final = 0.05
_LONGEST_PAUSE_SECONDS: Final = 5.0


def write_until_committed(
    begin: Callable[[], WriteTransaction],
    work: Callable[[WriteTransaction], PreparedWrite],
    attempts: int,
    operation: str,
) -> CommitResult:
    """The result of the first attempt to write that is in conflict with nobody.

    Pauses between attempts grow exponentially, with full jitter so that writers in conflict do not come back at once.

    Args:
        begin: begins an attempt, from a snapshot of its own.
        work: tags and writes.
        attempts: how many at most.
        operation: Hudi's name of what is written, such as ``UPSERT``.

    Raises:
        ConflictError: every attempt was in conflict; with what the last one was in conflict with.
        VoidAttemptError: in the last attempt too, tasks had other records than requested.

    Returns:
        What was committed: by this call, or by an earlier one with the same transaction of the caller.
    """
    report = WriteReport(attempts, operation)
    write: WriteTransaction | None = None

    def attempt() -> CommitResult:
        nonlocal write
        report.attempt_began()
        write = None
        write = begin()
        report.attempt_announced(write)
        try:
            return _write(write, work)
        except (ConflictError, RepeatedTransactionError):
            raise
        except Exception as error:
            # Any error may be secondary: another writer may have removed our files, or undone commits we read.
            write.require_own_failure(error)
            raise

    def may_be_repeated(error: BaseException) -> bool:
        # Once published, what fails is a step of the caller's: another attempt would find its own records.
        is_published = write is not None and write.is_published
        return isinstance(error, ConflictError | VoidAttemptError) and not is_published

    retrying = Retrying(
        stop=stop_after_attempt(attempts),
        wait=wait_random_exponential(multiplier=_FIRST_PAUSE_SECONDS, max=_LONGEST_PAUSE_SECONDS),
        retry=retry_if_exception(may_be_repeated),
        before_sleep=lambda state: report.retried(_failure_of(state)),
        retry_error_callback=_give_up,
        sleep=_pause,
    )
    try:
        return report.done(retrying(attempt))
    except RepeatedTransactionError as repeated:
        return report.repeated(repeated.result)
    except Exception as error:
        report.failed(error)
        raise


def _write(write: WriteTransaction, work: Callable[[WriteTransaction], PreparedWrite]) -> CommitResult:
    try:
        prepared = work(write)
    except BaseException:
        write.abort()
        raise
    return write.commit(prepared)


def _pause(seconds: float) -> None:
    with waiting(lambda: f"another attempt, because another writer was first: pause={seconds:.1f} s"):
        time.sleep(seconds)


def _give_up(state: RetryCallState) -> CommitResult:
    last = _failure_of(state)
    if not isinstance(last, ConflictError):
        raise last
    named = f"keys={last.key_count} sample={list(last.keys)} " if last.key_count else ""
    raise type(last)(
        f"other writers were first in every attempt: attempts={state.attempt_number} {named}"
        f"instants={list(last.instants)} last cause=({last}); nothing was written: write "
        "again later, allow more attempts, or let fewer writers change the same file groups at once",
        keys=last.keys,
        key_count=last.key_count,
        instants=last.instants,
    ) from last


def _failure_of(state: RetryCallState) -> RliError:
    error = None if state.outcome is None else state.outcome.exception()
    if not isinstance(error, ConflictError | VoidAttemptError):
        raise TypeError(f"neither a conflict nor a void attempt: error={error!r}")
    return error
