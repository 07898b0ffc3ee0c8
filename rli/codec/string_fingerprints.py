"""Fingerprints of strings as they are, which need no encoding as keys do."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rli.codec.fingerprints import fingerprints
from rli.codec.lengths import by_length
from rli.codec.record_keys import as_items

_STRINGS_AT_ONCE: Final = 1 << 14
"""So many stay in the processor's cache."""


def string_fingerprints(strings: pa.Array) -> NDArray[np.uint64]:
    """A 64-bit hash of each string (string array, shape (n,)); 0 for the empty string and for a null."""
    hashes = np.zeros(len(strings), np.uint64)
    for positions, matrix in by_length(strings):
        if not matrix.shape[1]:
            continue
        for start in range(0, len(positions), _STRINGS_AT_ONCE):
            some = slice(start, start + _STRINGS_AT_ONCE)
            hashes[positions[some]] = fingerprints(as_items(matrix[some]))
    return hashes
