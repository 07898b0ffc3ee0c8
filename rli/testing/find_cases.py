"""The contract's sentences about entries that are found by the beginning of their keys, as tests."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from rli.codec.entries import TOMBSTONE
from rli.errors import SettingsError
from rli.store.contract import Store
from rli.testing.batches import entries_of, entry, key_batch, random_keys, tombstones_of


def found_in(store: Store, prefixes: list[bytes], shards: list[int]) -> dict[tuple[int, bytes], int]:
    """Entries of the keys that begin with prefixes, each once."""
    content: dict[tuple[int, bytes], int] = {}
    for keys, entries in store.find(key_batch(prefixes, shards)):
        assert entries.dtype == np.uint64
        for shard, key, number in zip(keys.shards.tolist(), keys.to_bytes(), entries.tolist(), strict=True):
            assert (shard, key) not in content, "an entry was given twice"
            content[shard, key] = number
    return content


class FindCases:
    """``find`` and ``url_beside``."""

    def test_prefixes_find_keys_of_all_widths(self, store: Store) -> None:
        prefixes = [b"\x00" * 8, b"\xff" * 8, b"ab\xff\xff\xff\xff\xff\xff", b"abcdefgh"]
        keys = [prefix + bytes([width % 251]) * width for prefix in prefixes for width in (1, 16, 496, 600, 2000)]
        for number, key in enumerate(keys):
            store.put(key_batch([key], 3), entries_of(1, [number]))
            store.put(key_batch([key], 4), entries_of(1, [number]))
        for sought in ([prefixes[1]], [prefixes[2], prefixes[0]]):
            expected = {
                (3, key): entry(1, number)
                for number, key in enumerate(keys)
                if any(key.startswith(prefix) for prefix in sought)
            }
            assert found_in(store, sought, [3] * len(sought)) == expected
        assert found_in(store, [b"abcdefgi", prefixes[0]], [3, 5]) == {}

    def test_found_entries_show_tombstones(self, store: Store) -> None:
        keys = [b"prefix!!" + key for key in random_keys(500, 8, seed=3)]
        store.put(key_batch(keys), entries_of(1, range(500)))
        store.put(key_batch(keys[:100]), tombstones_of(2, 100))
        expected = {
            (0, key): entry(2, TOMBSTONE) if number < 100 else entry(1, number) for number, key in enumerate(keys)
        }
        assert found_in(store, [b"prefix!!"], [0]) == expected

    def test_stores_beside_have_other_urls(self, store: Store) -> None:
        beside = set()
        for name in ("one", "two"):
            with suppress(SettingsError):
                beside.add(store.url_beside(name))
        assert len(beside) in (0, 2)
        assert store.url not in beside
