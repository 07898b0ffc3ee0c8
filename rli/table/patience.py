"""For how long a service waits for the table's lease: one rule for all of them."""

from __future__ import annotations

import math

from rli.errors import InvalidInputError


def patience(timeout: float | None) -> float:
    """Seconds to wait for the lease; infinite for None.

    Raises:
        InvalidInputError: they are negative, or not a number.
    """
    if timeout is None:
        return math.inf
    if not timeout >= 0:
        raise InvalidInputError(
            f"timeout must be 0 or more seconds: timeout={timeout}", remedy="None waits until the lease is free"
        )
    return timeout
