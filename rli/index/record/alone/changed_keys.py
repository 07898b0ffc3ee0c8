"""Keys of a transaction that others have changed since it began."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from rli.codec import entries as codec
from rli.errors import ConflictError
from rli.index.record.entries.purging import floor_of_look_ups
from rli.index.record.entries.stored_entries import StoredEntries

_SAMPLE: Final = 10


class ChangedKeys:
    """Collects the keys, among those that are given to it, whose entries are newer than a snapshot.

    Args:
        index: that the entries are from.
        snapshot: a commit sequence.
    """

    def __init__(self, index: StoredEntries, snapshot: int) -> None:
        self._index = index
        self._snapshot = snapshot
        self._keys: list[pa.Array] = []
        self._winners: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._keys)

    def add(self, record_keys: pa.Array, entries: codec.Entries) -> None:
        """Look at some keys (string array, shape (n,)) and their entries."""
        sequences = codec.sequences(entries)
        # Tombstones count, too: a key that was deleted since is as changed as one that was placed.
        positions = np.flatnonzero(sequences > self._snapshot)
        if len(positions):
            self._keys.append(record_keys.take(pa.array(positions)))
            log = self._index.log_of(entries)
            self._winners.update(log.dictionary.instants_of(np.unique(sequences[positions])).to_pylist())

    def require_none(self) -> None:
        """Raise ``ConflictError`` if any key was changed."""
        if not self._keys:
            self._require_tombstones()
            return
        conflicting = pa.concat_arrays(self._keys).unique()
        sample = tuple(conflicting.slice(0, _SAMPLE).to_pylist())
        raise ConflictError(
            f"{len(conflicting)} record keys were changed by another commit since this transaction began: "
            f"keys={list(sample)} instants={sorted(self._winners)}",
            keys=sample,
            key_count=len(conflicting),
            instants=tuple(sorted(self._winners)),
            remedy="begin a new transaction and tag again",
        )

    def _require_tombstones(self) -> None:
        # Asked after all entries were read: the floor rises before the first tombstone goes (P30).
        if floor_of_look_ups(self._index) > self._snapshot:
            raise ConflictError(
                f"tombstones of commits after this transaction began were removed: url={self._index.url}",
                remedy="its keys may have been deleted meanwhile: begin a new transaction and tag again",
            )
