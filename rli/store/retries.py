"""Repeating what a store did not answer: one policy for all stores that are reached over a network."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Final, TypeVar

from tenacity import RetryCallState, Retrying, retry_if_exception, stop_before_delay, wait_random_exponential

from rli.errors import RliError, StoreUnavailableError
from rli.telemetry import events, metrics
from rli.telemetry.store_calls import note_if_slow
from rli.telemetry.waits import waiting

T = TypeVar("T")

DEFAULT_DEADLINE_SECONDS: Final = 30.0
_FIRST_PAUSE_SECONDS: Final = 0.05
_LONGEST_PAUSE_SECONDS: Final = 2.0

_REMEDY_FOR_SILENCE: Final = (
    "check that it runs and can be reached, then try again: no commit of a table is lost, and an index that its "
    "store lost is built again from the table"
)

_GIVE_UP_AT: ContextVar[float] = ContextVar("rli give up at", default=float("inf"))


@contextmanager
def answers_within(seconds: float) -> Iterator[None]:
    """While the block runs, its thread gives stores up after so many seconds in all, whatever their own deadlines."""
    token = _GIVE_UP_AT.set(min(_GIVE_UP_AT.get(), time.monotonic() + seconds))
    try:
        yield
    finally:
        _GIVE_UP_AT.reset(token)


class Retries:
    """Repeats calls to one store until they are answered or a deadline has passed.

    Only for calls that may be applied twice without harm: whether a call whose answer was lost had been applied
    cannot be told. Pauses grow exponentially, with jitter so that many tasks do not come back at once.

    Args:
        store: the store's URL without secrets, for messages.
        is_transient: whether an error of the client library may go away by itself.
        deadline_seconds: how long a call may take, all attempts and pauses together.
        explain: a better error for a cause that waiting did not mend, if there is one. It is asked for the last cause
            first, then for earlier ones: the last attempt may have had too little time left.

    >>> retries = Retries("mystore://host", lambda error: isinstance(error, ConnectionError), deadline_seconds=10)
    >>> retries.run(lambda: "answer")
    'answer'
    """

    def __init__(
        self,
        store: str,
        is_transient: Callable[[BaseException], bool],
        deadline_seconds: float,
        explain: Callable[[BaseException], RliError | None] = lambda _: None,
    ) -> None:
        self._store = store
        self._is_transient = is_transient
        self._deadline_seconds = deadline_seconds
        self._explain = explain

    def run(self, call: Callable[[], T]) -> T:
        """The result of ``call``.

        Raises:
            StoreUnavailableError: no attempt succeeded before the deadline. The last cause is its ``__cause__``; the
                message names earlier ones of other types, too.
            RliError: the same, where ``explain`` has an error for a cause.
            Exception: what ``call`` raised, if that is not transient.
        """
        causes: dict[type, BaseException] = {}
        began = time.monotonic()
        seconds = min(self._deadline_seconds, _GIVE_UP_AT.get() - began)
        if began >= _GIVE_UP_AT.get():
            raise StoreUnavailableError(
                f"the store did not answer earlier calls: store={self._store}", remedy=_REMEDY_FOR_SILENCE
            )
        attempts = Retrying(
            stop=stop_before_delay(seconds),
            wait=wait_random_exponential(multiplier=_FIRST_PAUSE_SECONDS, max=_LONGEST_PAUSE_SECONDS),
            retry=retry_if_exception(self._is_transient),
            after=partial(_note, causes),
            before_sleep=self._log_attempt,
            retry_error_callback=partial(self._give_up, causes, seconds),
        )
        with waiting(partial(self._describe, causes, seconds)):
            answer = attempts(call)
        note_if_slow(self._store, "request", 0, time.monotonic() - began)
        return answer

    def _describe(self, causes: dict[type, BaseException], seconds: float) -> str:
        last = list(causes.values())[-1:]
        return f"an answer of the store: store={self._store} timeout={seconds:.3g} s" + (
            f" last cause={_describe(last[0])}" if last else ""
        )

    def _log_attempt(self, state: RetryCallState) -> None:
        metrics.STORE_RETRIES.add(1, store=self._store.partition(":")[0])
        events.STORE_RETRIED.log(
            store=self._store, attempt=state.attempt_number, seconds=state.seconds_since_start, cause=_cause_of(state)
        )

    def _give_up(self, causes: dict[type, BaseException], seconds: float, state: RetryCallState) -> None:
        cause = _cause_of(state)
        for other in (cause, *reversed(causes.values())):
            if other is not None and (explained := self._explain(other)) is not None:
                raise explained from other
        events.STORE_UNAVAILABLE.log(store=self._store, attempts=state.attempt_number, seconds=seconds, cause=cause)
        earlier = [_describe(other) for other in causes.values() if other is not cause]
        raise StoreUnavailableError(
            f"the store does not answer: store={self._store} attempts={state.attempt_number} "
            f"seconds={seconds:.3g} last cause={_describe(cause)}"
            f"{f' earlier causes={earlier}' if earlier else ''}",
            remedy=_REMEDY_FOR_SILENCE,
        ) from cause


def _note(causes: dict[type, BaseException], state: RetryCallState) -> None:
    """Keep the last cause of each type, in order: few, however many attempts there are."""
    cause = _cause_of(state)
    if cause is not None:
        causes.pop(type(cause), None)
        causes[type(cause)] = cause


def _cause_of(state: RetryCallState) -> BaseException | None:
    return None if state.outcome is None else state.outcome.exception()


def _describe(cause: BaseException | None) -> str:
    shown = repr(cause)
    try:
        text = str(cause)
    except Exception:  # noqa: BLE001  (some client libraries' errors fail in str(), others leave their text out of repr())
        return shown
    return shown if text in shown else f"{shown}: {text}"
