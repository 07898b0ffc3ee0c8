"""Batches of keys and entries in the tests' own terms, and a store's content as a plain dict."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TypeAlias

import numpy as np

from rli.codec.encoded_keys import EncodedKeys
from rli.codec.entries import TOMBSTONE, Entries, pack
from rli.store.contract import Store

Content: TypeAlias = dict[tuple[int, bytes], int]
"""Entry of each (shard, encoded key)."""


def key_batch(keys: Sequence[bytes], shards: Sequence[int] | int = 0) -> EncodedKeys:
    """Encoded keys, all of one width, each in its shard or all in one."""
    width = len(keys[0]) if keys else 1
    each = [shards] * len(keys) if isinstance(shards, int) else shards
    return EncodedKeys(np.frombuffer(b"".join(keys), dtype=f"V{width}"), np.array(each, dtype=np.uint16))


def numbered_keys(count: int, width: int = 8, first: int = 0) -> list[bytes]:
    """Distinct keys of one width, in an order that is neither theirs nor that of their numbers."""
    step = 7919 if count % 7919 else 1
    return [(first + number * step % count).to_bytes(width, "big") for number in range(count)]


def random_keys(count: int, width: int, seed: int) -> list[bytes]:
    """Distinct random keys of one width; the same for the same arguments."""
    generator = np.random.default_rng(seed)
    keys: dict[bytes, None] = {}
    while len(keys) < count:
        keys[generator.bytes(width)] = None
    return list(keys)


def entry(sequence: int, file_group: int) -> int:
    """One entry as a number."""
    return int(pack(sequence, np.array([file_group]))[0])


def entries_of(sequence: int, file_groups: Iterable[int]) -> Entries:
    """Entries of one commit."""
    return pack(sequence, np.array(list(file_groups), dtype=np.int64))


def tombstones_of(sequence: int, count: int) -> Entries:
    """Tombstones of one commit."""
    return entries_of(sequence, [TOMBSTONE] * count)


def get_all(store: Store, keys: Sequence[bytes], shards: Sequence[int] | int = 0) -> list[int]:
    """Entries of the keys, as plain numbers."""
    found = store.get(key_batch(keys, shards))
    assert found.dtype == np.uint64
    assert found.shape == (len(keys),)
    return [int(number) for number in found]


def differences(found: Sequence[int], expected: Sequence[int]) -> list[tuple[int, int, int]]:
    """The first positions at which two long lists differ, as (position, found, expected).

    A report of the whole lists takes minutes to make and nobody reads it.
    """
    assert len(found) == len(expected)
    pairs = enumerate(zip(found, expected, strict=True))
    return list(islice(((position, one, other) for position, (one, other) in pairs if one != other), 5))


def scanned(store: Store, shards: Iterable[int], batch_size: int = 1000) -> Content:
    """All entries of the shards, read by scans whose batches keep to the contract."""
    content: Content = {}
    for shard in shards:
        for keys, entries in store.scan(shard, batch_size):
            assert 0 < len(keys) <= batch_size
            assert len(keys) == len(entries)
            assert entries.dtype == np.uint64
            assert keys.shards.tolist() == [shard] * len(keys)
            for key, number in zip(keys.to_bytes(), entries.tolist(), strict=True):
                assert (shard, key) not in content, "a scan gave an entry twice"
                content[shard, key] = number
    return content
