"""Entries: which one a newer commit may replace."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rli.codec import entries
from rli.codec.encoded_keys import EncodedKeys
from rli.testing import strategies

NUMBERS = st.integers(0, 0xFFFF_FFFF)


@given(NUMBERS, st.lists(NUMBERS, max_size=10))
def test_packing_keeps_both_numbers(sequence: int, file_groups: list[int]) -> None:
    packed = entries.pack(sequence, np.array(file_groups, dtype=np.uint64))
    assert packed.dtype == np.uint64
    assert entries.sequences(packed).tolist() == [sequence] * len(file_groups)
    assert entries.file_groups(packed).tolist() == file_groups


@given(st.tuples(NUMBERS, NUMBERS), st.tuples(NUMBERS, NUMBERS))
def test_only_a_greater_sequence_supersedes(new: tuple[int, int], stored: tuple[int, int]) -> None:
    packed = [entries.pack(sequence, np.array([group])) for sequence, group in (new, stored)]
    assert entries.supersedes(packed[0], packed[1]).tolist() == [new[0] > stored[0]]


def test_absent_and_deleted_keys_are_dead() -> None:
    numbers = np.concatenate([entries.pack(1, np.array([0, entries.TOMBSTONE])), np.array([entries.ABSENT])])
    assert entries.is_live(numbers).tolist() == [True, False, False]


@given(strategies.key_batches())
def test_entries_sort_by_shard_and_bytes(keys: EncodedKeys) -> None:
    pairs = list(zip(keys.shards.tolist(), keys.to_bytes(), strict=True))
    assert [pairs[position] for position in keys.sort_order()] == sorted(pairs)


@given(st.lists(st.tuples(st.integers(0, 2), st.binary(min_size=2, max_size=2)), max_size=30))
def test_sort_is_stable_for_common_prefixes(pairs: list[tuple[int, bytes]]) -> None:
    texts = [b"these begin alike " + ending for _, ending in pairs]
    keys = EncodedKeys(np.array(texts, dtype="V20"), np.array([shard for shard, _ in pairs], dtype=np.uint16))
    expected = sorted(range(len(pairs)), key=lambda position: (pairs[position][0], texts[position]))
    assert keys.sort_order().tolist() == expected
