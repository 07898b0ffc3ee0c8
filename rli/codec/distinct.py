"""Tells whether strings are distinct, sooner than a hash table of them does."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from rli.codec.fingerprints import fingerprints
from rli.codec.lengths import by_length
from rli.codec.record_keys import as_items

_STRINGS_AT_ONCE: Final = 1 << 14
"""So many stay in the processor's cache."""


def are_surely_distinct(strings: pa.Array) -> bool:
    """Whether no two strings (string array, shape (n,), no nulls) have the same hash.

    False where two strings are equal, and hardly ever where none are.
    """
    # That of the empty string is 0.
    hashes = np.zeros(len(strings), np.uint64)
    for positions, matrix in by_length(strings):
        if not matrix.shape[1]:
            continue
        for start in range(0, len(positions), _STRINGS_AT_ONCE):
            some = slice(start, start + _STRINGS_AT_ONCE)
            hashes[positions[some]] = fingerprints(as_items(matrix[some]))
    hashes.sort()
    return not bool((hashes[1:] == hashes[:-1]).any())
