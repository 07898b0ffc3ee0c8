"""The entries of a batch in the order that LMDB writes fastest; a thread sorts them while others are written."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from rli.store import EncodedKeys, Entries
from rli_lmdb.keyspace import shard_runs

_KEYS_OF_PART: Final = 1 << 18
"""The least size of a part, if a batch has as many keys: sorting them takes longer than starting a thread's work."""


def sorted_parts(keys: EncodedKeys, entries: Entries) -> Iterator[tuple[EncodedKeys, Entries]]:
    """Keys with their entries, ordered by shard and key, in parts; a shard is in one part.

    While the caller works on a part, a thread sorts the next one.

    Args:
        keys: distinct, in any order.
        entries: of these keys (shape (n,)).
    """
    parts = _parts(keys.shards)
    if len(parts) < 2:
        yield from (_sorted(keys, entries, part) for part in parts)
        return
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(_sorted, keys, entries, parts[0])
        for part in parts[1:]:
            ready, coming = coming.result(), thread.submit(_sorted, keys, entries, part)
            yield ready
        yield coming.result()


def _parts(shards: NDArray[np.uint16]) -> list[NDArray[np.intp]]:
    """The positions of the keys of each part."""
    by_shard = np.argsort(shards, kind="stable")
    ends = np.array([end for _, end in shard_runs(shards[by_shard])], dtype=np.int64)
    # Of the shards that end in the same multiple of a part's size, the last one ends a part.
    multiples = ends // _KEYS_OF_PART
    borders = ends[np.diff(multiples, append=-1) != 0]
    return [by_shard[start:end] for start, end in pairwise([0, *borders.tolist()])]


def _sorted(keys: EncodedKeys, entries: Entries, positions: NDArray[np.intp]) -> tuple[EncodedKeys, Entries]:
    mine = keys.take(positions)
    order = mine.sort_order()
    return mine.take(order), entries[positions[order]]
