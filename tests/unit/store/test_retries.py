"""Calls to a store are repeated while that can help, and no longer."""

from __future__ import annotations

import pytest

from rli.errors import StoreUnavailableError
from rli.store.retries import Retries


def retries(deadline_seconds: float = 30.0) -> Retries:
    return Retries("store://example", lambda error: isinstance(error, ConnectionError), deadline_seconds)


class Call:
    """Raises its errors one after the other, then answers."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)

    def __call__(self) -> str:
        if self.errors:
            raise self.errors.pop(0)
        return "answer"


def test_transient_error_is_retried() -> None:
    assert retries().run(Call(ConnectionError("one"), ConnectionError("two"))) == "answer"


def test_other_errors_are_raised_at_once() -> None:
    call = Call(ValueError("wrong"), ValueError("again"))
    with pytest.raises(ValueError, match="wrong"):
        retries().run(call)
    assert len(call.errors) == 1


def test_deadline_names_last_cause() -> None:
    cause = ConnectionError("connection refused")
    with pytest.raises(StoreUnavailableError, match=r"store://example.*connection refused") as caught:
        retries(deadline_seconds=0).run(Call(cause))
    assert caught.value.__cause__ is cause


def test_earlier_different_cause_is_named() -> None:
    errors = [ConnectionAbortedError("loading"), *(ConnectionResetError("too late") for _ in range(10_000))]
    with pytest.raises(StoreUnavailableError, match=r"last cause=.*too late.* earlier causes=\[.*loading") as caught:
        retries(deadline_seconds=0.5).run(Call(*errors))
    assert str(caught.value).count("too late") == 1
