"""Errors of Redis that waiting did not mend say what to do, whichever attempt met them."""

from __future__ import annotations

from functools import partial

import pytest
from redis import exceptions

from rli.errors import StoreUnavailableError
from rli.store import Retries
from rli_redis.errors import explained, is_transient

STORE = "redis://example/0"


def give_up(*errors: Exception) -> StoreUnavailableError:
    """What is raised after attempts that met these errors, the last one again and again."""
    waiting = list(errors)

    def call() -> None:
        raise waiting.pop(0) if len(waiting) > 1 else waiting[0]

    with pytest.raises(StoreUnavailableError) as caught:
        Retries(STORE, is_transient, 0.3, partial(explained, STORE)).run(call)
    return caught.value


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (exceptions.ReadOnlyError("You can't write against a read only replica."), "name its master"),
        (exceptions.ResponseError("NOREPLICAS Not enough good replicas to write."), "lower min-replicas-to-write"),
    ],
)
def test_earlier_informative_cause_is_explained(error: Exception, advice: str) -> None:
    raised = give_up(error, exceptions.TimeoutError("too late"))
    assert advice in str(raised)
    assert STORE in str(raised)
    assert raised.__cause__ is error


def test_the_last_cause_is_explained_first() -> None:
    few = exceptions.ResponseError("NOREPLICAS Not enough good replicas to write.")
    assert give_up(exceptions.ReadOnlyError("read only"), few).__cause__ is few


def test_causes_without_an_explanation_are_named() -> None:
    message = str(give_up(exceptions.ConnectionError("refused"), exceptions.TimeoutError("too late")))
    assert "does not answer" in message
    assert "refused" in message
    assert "too late" in message
