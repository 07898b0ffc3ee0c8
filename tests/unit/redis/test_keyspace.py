"""The names of keys are as documented, short, and never those of two things."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rli.settings import MAX_SHARDS
from rli_redis.keyspace import (
    DIGITS,
    ID_LENGTH,
    BucketPrefixes,
    Names,
    header_key,
    id_key,
    key_prefix,
    segment_number,
    segment_of,
)

NAMES = Names("aB3", key_prefix("trips"))
WIDTHS = st.integers(1, 1 << 28)
SHARDS = st.integers(0, MAX_SHARDS - 1)


def buckets(width: int, shard: int, *numbers: int) -> list[bytes]:
    return NAMES.buckets(width, shard, np.array(numbers, dtype=np.int64))


def test_the_names_of_version_4() -> None:
    assert header_key("trips") == b"{rli}index:trips"
    assert NAMES.control == b"{rlitrips/aB3}c"
    assert NAMES.watermark(64) == b"{rlitrips/aB3BA}"
    assert NAMES.segment(128, 63) == b"{rlitrips/aB3_}\x80\x01"
    assert buckets(16, 65_535, 0, 0x01020304) == [
        b"{rlitrips/aB3P__}\x10\0\0\0\0",
        b"{rlitrips/aB3P__}\x10\x01\x02\x03\x04",
    ]
    assert buckets(16, 0) == []


def test_names_of_versions_2_and_3() -> None:
    old = Names("aB3")
    assert id_key("aB3") == b"{rli}id:aB3"
    assert old.control == b"{rliaB3}c"
    assert old.control_names == b"{rliaB3}n"
    assert old.control_tokens == b"{rliaB3}t"
    assert old.segments == b"{rliaB3}f"
    assert old.segment(16, 0) == b"{rliaB3A}\x10"
    assert old.segment(128, 63) == b"{rliaB3_}\x80\x01"
    assert old.segment(70_000, 64) == b"{rliaB3BA}\xf0\xa2\x04"
    assert old.dropped_segment(16, 0) == b"{rliaB3A}\x10-"
    assert old.buckets(16, 65_535, np.array([0, 1, 0x01020304])) == [
        b"{rliaB3P__}\x10\0\0\0\0",
        b"{rliaB3P__}\x10\0\0\0\x01",
        b"{rliaB3P__}\x10\x01\x02\x03\x04",
    ]


def test_bucket_name_fits_24_byte_allocation() -> None:
    # One byte before the text of a short string, and one after it.
    names = Names("aB3", key_prefix("default"))
    assert {len(key) for shard in range(64) for key in names.buckets(16, shard, np.array([0, 1 << 31]))} == {22}
    assert len(DIGITS) == len(set(DIGITS)) == 64
    assert len(names.index_id) == ID_LENGTH


@given(WIDTHS, SHARDS)
def test_segments_are_numbers_and_back(width: int, shard: int) -> None:
    assert segment_of(segment_number(width, shard)) == (width, shard)
    assert NAMES.shard_of(NAMES.segment(width, shard)) == shard


@given(st.lists(st.tuples(WIDTHS, SHARDS), min_size=2, unique=True), st.lists(st.integers(0, 2**32 - 1), unique=True))
def test_no_two_things_have_one_name(segments: list[tuple[int, int]], numbers: list[int]) -> None:
    keys = [NAMES.control, NAMES.control_names, NAMES.control_tokens, NAMES.segments]
    for width, shard in segments:
        keys += [NAMES.segment(width, shard), NAMES.dropped_segment(width, shard), *buckets(width, shard, *numbers)]
    assert len(set(keys)) == len(keys)
    assert all(key.startswith(NAMES.pattern.removesuffix(b"*")) for key in keys)
    assert {NAMES.shard_of(key) for key in keys} == {None, *(shard for _, shard in segments)}


@given(st.lists(st.tuples(WIDTHS, SHARDS), max_size=5), st.lists(st.integers(0, 2**32 - 1), max_size=5))
def test_packed_bucket_names_equal_plain_names(segments: list[tuple[int, int]], numbers: list[int]) -> None:
    """However long the names are."""
    names = [name for segment in segments for name in buckets(*segment, *numbers)]
    packed, ends = BucketPrefixes.of([NAMES.packed_bucket_prefix(*segment) for segment in segments]).packed(
        np.repeat(np.arange(len(segments)), len(numbers)),
        np.array(numbers * len(segments), dtype=np.int64),
    )
    assert [packed[start:end] for start, end in pairwise(ends.tolist())] == [
        b"$%d\r\n%b\r\n" % (len(name), name) for name in names
    ]
    assert ends[-1] == len(packed)


@pytest.mark.parametrize(
    "other",
    [
        Names("aB4", key_prefix("trips")),
        Names("aB3", key_prefix("trip")),
        Names("aB3", key_prefix("trips2")),
        Names("aB3"),
    ],
)
def test_two_indexes_share_no_name(other: Names) -> None:
    for one, another in ((NAMES, other), (other, NAMES)):
        assert not one.segment(16, 0).startswith(another.pattern.removesuffix(b"*"))
        assert not header_key("aB3").startswith(one.pattern.removesuffix(b"*"))
