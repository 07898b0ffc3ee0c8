"""The contract's sentences about scans and counts, as tests."""

from __future__ import annotations

import pytest

from rli.codec.entries import TOMBSTONE
from rli.store.contract import Store
from rli.testing.batches import entries_of, entry, key_batch, random_keys, scanned, tombstones_of


class ScanCases:
    """``scan`` and ``stats``."""

    def test_scan_of_empty_shard_gives_nothing(self, store: Store) -> None:
        store.put(key_batch([b"k"], 1), entries_of(1, [1]))
        assert scanned(store, [0, 2, 65_535]) == {}

    @pytest.mark.parametrize("batch_size", [1, 7, 100, 299, 300, 301, 100_000])
    def test_a_scan_gives_every_entry_once(self, store: Store, batch_size: int) -> None:
        keys = random_keys(300, 16, seed=5)
        store.put(key_batch(keys, 4), entries_of(1, range(300)))
        store.put(key_batch(keys[:50], 4), tombstones_of(2, 50))
        expected = {
            (4, key): entry(2, TOMBSTONE) if number < 50 else entry(1, number) for number, key in enumerate(keys)
        }
        assert scanned(store, [4], batch_size) == expected

    def test_scan_gives_keys_of_every_width(self, store: Store) -> None:
        keys = [bytes([width % 251]) * width for width in (1, 2, 16, 503, 504, 505, 70_000)]
        for key in keys:
            store.put(key_batch([key]), entries_of(1, [len(key)]))
        assert scanned(store, [0]) == {(0, key): entry(1, len(key)) for key in keys}
        assert scanned(store, [0], batch_size=1) == {(0, key): entry(1, len(key)) for key in keys}

    def test_a_scan_leaves_control_records_out(self, store: Store) -> None:
        store.compare_and_set("settings", None, b"value")
        assert scanned(store, range(8)) == {}

    def test_scan_sees_stable_entries_once(self, store: Store) -> None:
        keys = random_keys(2000, 16, seed=6)
        early, late = keys[:1000], keys[1000:]
        store.put(key_batch(early), entries_of(1, [1] * 1000))
        seen: list[bytes] = []
        for number, (batch, _) in enumerate(store.scan(0, 100)):
            seen.extend(batch.to_bytes())
            some = slice(number * 50 % 1000, number * 50 % 1000 + 50)
            store.put(key_batch(late[some]), entries_of(2, [2] * 50))
            store.put(key_batch(early[some]), entries_of(number + 3, [3] * 50))
        assert len(seen) == len(set(seen))
        assert set(early) <= set(seen) <= set(keys)

    def test_a_scan_may_be_abandoned(self, store: Store) -> None:
        keys = random_keys(500, 16, seed=7)
        store.put(key_batch(keys), entries_of(1, [1] * 500))
        scan = store.scan(0, 10)
        next(scan)
        store.put(key_batch(keys), entries_of(2, [2] * 500))
        del scan
        assert scanned(store, [0]) == {(0, key): entry(2, 2) for key in keys}

    def test_counts_follow_every_kind_of_change(self, store: Store) -> None:
        keys = random_keys(100, 16, seed=8)
        wide = [key * 60 for key in keys[:10]]
        assert (store.stats().live_entries, store.stats().tombstones) == (0, 0)
        steps = [
            (keys, entries_of(1, range(100)), (100, 0)),
            (wide, entries_of(1, range(10)), (110, 0)),
            (keys[:30], tombstones_of(2, 30), (80, 30)),
            (wide[:4], tombstones_of(2, 4), (76, 34)),
            (keys[:30], tombstones_of(3, 30), (76, 34)),
            (keys[:10], entries_of(4, range(10)), (86, 24)),
            (wide[:1], entries_of(4, [1]), (87, 23)),
            (keys[:10], entries_of(4, range(10)), (87, 23)),
            (keys[20:40], entries_of(1, range(20)), (87, 23)),
            ([b"\xff" * 16], tombstones_of(5, 1), (87, 24)),
        ]
        for some, entries, expected in steps:
            store.put(key_batch(some), entries)
            stats = store.stats()
            assert (stats.live_entries, stats.tombstones) == expected

    def test_stored_bytes_cover_the_content(self, store: Store) -> None:
        store.put(key_batch(random_keys(5000, 16, seed=9)), entries_of(1, range(5000)))
        stored_bytes = store.stats().stored_bytes
        assert stored_bytes is None or stored_bytes >= 5000 * 16
