"""The names of keys are as documented, short, and never those of two things."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rli.settings import MAX_SHARDS
from rli_redis.names import DIGITS, ID_LENGTH, Names, family_number, family_of, header_key, id_key

NAMES = Names("aB3")
WIDTHS = st.integers(1, 1 << 28)
SHARDS = st.integers(0, MAX_SHARDS - 1)


def buckets(width: int, shard: int, *numbers: int) -> list[bytes]:
    return NAMES.buckets(width, shard, np.array(numbers, dtype=np.int64))


def test_version_1_of_the_names() -> None:
    assert header_key("trips") == b"{rli}index:trips"
    assert id_key("aB3") == b"{rli}id:aB3"
    assert NAMES.control == b"{rliaB3}c"
    assert NAMES.control_names == b"{rliaB3}n"
    assert NAMES.control_tokens == b"{rliaB3}t"
    assert NAMES.families == b"{rliaB3}f"
    assert NAMES.family(16, 0) == b"{rliaB3A}\x10"
    assert NAMES.family(128, 63) == b"{rliaB3_}\x80\x01"
    assert NAMES.family(70_000, 64) == b"{rliaB3BA}\xf0\xa2\x04"
    assert NAMES.dropped_family(16, 0) == b"{rliaB3A}\x10-"
    assert buckets(16, 65_535, 0, 1, 0x01020304) == [
        b"{rliaB3P__}\x10\0\0\0\0",
        b"{rliaB3P__}\x10\0\0\0\x01",
        b"{rliaB3P__}\x10\x01\x02\x03\x04",
    ]
    assert buckets(16, 0) == []


def test_the_name_of_a_bucket_fits_an_allocation_of_16_bytes() -> None:
    # One byte before the text of a short string, and one after it.
    assert {len(key) for shard in range(64) for key in buckets(16, shard, 0, 1 << 31)} == {14}
    assert len(DIGITS) == len(set(DIGITS)) == 64
    assert len(NAMES.index_id) == ID_LENGTH


@given(WIDTHS, SHARDS)
def test_families_are_numbers_and_back(width: int, shard: int) -> None:
    assert family_of(family_number(width, shard)) == (width, shard)
    assert NAMES.shard_of(NAMES.family(width, shard)) == shard


@given(st.lists(st.tuples(WIDTHS, SHARDS), min_size=2, unique=True), st.lists(st.integers(0, 2**32 - 1), unique=True))
def test_no_two_things_have_one_name(families: list[tuple[int, int]], numbers: list[int]) -> None:
    keys = [NAMES.control, NAMES.control_names, NAMES.control_tokens, NAMES.families]
    for width, shard in families:
        keys += [NAMES.family(width, shard), NAMES.dropped_family(width, shard), *buckets(width, shard, *numbers)]
    assert len(set(keys)) == len(keys)
    assert all(key.startswith(NAMES.pattern.removesuffix(b"*")) for key in keys)
    assert {NAMES.shard_of(key) for key in keys} == {None, *(shard for _, shard in families)}


def test_two_indexes_share_no_name() -> None:
    other = Names("aB4")
    assert not NAMES.family(16, 0).startswith(other.pattern.removesuffix(b"*"))
    assert not header_key("aB3").startswith(NAMES.pattern.removesuffix(b"*"))
