"""Writes that are in conflict with another writer's, or whose tasks went wrong, are tried again a bounded number of times.

The one place for it, whatever engine writes: an attempt begins with a snapshot of its own, and an attempt that fails
has removed what it wrote before it says so.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    stop_after_attempt,
    wait_random_exponential,
)

from rli.commit.write_transaction import PreparedWrite, WriteTransaction
from rli.errors import ConflictError, RliError, VoidAttemptError
from rli.model import CommitResult
from rli.view.caller_transactions import RepeatedTransactionError

_LOG = logging.getLogger(__name__)

_FIRST_PAUSE_SECONDS: Final = 0.05
_LONGEST_PAUSE_SECONDS: Final = 5.0


def write_until_committed(
    begin: Callable[[], WriteTransaction], work: Callable[[WriteTransaction], PreparedWrite], attempts: int
) -> CommitResult:
    """The result of the first attempt to write that is in conflict with nobody.

    Pauses between attempts grow exponentially, with full jitter so that writers in conflict do not come back at once.

    Args:
        begin: begins an attempt, from a snapshot of its own.
        work: tags and writes.
        attempts: how many at most.

    Raises:
        ConflictError: every attempt was in conflict; with what the last one was in conflict with.
        VoidAttemptError: in the last attempt too, tasks had other records than were requested.

    Returns:
        What was committed: by this call, or by an earlier one with the same transaction of the caller.
    """

    def attempt() -> CommitResult:
        write = begin()
        try:
            return _write(write, work)
        except (ConflictError, RepeatedTransactionError):
            raise
        except Exception as error:
            # Whatever it looks like: files or instants may be gone that others took for left behind, or have undone.
            write.require_own_failure(error)
            raise

    retrying = Retrying(
        stop=stop_after_attempt(attempts),
        wait=wait_random_exponential(multiplier=_FIRST_PAUSE_SECONDS, max=_LONGEST_PAUSE_SECONDS),
        retry=retry_if_exception_type((ConflictError, VoidAttemptError)),
        before_sleep=_log_failure,
        retry_error_callback=_give_up,
    )
    try:
        return retrying(attempt)
    except RepeatedTransactionError as repeated:
        return repeated.result


def _write(write: WriteTransaction, work: Callable[[WriteTransaction], PreparedWrite]) -> CommitResult:
    try:
        prepared = work(write)
    except BaseException:
        write.abort()
        raise
    return write.commit(prepared)


def _log_failure(state: RetryCallState) -> None:
    failure = _failure_of(state)
    level = logging.INFO if isinstance(failure, ConflictError) else logging.WARNING
    _LOG.log(level, "write failed, trying again: attempt=%s cause=%s", state.attempt_number, failure)


def _give_up(state: RetryCallState) -> CommitResult:
    last = _failure_of(state)
    if not isinstance(last, ConflictError):
        raise last
    raise type(last)(
        f"other writers were first in every attempt: attempts={state.attempt_number} keys={last.key_count} "
        f"sample={list(last.keys)} instants={list(last.instants)} last cause=({last}); nothing was written: write "
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
