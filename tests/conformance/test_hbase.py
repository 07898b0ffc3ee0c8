"""The HBase store keeps the contract; in Hudi's own schema as far as that schema can."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from itertools import permutations
from pathlib import Path
from typing import ClassVar
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rli.codec.entries import MAX_FILE_GROUP, MAX_SEQUENCE, TOMBSTONE
from rli.errors import CorruptIndexError, IndexNotFoundError, InvalidKeyError
from rli.store.contract import Store
from rli.testing import StoreConformance
from rli.testing.batches import entries_of, entry, get_all, key_batch, random_keys, scanned, tombstones_of
from rli.testing.find_cases import found_in
from tests.support.docker import Service
from tests.support.hbase_hudi import AnyKeyStore
from tests.support.services import HBASE_PORT

pytestmark = pytest.mark.docker


class TestHbaseStore(StoreConformance):
    service: ClassVar[Service]

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _service(cls, hbase: Service) -> None:
        cls.service = hbase

    def make_url(self, tmp_path: Path) -> str:
        _ = tmp_path
        return f"hbase://{self.service.host}:{self.service.ports[HBASE_PORT]}/?table=t_{uuid4().hex}"


class TestStoreOfColumn(TestHbaseStore):
    """Its keys are found by how they begin."""

    def make_url(self, tmp_path: Path) -> str:
        return f"{super().make_url(tmp_path)}&prefix=8"


class TestHbaseStoreInHudisSchema(TestHbaseStore):
    """What differs is the schema's: a deleted key has no row, a row key has a length, and a number needs a commit."""

    def make_url(self, tmp_path: Path) -> str:
        return f"{super().make_url(tmp_path)}&schema=hudi"

    def open_store(self, url: str, *, create: bool) -> Store:
        return AnyKeyStore.prepared(super().open_store(url, create=create))

    @pytest.fixture
    def store(self, url: str) -> Iterator[Store]:
        """The test's index, empty. Its rows outlive it, and go with the container."""
        with self.open_store(url, create=True) as store:
            yield store
        with suppress(IndexNotFoundError), self.open_store(url, create=False) as left_over:
            left_over.drop()

    @pytest.mark.parametrize("width", [1, 2, 15, 16, 17, 255, 256, 512, 1000, 16_000])
    def test_keys_of_any_width(self, store: Store, width: int) -> None:
        super().test_keys_of_any_width(store, width)

    def test_wide_keys_differ_in_last_byte(self, store: Store) -> None:
        with pytest.raises(InvalidKeyError, match="bytes=131077 most=32767"):
            super().test_wide_keys_differ_in_last_byte(store)

    def test_scan_gives_keys_of_every_width(self, store: Store) -> None:
        keys = [bytes([width % 251]) * width for width in (1, 2, 16, 503, 504, 505, 16_000)]
        for key in keys:
            store.put(key_batch([key]), entries_of(1, [len(key) % 1000]))
        for batch_size in (1, 1000):
            expected = {(0, key): entry(1, len(key) % 1000) for key in keys}
            assert scanned(store, [0], batch_size) == expected

    def test_extreme_entries(self, store: Store) -> None:
        for number in (entry(MAX_SEQUENCE, 0), entry(1, MAX_FILE_GROUP)):
            with pytest.raises(CorruptIndexError, match="entries of unknown commits"):
                store.put(key_batch([b"k"]), entries_of(number >> 32, [number & 0xFFFF_FFFF]))

    def test_a_tombstone_is_an_entry(self, store: Store) -> None:
        store.put(key_batch([b"a", b"b"]), entries_of(1, [7, 8]))
        store.put(key_batch([b"b", b"c"]), tombstones_of(3, 2))
        store.put(key_batch([b"a", b"b", b"c"]), entries_of(2, [1, 1, 1]))
        assert get_all(store, [b"a", b"b", b"c"]) == [entry(2, 1), 0, 0]
        store.put(key_batch([b"b"]), entries_of(4, [9]))
        assert get_all(store, [b"b"]) == [entry(4, 9)]

    def test_found_entries_show_tombstones(self, store: Store) -> None:
        store.put(key_batch([b"prefix-a", b"prefix-b"]), entries_of(1, [7, 8]))
        store.put(key_batch([b"prefix-b"]), tombstones_of(2, 1))
        assert found_in(store, [b"prefix-"], [0]) == {(0, b"prefix-a"): entry(1, 7)}

    def test_batch_order_does_not_matter(self, store: Store) -> None:
        keys = random_keys(30, 16, seed=2)
        batches = [(1, keys[:20], 100), (2, keys[10:], 200), (3, keys[5:15], TOMBSTONE)]
        for shard, order in enumerate(permutations(batches)):
            for sequence, some, file_group in order:
                store.put(key_batch(some, shard), entries_of(sequence, [file_group] * len(some)))
        expected = {key: entry(sequence, group) for sequence, some, group in batches[:2] for key in some}
        for shard in range(6):
            assert scanned(store, [shard]) == {
                (shard, key): number for key, number in expected.items() if key not in keys[5:15]
            }

    @pytest.mark.parametrize("batch_size", [1, 100, 301])
    def test_a_scan_gives_every_entry_once(self, store: Store, batch_size: int) -> None:
        keys = random_keys(300, 16, seed=5)
        store.put(key_batch(keys, 4), entries_of(1, range(300)))
        store.put(key_batch(keys[:50], 4), tombstones_of(2, 50))
        expected = {(4, key): entry(1, number) for number, key in enumerate(keys) if number >= 50}
        assert scanned(store, [4], batch_size) == expected

    def test_counts_follow_every_kind_of_change(self, store: Store) -> None:
        keys = random_keys(100, 16, seed=8)
        for some, entries, live in [
            (keys, entries_of(1, range(100)), 100),
            (keys[:30], tombstones_of(2, 30), 70),
            (keys[:30], tombstones_of(3, 30), 70),
            (keys[:10], entries_of(4, range(10)), 80),
            (keys[20:40], entries_of(1, range(20)), 80),
            ([b"\xff" * 16], tombstones_of(5, 1), 80),
        ]:
            store.put(key_batch(some), entries)
            stats = store.stats()
            assert (stats.live_entries, stats.tombstones) == (live, 0)

    def test_random_histories_agree_with_the_model(self, tmp_path: Path) -> None:
        """Commits applied in any order, some of them twice, leave of each key what its last commit said."""
        commits = st.lists(st.tuples(st.integers(1, 9), st.integers(0, 4)), max_size=15)
        runs = iter(range(1_000_000))

        @self.model_settings
        @given(commits=commits)
        def apply_all(commits: list[tuple[int, int]]) -> None:
            shard = next(runs)
            last: defaultdict[bytes, tuple[int, int]] = defaultdict(lambda: (0, 0))
            for sequence, key in commits:
                # What a commit does to a key is the same each time.
                group = 10 * sequence + key if (sequence + key) % 3 else TOMBSTONE
                name = bytes([key])
                store.put(key_batch([name], shard), entries_of(sequence, [group]))
                if sequence > last[name][0]:
                    last[name] = sequence, group
            expected = {(shard, key): entry(*end) for key, end in last.items() if end[1] != TOMBSTONE}
            assert scanned(store, [shard]) == expected

        with self.open_store(self.make_url(tmp_path), create=True) as store:
            apply_all()
            store.drop()
