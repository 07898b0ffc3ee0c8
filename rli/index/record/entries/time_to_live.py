"""Which keys have expired: the record of each was written last longer ago than the time to live (``?ttl=30d``, P40).

The clock is the instant of the write that asks. For everybody else it is the greatest instant that the commit log names.
"""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from rli.codec import entries as codec
from rli.codec.entries import Entries
from rli.hudi.timeline.instant import instant_before
from rli.index.record.log.dictionary import Dictionary


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


def have_expired(dictionary: Dictionary, entries: Entries, cutoff: str) -> NDArray[np.bool_]:
    """Which entries that have a location were last written before an instant (shape (n,)).

    Args:
        dictionary: knows all numbers of the entries.
        entries: tombstones and absent ones among them have no location.
        cutoff: the instant.
    """
    gone = np.zeros(len(entries), dtype=bool)
    live = codec.is_live(entries)
    if live.any():
        sequences, places = np.unique(codec.sequences(entries[live]), return_inverse=True)
        is_old = pc.less(dictionary.instants_of(sequences), cutoff).to_numpy(zero_copy_only=False)
        gone[live] = is_old[places]
    return gone
