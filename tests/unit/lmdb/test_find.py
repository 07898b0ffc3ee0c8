"""Entries found by the beginnings of their keys come in parts, and each comes once."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from rli.store.contract import Store
from rli.testing.batches import entries_of, key_batch, random_keys
from rli_lmdb.store import LmdbStore, open_lmdb_store

PREFIXES = [b"aaaaaaaa", b"aaaaaaab", b"\xff" * 8]


@pytest.fixture
def store(tmp_path: Path) -> LmdbStore:
    """Keys of two tables; what is sought is among others."""
    opened = open_lmdb_store(f"lmdb://{tmp_path}/index", create=True)
    for width, shard, prefix in product((4, 600), (1, 2), (*PREFIXES, b"aaaaaaac")):
        keys = [prefix + key for key in random_keys(5, width, seed=width)]
        opened.put(key_batch(keys, shard), entries_of(1, range(5)))
    return opened


@pytest.mark.parametrize("at_once", [1, 2, 5, 1000])
def test_parts_join_to_all_entries(store: LmdbStore, at_once: int) -> None:
    sought = key_batch([*PREFIXES, PREFIXES[0], b"nothing!"], [1, 1, 1, 2, 2])
    parts = list(store.find_in_parts(sought, at_once))
    assert max(len(keys) for keys, _ in parts) <= at_once
    found, expected = (
        sorted(
            (shard, key, entry)
            for keys, entries in batches
            for shard, key, entry in zip(keys.shards.tolist(), keys.to_bytes(), entries.tolist(), strict=True)
        )
        for batches in (parts, Store.find(store, sought))
    )
    assert len(found) == 40
    assert found == expected
