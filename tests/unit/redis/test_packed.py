"""Records are found and changed in packed buckets as in a dict."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rli.errors import CorruptIndexError
from rli.testing.batches import entry
from rli_redis.buckets import NO_RECORDS, stamp_of
from rli_redis.packed import PackedBuckets
from tests.unit.redis.test_buckets import BORDERS, ENTRIES, bucket_of, contents, entries_array, keys_of

COUNT = 4


@st.composite
def histories(draw: st.DrawFn) -> tuple[int, list[dict[tuple[int, bytes], int]]]:
    """A key width and batches of changes: what (bucket, key) is to have."""
    width = draw(st.sampled_from([1, 2, 3, 8, 16, 17]))
    # Few different keys, many of which end alike.
    bodies = draw(st.lists(st.binary(min_size=width, max_size=width), min_size=1, max_size=12, unique=True))
    where = st.tuples(st.integers(0, COUNT - 1), st.sampled_from(bodies))
    return width, draw(st.lists(st.dictionaries(where, ENTRIES, max_size=10), max_size=6))


def look_up(buckets: list[bytes], width: int, wanted: list[tuple[int, bytes]]) -> list[int]:
    packed = PackedBuckets(buckets, width)
    slots = np.array([slot for slot, _ in wanted], dtype=np.int64)
    places = packed.find(keys_of([key for _, key in wanted], width), slots)
    found: list[int] = packed.entries_at(places, slots).tolist()
    return found


@given(histories(), st.integers(1, 1 << 16), st.data())
def test_records_are_removed(
    history: tuple[int, list[dict[tuple[int, bytes], int]]], step: int, data: st.DataObject
) -> None:
    width, batches = history
    model = {where: number for batch in batches for where, number in batch.items()}
    split: list[dict[bytes, int]] = [{} for _ in range(COUNT)]
    for (slot, key), number in model.items():
        split[slot][key] = number
    buckets = [bucket_of(records, width) for records in split]
    gone = data.draw(st.sets(st.sampled_from(sorted(model)))) if model else set()
    packed = PackedBuckets(buckets, width)
    slots = np.array([slot for slot, _ in gone], dtype=np.int64)
    newer = packed.without(slots, packed.find(keys_of([key for _, key in gone], width), slots), step)
    assert newer.positions.tolist() == sorted({slot for slot, _ in gone})
    for slot, stamp, bucket in zip(newer.positions.tolist(), newer.old_stamps.tolist(), newer.buckets, strict=True):
        assert stamp_of(buckets[slot]) == stamp
        assert stamp_of(bucket) == (stamp + step) % 2**32
        buckets[slot] = bucket
    for slot, key in gone:
        del split[slot][key]
    assert contents(buckets, width) == split


@given(histories(), st.integers(1, 1 << 16))
def test_random_histories(history: tuple[int, list[dict[tuple[int, bytes], int]]], step: int) -> None:
    width, batches = history
    buckets = [NO_RECORDS] * COUNT
    model: dict[tuple[int, bytes], int] = {}
    for batch in batches:
        packed = PackedBuckets(buckets, width)
        keys = keys_of([key for _, key in batch], width)
        slots = np.array([slot for slot, _ in batch], dtype=np.int64)
        places = packed.find(keys, slots)
        assert (places >= 0).tolist() == [where in model for where in batch]
        newer = packed.changed(keys, entries_array(list(batch.values())), slots, places, step)
        assert newer.positions.tolist() == sorted({slot for slot, _ in batch})
        for slot, stamp, bucket in zip(newer.positions.tolist(), newer.old_stamps.tolist(), newer.buckets, strict=True):
            assert stamp_of(buckets[slot]) == stamp
            assert stamp_of(bucket) == (stamp + step) % 2**32
            buckets[slot] = bucket
        model |= batch
        split: list[dict[bytes, int]] = [{} for _ in range(COUNT)]
        for (slot, key), number in model.items():
            split[slot][key] = number
        assert contents(buckets, width) == split
    wanted = [(slot, key) for slot in range(COUNT) for _, key in model] * 2
    assert look_up(buckets, width, wanted) == [model.get(where, 0) for where in wanted]


@pytest.mark.parametrize("stamp", [0, 2**32 - 1])
def test_stamp_wraps_after_maximum(stamp: int) -> None:
    packed = PackedBuckets([bucket_of({}, 1, stamp)], 1)
    key, slot = keys_of([b"k"], 1), np.array([0])
    newer = packed.changed(key, entries_array([entry(1, 1)]), slot, packed.find(key, slot), 1)
    assert stamp_of(newer.buckets[0]) == (stamp + 1) % 2**32


def test_key_across_record_boundaries_is_absent() -> None:
    """A key whose bytes stand across two records, or where the numbers are."""
    bucket = bucket_of({b"ab": entry(0x63, 0x64), b"ef": entry(0x67, 0x68)}, 2)
    assert b"abcdefgh" in bucket
    wanted = [(0, key) for key in (b"ab", b"bc", b"cd", b"de", b"ef", b"fg", b"gh")]
    assert look_up([bucket], 2, wanted) == [entry(0x63, 0x64), 0, 0, 0, entry(0x67, 0x68), 0, 0]


@pytest.mark.parametrize("number", [n for n in BORDERS if n])
def test_wide_number_widens_only_its_bucket(number: int) -> None:
    buckets = [bucket_of({b"a": entry(1, 1), b"b": entry(2, 0xFFFF_FFFF)}, 1), bucket_of({b"c": entry(1, 1)}, 1)]
    packed = PackedBuckets(buckets, 1)
    key, slot = keys_of([b"n"], 1), np.array([0])
    newer = packed.changed(key, entries_array([entry(number, number)]), slot, packed.find(key, slot), 1)
    assert newer.positions.tolist() == [0]
    assert contents([newer.buckets[0], buckets[1]], 1) == [
        {b"a": entry(1, 1), b"b": entry(2, 0xFFFF_FFFF), b"n": entry(number, number)},
        {b"c": entry(1, 1)},
    ]


def test_keys_of_70000_bytes() -> None:
    keys = [bytes([number]) * 69_999 + b"x" for number in range(3)]
    bucket = bucket_of({keys[0]: entry(1, 1), keys[1]: entry(2, 2)}, 70_000)
    assert look_up([bucket], 70_000, [(0, key) for key in keys]) == [entry(1, 1), entry(2, 2), 0]


def test_repeated_keys_take_little_memory() -> None:
    """What a look-up takes grows with its keys alone, not with the records that each is compared to."""
    bucket = bucket_of({bytes([number]) * 16: entry(1, number) for number in range(250)}, 16)
    packed, repeats = PackedBuckets([bucket], 16), 100_000
    keys, slots = np.repeat(keys_of([b"x" * 16], 16), repeats), np.zeros(repeats, dtype=np.int64)
    tracemalloc.start()
    try:
        places = packed.find(keys, slots)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert set(packed.entries_at(places, slots).tolist()) == {entry(1, ord("x"))}
    assert peak < 300 * repeats


def test_no_buckets_and_no_keys() -> None:
    assert look_up([], 3, []) == []
    assert look_up([NO_RECORDS], 3, []) == []


def test_bytes_that_are_no_bucket() -> None:
    with pytest.raises(CorruptIndexError, match="not a bucket"):
        PackedBuckets([NO_RECORDS, b"else"], 3)
