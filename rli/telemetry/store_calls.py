"""Calls of a store: how long they take, and a log record of those that are slow."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rli.telemetry import events, metrics
from rli.telemetry.waits import waiting

SLOW_SECONDS: Final = 1.0
"""A call of a few keys that takes longer is slow."""

SLOW_SECONDS_PER_KEY: Final = 1e-4
"""What a call of many keys may take on top of that for each key; HBase, the slowest store, needs a third of it."""


@contextmanager
def store_call(url: str, call: str, keys: int) -> Iterator[None]:
    """Measure a batch of look-ups or changes.

    Args:
        url: of the store, without secrets.
        call: "look_up" or "put".
        keys: how many record keys.
    """
    began = time.monotonic()
    with waiting(lambda: f"the store: store={url} call={call} keys={keys}", keys * SLOW_SECONDS_PER_KEY):
        yield
    seconds = time.monotonic() - began
    kind = url.partition(":")[0]
    metrics.STORE_SECONDS.add(seconds, store=kind, call=call)
    metrics.STORE_KEYS.add(keys, store=kind, call=call)
    note_if_slow(url, call, keys, seconds)


def note_if_slow(url: str, call: str, keys: int, seconds: float) -> None:
    """Log a call that took longer than its number of keys explains."""
    if seconds > SLOW_SECONDS + keys * SLOW_SECONDS_PER_KEY:
        events.STORE_SLOW.log(store=url, call=call, keys=keys, seconds=seconds)
