"""Looking many sorted keys up in the pages of the data file. LMDB's seeks find keys that the pages do not decide."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import numpy as np
from numpy.typing import NDArray

from rli.store import ABSENT, ENTRY_WIDTH, EncodedKeys, Entries
from rli_lmdb.data_file import WORD, DataFile, Tree
from rli_lmdb.keyspace import KEY_WORD, shard_bytes, shard_runs

# Of 262,144 keys at once, reading pages takes 0.11 µs a key in a million entries, and 0.27 in 50 million. Each shard adds
# 0.2 ms, as much as 200 seeks, and its branch pages are read whole.
_MIN_KEYS: Final = 512
_READ_PAGES_FROM: Final = 6
"""Stored entries for each wanted key from which on reading pages beats reading all of a shard."""

_MOST_ALIKE: Final = 1 / 16
"""Share of the keys that may have the same first word as the one before: only a seek tells these apart."""


def runs_for_pages(keys: EncodedKeys) -> list[tuple[int, int]]:
    """Start and stop of each run of one shard that is worth its pages; none if the keys are not of whole words."""
    if keys.width % WORD:
        return []
    return [(start, stop) for start, stop in shard_runs(keys.shards) if stop - start >= _MIN_KEYS]


def read_from_pages(
    file: DataFile, database: bytes, keys: EncodedKeys, runs: Sequence[tuple[int, int]]
) -> tuple[Entries, NDArray[np.bool_]]:
    """The entry of each key, and whether it is still to be sought because the pages do not tell.

    Args:
        file: with the pages that the transaction sees.
        database: the record in which LMDB describes the database of the keys.
        keys: in sort order, of one width.
        runs: what ``runs_for_pages`` gave.
    """
    found = np.full(len(keys), ABSENT, dtype=np.uint64)
    is_left = np.ones(len(keys), dtype=np.bool_)
    # Pages that do not fit LMDB's layout are damaged. LMDB then reads them, and names the damage.
    with suppress(IndexError, ValueError, struct.error):
        shards = Tree.of(database)
        for start, stop in runs:
            shard = file.duplicates(shards, shard_bytes(keys.shards[start : start + 1])[0])
            if shard is None or shard.record_size != keys.width + ENTRY_WIDTH:
                continue
            if shard.entries >= (stop - start) * _READ_PAGES_FROM:
                _read_shard(file, shard, keys.keys[start:stop], found[start:stop], is_left[start:stop])
    return found, is_left


def _read_shard(
    file: DataFile, shard: Tree, keys: NDArray[np.void], found: Entries, is_left: NDArray[np.bool_]
) -> None:
    """Fill in the entries that the pages of one shard tell; few keys are left, unless many begin alike."""
    words = np.ascontiguousarray(keys).view(KEY_WORD).reshape(len(keys), -1).astype(np.uint64)
    first = np.ascontiguousarray(words[:, 0])
    places = None if _are_alike(words) else file.find(shard, first)
    if places is None:
        return
    is_equal = is_alike = places.leading == first
    for number in range(1, words.shape[1]):
        is_equal = is_equal & (file.words(places.words + number) == words[:, number])
    found[:] = np.where(is_equal, file.words(places.words + words.shape[1]), ABSENT)
    is_left[:] = places.is_tied | (is_alike & ~is_equal)


def _are_alike(words: NDArray[np.uint64]) -> bool:
    """Whether many sorted keys, given as their words, differ from the one before, but not in the first word."""
    is_alike = words[1:, 0] == words[:-1, 0]
    most = len(words) * _MOST_ALIKE
    if np.count_nonzero(is_alike) <= most:
        return False
    return int(np.count_nonzero(is_alike & (words[1:] != words[:-1]).any(axis=1))) > most
