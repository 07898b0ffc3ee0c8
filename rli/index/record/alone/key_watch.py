"""Whether later transactions change the keys of a large one, without looking all of its keys up again (P29)."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rli.index.record.alone import staging

if TYPE_CHECKING:
    import pyarrow as pa

    from rli.index.record.entries.stored_entries import StoredEntries
    from rli.index.record.log.record import LogRecord
    from rli.index.record.log.state import LogState


class Verdict(Enum):
    """What the staged changes of later transactions tell."""

    UNCHANGED = "no later transaction changes a key"
    CHANGED = "one of them does, unless two keys have the same hash"
    UNKNOWN = "their changes are not kept any more, or there are more than it pays to read"


class KeyWatch:
    """The keys of a transaction, and up to which sequence nobody else has changed them.

    It keeps eight bytes for each key: a hash that has a meaning in this process alone.

    Args:
        index: that the transaction changes.
        sequence: the snapshot of the transaction.
    """

    def __init__(self, index: StoredEntries, sequence: int) -> None:
        self._index = index
        self._sequence = sequence
        self._hashes: list[NDArray[np.int64]] = []

    def add(self, record_keys: pa.Array) -> NDArray[np.int64]:
        """Watch further keys (string array, shape (n,)); returns their hashes, ascending."""
        hashes = np.sort(_hashes_of(record_keys))
        self._hashes.append(hashes)
        return hashes

    def among(self, record_keys: pa.Array) -> pa.Array:
        """Those of some keys (string array, shape (n,)) that are watched, or have the hash of a watched key."""
        hashes = _hashes_of(record_keys)
        found = np.zeros(len(hashes), dtype=bool)
        for own in self._hashes:
            found |= _are_in(own, hashes)
        return record_keys.take(np.flatnonzero(found))

    def restart(self, sequence: int) -> None:
        """From now on, ask about transactions after a sequence: the caller looks all keys up as of it."""
        self._sequence = sequence

    def follow(self, log: LogState) -> Verdict:
        """Compare the keys with those of all transactions that the log has added since the last call."""
        added = log.head - self._sequence
        # Below zero: the log went back. That is not "unchanged", however few records there are.
        if not 0 <= added <= self._most_read():
            return Verdict.UNKNOWN
        for record in log.records_after(self._sequence) if added else ():
            verdict = self._compare(record)
            if verdict is not Verdict.UNCHANGED:
                return verdict
        self._sequence = log.head
        return Verdict.UNCHANGED

    def _most_read(self) -> int:
        limits = self._index.limits
        return min(limits.transactions_kept, sum(map(len, self._hashes)) // limits.look_ups_per_read)

    def _compare(self, record: LogRecord) -> Verdict:
        try:
            for changes in staging.read_chunks(self._index.store, record.writer, record.staged.chunks):
                if self._has_any(_hashes_of(changes.record_keys)):
                    return Verdict.CHANGED
        except staging.ChunksGoneError:
            # The commit may be too old or too large to keep its chunks. Not to know is no conflict: the keys are looked
            # up.
            return Verdict.UNKNOWN
        return Verdict.UNCHANGED

    def _has_any(self, hashes: NDArray[np.int64]) -> bool:
        return any(_are_in(own, hashes).any() for own in self._hashes)


def _are_in(ordered: NDArray[np.int64], others: NDArray[np.int64]) -> NDArray[np.bool_]:
    if not len(ordered):
        return np.zeros(len(others), dtype=bool)
    places = np.minimum(np.searchsorted(ordered, others), len(ordered) - 1)
    return ordered[places] == others


def _hashes_of(record_keys: pa.Array) -> NDArray[np.int64]:
    return np.fromiter(map(hash, record_keys.to_pylist()), dtype=np.int64, count=len(record_keys))
