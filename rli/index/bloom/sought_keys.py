"""Record keys to look for in many files, arranged so that each file turns most of them away cheaply.

Keys are sorted once, so the keys within a file's range are a part of them that two binary searches find: what a file
costs does not grow with the keys outside of its range. (Hudi puts the ranges of all files into an interval tree instead,
because its keys come one by one.) Keys are hashed once as well; each bloom filter then takes remainders of the hashes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rli.hudi.bloom_filter import HashedKeys
from rli.index.bloom.key_statistics import KeyRange, KeyStatistics

_ORDERED_IN_TWO_WAYS: Final = r"[\x{E000}-\x{10FFFF}]"
"""Characters that UTF-8 bytes and UTF-16 code units order differently: these, and none below them."""


class SoughtKeys:
    """Record keys to look for.

    Args:
        record_keys: string array, shape (n,), distinct.
    """

    def __init__(self, record_keys: pa.Array) -> None:
        unordered = pc.match_substring_regex(record_keys, _ORDERED_IN_TWO_WAYS)
        ordered = record_keys.filter(pc.invert(unordered))
        self._ordered = len(ordered)
        self._keys = pa.concat_arrays([ordered.take(pc.sort_indices(ordered)), record_keys.filter(unordered)])
        self._hashed = HashedKeys(self._keys)

    def in_slice(self, statistics: KeyStatistics) -> pa.Array:
        """The keys that a file slice with some statistics may hold: string array, shape (m,)."""
        positions = self._within(statistics.key_range)
        if len(positions) and statistics.bloom_filter is not None:
            positions = self._hashed.claimed_by(statistics.bloom_filter, positions)
        return self._keys.take(pa.array(positions))

    def may_be_within(self, key_range: KeyRange) -> bool:
        """Whether one of the keys may be in a range."""
        return len(self._within(key_range)) > 0

    def _within(self, key_range: KeyRange) -> NDArray[np.intp]:
        """Where the keys are that may be in a range; those whose order is not known are in every range."""
        if key_range is None:
            return np.arange(len(self._keys))
        least, greatest = key_range
        first = bisect_left(range(self._ordered), least, key=self._key)
        end = bisect_right(range(self._ordered), greatest, key=self._key)
        return np.concatenate([np.arange(first, end), np.arange(self._ordered, len(self._keys))])

    def _key(self, position: int) -> str:
        key: str = self._keys[position].as_py()
        return key
