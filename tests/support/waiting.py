"""Waiting for what other processes bring about."""

from __future__ import annotations

import time
from collections.abc import Callable

_DEADLINE_SECONDS = 300.0


def eventually(is_true: Callable[[], object], what: str) -> None:
    """Wait until something is true; fail the test where it is not within five minutes."""
    deadline = time.monotonic() + _DEADLINE_SECONDS
    while not is_true():
        assert time.monotonic() < deadline, f"has not come about: {what}"
        time.sleep(0.05)
