"""How many record keys a transaction places and removes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class StagedCounts:
    """Counts the keys of a transaction; a key that was staged several times counts as it was staged last."""

    def __init__(self) -> None:
        self._calls: list[tuple[NDArray[np.int64], bool]] = []
        self._placed = 0
        self._deleted = 0

    def add(self, hashes: NDArray[np.int64], *, is_deleted: bool) -> None:
        """Count the distinct keys of one call, given by their hashes, shape (n,)."""
        self._calls.append((hashes, is_deleted))

    def add_unseen(self, placed: int, deleted: int) -> None:
        """Count keys whose hashes are not known here."""
        self._placed += placed
        self._deleted += deleted

    def totals(self) -> tuple[int, int]:
        """How many keys are placed, and how many removed."""
        calls = [(hashes, is_deleted) for hashes, is_deleted in reversed(self._calls) if len(hashes)]
        if not calls:
            return self._placed, self._deleted
        removed = np.repeat([is_deleted for _, is_deleted in calls], [len(hashes) for hashes, _ in calls])
        _, first = np.unique(np.concatenate([hashes for hashes, _ in calls]), return_index=True)
        deleted = int(removed[first].sum())
        return self._placed + len(first) - deleted, self._deleted + deleted
