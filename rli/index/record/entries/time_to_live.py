"""Which keys have expired: the record of each was written last longer ago than the time to live (``?ttl=30d``, P40).

The clock is the instant of the write that asks. For everybody else it is the greatest instant that the commit log names.
"""

from __future__ import annotations

from rli.hudi.timeline.instant import instant_before


def expired_before(seconds: int | None, clock: str | None) -> str | None:
    """The instant before which a record was written last if its key has expired.

    Args:
        seconds: the time to live; None where keys do not expire.
        clock: an instant; None before the first one.

    Returns:
        None where keys do not expire; a text before all instants where none can have.
    """
    if seconds is None:
        return None
    return "" if clock is None else instant_before(clock, seconds)
