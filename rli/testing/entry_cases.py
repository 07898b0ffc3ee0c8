"""The contract's sentences about reading and writing entries, as tests."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from rli.codec.entries import MAX_FILE_GROUP, MAX_SEQUENCE, TOMBSTONE
from rli.store.contract import Store
from rli.testing.batches import (
    differences,
    entries_of,
    entry,
    get_all,
    key_batch,
    numbered_keys,
    random_keys,
    scanned,
    tombstones_of,
)

_WIDTHS = (1, 2, 3, 7, 8, 9, 15, 16, 17, 36, 255, 256, 502, 503, 504, 511, 512, 1000, 65_535, 65_536)


class EntryCases:
    """``get`` and ``put``."""

    def test_an_empty_store_holds_no_key(self, store: Store) -> None:
        assert get_all(store, [b"one", b"two"]) == [0, 0]

    def test_batches_may_be_empty(self, store: Store) -> None:
        store.put(key_batch([]), entries_of(1, []))
        assert get_all(store, []) == []

    def test_batches_of_many_widths_work_together(self, store: Store) -> None:
        batches = [
            (key_batch(random_keys(5, width, seed=width), [0, 1, 2, 1, 0]), entries_of(1, range(width, width + 5)))
            for width in (1, 8, 16, 36, 300)
        ]
        store.put_all(batches)
        absent = key_batch([b"absent"])
        found = store.look_up([keys for keys, _ in reversed(batches)] + [absent], applied=0)
        expected = [entries.tolist() for _, entries in reversed(batches)] + [[0]]
        assert [entries.tolist() for entries in found] == expected
        assert [store.get(keys).tolist() for keys, _ in reversed(batches)] == expected[:-1]
        assert store.look_up([]) == []
        store.put_all([])

    def test_lookup_finds_applied_commit(self, store: Store) -> None:
        keys = key_batch([b"k", b"l"], [0, 1])
        store.put_all([(keys, entries_of(3, [1, 2]))])
        assert store.mark_applied(store.applied(), 3)
        assert store.look_up([keys], applied=3)[0].tolist() == entries_of(3, [1, 2]).tolist()

    def test_get_answers_in_key_order(self, store: Store) -> None:
        keys = [b"d", b"a", b"c", b"b"]
        store.put(key_batch(keys, [3, 1, 2, 1]), entries_of(1, [10, 11, 12, 13]))
        assert get_all(store, [b"a", b"b", b"c", b"d"], [1, 1, 2, 3]) == [entry(1, n) for n in (11, 13, 12, 10)]
        assert get_all(store, [b"c", b"d", b"b", b"a"], [2, 3, 1, 1]) == [entry(1, n) for n in (12, 10, 13, 11)]

    def test_keys_repeat_in_a_get(self, store: Store) -> None:
        store.put(key_batch([b"x", b"y"]), entries_of(1, [1, 2]))
        assert get_all(store, [b"y", b"x", b"y", b"-", b"y", b"-"]) == [
            entry(1, 2),
            entry(1, 1),
            entry(1, 2),
            0,
            entry(1, 2),
            0,
        ]

    def test_absent_keys_around_stored_keys(self, store: Store) -> None:
        store.put(key_batch([b"bb", b"dd"]), entries_of(1, [1, 2]))
        keys = [b"\0\0", b"aa", b"bb", b"bc", b"cc", b"dd", b"de", b"\xff\xff"]
        assert get_all(store, keys) == [0, 0, entry(1, 1), 0, 0, entry(1, 2), 0, 0]

    def test_a_key_belongs_to_its_shard(self, store: Store) -> None:
        store.put(key_batch([b"k", b"k"], [1, 2]), entries_of(1, [10, 20]))
        assert get_all(store, [b"k", b"k", b"k"], [1, 2, 3]) == [entry(1, 10), entry(1, 20), 0]

    def test_first_and_last_shards(self, store: Store) -> None:
        shards = [0, 1, 127, 128, 255, 256, 4095, 32_767, 32_768, 65_535]
        store.put(key_batch([b"k"] * len(shards), shards), entries_of(1, range(len(shards))))
        assert get_all(store, [b"k"] * len(shards), shards) == [entry(1, n) for n in range(len(shards))]
        assert scanned(store, shards) == {(shard, b"k"): entry(1, n) for n, shard in enumerate(shards)}

    @pytest.mark.parametrize("width", _WIDTHS)
    def test_keys_of_any_width(self, store: Store, width: int) -> None:
        keys = [bytes(width), b"\xff" * width, b"\x80" + bytes(width - 1), bytes(width - 1) + b"\x01"]
        distinct = list(dict.fromkeys(keys))
        store.put(key_batch(distinct), entries_of(3, range(len(distinct))))
        other = b"\x7f" * width
        assert get_all(store, [*distinct, other]) == [*(entry(3, n) for n in range(len(distinct))), 0]
        assert scanned(store, [0]) == {(0, key): entry(3, n) for n, key in enumerate(distinct)}

    def test_wide_keys_differ_in_last_byte(self, store: Store) -> None:
        keys = [b"k" * 65_535 + bytes([last]) for last in (0, 1, 255)]
        store.put(key_batch(keys), entries_of(1, [1, 2, 3]))
        store.put(key_batch(keys[1:2]), entries_of(2, [9]))
        assert get_all(store, keys) == [entry(1, 1), entry(2, 9), entry(1, 3)]

    def test_keys_of_different_width_differ(self, store: Store) -> None:
        keys = [b"a", b"a\0", b"\0a", b"a\0\0", b"a" * 600, b"a" * 600 + b"\0"]
        for number, key in enumerate(keys):
            store.put(key_batch([key]), entries_of(1, [number]))
        for number, key in enumerate(keys):
            assert get_all(store, [key]) == [entry(1, number)]

    def test_extreme_entries(self, store: Store) -> None:
        numbers = [entry(1, 0), entry(1, MAX_FILE_GROUP), entry(MAX_SEQUENCE, 0), entry(MAX_SEQUENCE, TOMBSTONE)]
        keys = [b"a", b"b", b"c", b"\xff"]
        store.put(key_batch(keys), np.array(numbers, dtype=np.uint64))
        assert get_all(store, keys) == numbers
        assert scanned(store, [0], batch_size=1) == {(0, key): n for key, n in zip(keys, numbers, strict=True)}

    def test_a_greater_sequence_replaces(self, store: Store) -> None:
        store.put(key_batch([b"k"]), entries_of(1, [50]))
        store.put(key_batch([b"k"]), entries_of(2, [3]))
        assert get_all(store, [b"k"]) == [entry(2, 3)]
        assert scanned(store, [0]) == {(0, b"k"): entry(2, 3)}

    @pytest.mark.parametrize("sequence", [1, 4])
    def test_a_lower_sequence_never_replaces(self, store: Store, sequence: int) -> None:
        store.put(key_batch([b"k"]), entries_of(5, [3]))
        for file_group in (0, 3, 50, TOMBSTONE):
            store.put(key_batch([b"k"]), entries_of(sequence, [file_group]))
        assert get_all(store, [b"k"]) == [entry(5, 3)]
        assert scanned(store, [0]) == {(0, b"k"): entry(5, 3)}

    def test_batch_keys_are_decided_separately(self, store: Store) -> None:
        keys = [b"a", b"b", b"c", b"d"]
        store.put(key_batch(keys[:3]), np.array([entry(1, 1), entry(5, 20), entry(9, 3)], dtype=np.uint64))
        store.put(key_batch(keys[::-1]), entries_of(5, [40, 30, 20, 10]))
        assert get_all(store, keys) == [entry(5, 10), entry(5, 20), entry(9, 3), entry(5, 40)]

    def test_a_tombstone_is_an_entry(self, store: Store) -> None:
        store.put(key_batch([b"a", b"b"]), entries_of(1, [7, 8]))
        store.put(key_batch([b"b", b"c"]), tombstones_of(3, 2))
        store.put(key_batch([b"a", b"b", b"c"]), entries_of(2, [1, 1, 1]))
        assert get_all(store, [b"a", b"b", b"c"]) == [entry(2, 1), entry(3, TOMBSTONE), entry(3, TOMBSTONE)]
        store.put(key_batch([b"b"]), entries_of(4, [9]))
        assert get_all(store, [b"b"]) == [entry(4, 9)]

    def test_repeating_a_batch_changes_nothing(self, store: Store) -> None:
        keys = random_keys(500, 16, seed=1)
        for _ in range(3):
            store.put(key_batch(keys), entries_of(4, range(500)))
        assert scanned(store, [0]) == {(0, key): entry(4, n) for n, key in enumerate(keys)}

    def test_batch_order_does_not_matter(self, store: Store) -> None:
        keys = random_keys(30, 16, seed=2)
        batches = [(1, keys[:20], 100), (2, keys[10:], 200), (3, keys[5:15], TOMBSTONE)]
        for shard, order in enumerate(permutations(batches)):
            for sequence, some, file_group in order:
                store.put(key_batch(some, shard), entries_of(sequence, [file_group] * len(some)))
        expected = {key: entry(sequence, group) for sequence, some, group in batches for key in some}
        for shard in range(6):
            assert scanned(store, [shard]) == {(shard, key): number for key, number in expected.items()}

    def test_many_keys_in_random_batches(self, store: Store) -> None:
        keys = random_keys(12_000, 16, seed=3)
        shards = [key[0] % 3 for key in keys]
        for start in range(0, len(keys), 3000):
            some = slice(start, start + 3000)
            store.put(key_batch(keys[some], shards[some]), entries_of(1, range(start, start + 3000)))
        changed = slice(1000, 9000)
        store.put(key_batch(keys[changed], shards[changed]), entries_of(2, range(8000)))
        expected = [entry(2, n - 1000) if 1000 <= n < 9000 else entry(1, n) for n in range(len(keys))]
        order = np.random.default_rng(4).permutation(len(keys)).tolist()
        found = get_all(store, [keys[n] for n in order], [shards[n] for n in order])
        assert differences(found, [expected[n] for n in order]) == []
        few = order[:50]
        assert get_all(store, [keys[n] for n in few], [shards[n] for n in few]) == [expected[n] for n in few]

    @pytest.mark.parametrize("width", [3, 8, 16])
    def test_many_absent_keys_beside_stored_ones(self, store: Store, width: int) -> None:
        # Of the wider ones many have their first bytes in common.
        keys = list(dict.fromkeys([*numbered_keys(2000, width), *random_keys(2000, width, seed=5)]))
        store.put(key_batch(keys[::2]), entries_of(1, range(len(keys[::2]))))
        expected = [entry(1, n // 2) if n % 2 == 0 else 0 for n in range(len(keys))]
        assert differences(get_all(store, keys), expected) == []

    def test_arguments_are_left_alone(self, store: Store) -> None:
        keys, entries = key_batch([b"b", b"a"]), entries_of(1, [1, 2])
        store.put(keys, entries)
        store.get(keys)
        assert keys.to_bytes() == [b"b", b"a"]
        assert entries.tolist() == [entry(1, 1), entry(1, 2)]
