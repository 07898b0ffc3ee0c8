"""Cutting in at the requests that this process sends to an object store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import obstore
import pytest
from obstore.exceptions import BaseError, GenericError

_REQUESTS: Final = ("put", "get", "head", "copy", "delete")
READS: Final = ("get", "get_range", "get_ranges", "head", "list")
"""Requests that change nothing."""

AtRequest = Callable[[str], None]
"""Called with the name of a request before it is sent."""


@contextmanager
def at_requests(before: AtRequest, names: Sequence[str] = _REQUESTS) -> Iterator[None]:
    """Report each request of some names before it is sent."""
    with pytest.MonkeyPatch.context() as patch:
        for name in names:
            patch.setattr(obstore, name, _reporting(name, getattr(obstore, name), before))
        yield


@contextmanager
def answer_lost(number: int, error: type[BaseError] = GenericError) -> Iterator[list[str]]:
    """The n-th request that changes something is carried out, but gets no answer; the requests that were sent.

    Args:
        number: of the request, from 1.
        error: what the client is told instead. A network component that repeats requests gets a ``PreconditionError``.
    """
    sent: list[str] = []

    def losing(name: str, send: Callable[..., Any]) -> Callable[..., Any]:
        def request(*arguments: Any, **named: Any) -> Any:
            sent.append(name)
            answer = send(*arguments, **named)
            if len(sent) == number:
                raise error("the answer was lost")
            return answer

        return request

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(obstore, "put", losing("put", obstore.put))
        yield sent


def _reporting(name: str, send: Callable[..., Any], before: AtRequest) -> Callable[..., Any]:
    def request(*arguments: Any, **named: Any) -> Any:
        before(name)
        return send(*arguments, **named)

    return request
