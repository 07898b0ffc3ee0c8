"""Whether a store answers, and what it can tell of its own health."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Protocol, runtime_checkable
from uuid import uuid4

from rli.findings import Finding, Verdict
from rli.store.contract import Store
from rli.urls import without_password


@runtime_checkable
class SupportsHealth(Protocol):
    """A store that knows what may be wrong with it, beyond what reading and writing show."""

    def health(self) -> list[Finding]:
        """Look at the store's settings, room and surroundings; changes nothing.

        Raises:
            StoreUnavailableError: the store does not answer.
        """
        ...


def store_findings(store: Store) -> Iterator[Finding]:
    """Findings about an open store.

    Raises:
        StoreUnavailableError: the store does not answer.
    """
    yield _round_trip(store)
    if isinstance(store, SupportsHealth):
        yield from store.health()


def _round_trip(store: Store) -> Finding:
    """Set a control record, read it and remove it."""
    name, value = f"doctor/{uuid4().hex}", b"rli doctor"
    started = time.perf_counter()
    kept = store.compare_and_set(name, None, value) and store.read_control(name) == value
    removed = store.compare_and_set(name, value, None) and store.read_control(name) is None
    milliseconds = (time.perf_counter() - started) * 1000
    if kept and removed:
        return Finding("write and read", Verdict.OK, f"a record was set, read and removed in {milliseconds:.1f} ms")
    return Finding(
        "write and read",
        Verdict.PROBLEM,
        f"the store does not return a stored value: url={without_password(store.url)} kept={kept} removed={removed}",
        "check that the URL names the writable server, not a replica or a cache",
    )
