"""Linear hashing: every bucket is used, and a segment that grows moves keys into its new buckets only."""

from __future__ import annotations

import hashlib
import secrets
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from rli.errors import CorruptIndexError
from rli_redis.segments import (
    Segment,
    addresses,
    hashes_of,
    outgrows,
    prefix_addresses,
    prefix_hashes,
    states_in,
    wanted_buckets,
)

HASHES = st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=200)


def address(hash_: int, buckets: int) -> int:
    """The definition, for one key."""
    level = buckets.bit_length() - 1
    wide = hash_ % 2 ** (level + 1)
    return wide if wide < buckets else hash_ % 2**level


@given(HASHES, st.integers(1, 1 << 24))
def test_addresses_are_those_of_the_definition(hashes: list[int], buckets: int) -> None:
    found = addresses(np.array(hashes), buckets)
    assert found.tolist() == [address(hash_, buckets) for hash_ in hashes]


@given(st.lists(st.tuples(st.integers(0, 2**32 - 1), st.integers(1, 1 << 31)), min_size=1))
def test_each_hash_may_have_own_segment(pairs: list[tuple[int, int]]) -> None:
    hashes, buckets = zip(*pairs, strict=True)
    found = addresses(np.array(hashes), np.array(buckets))
    assert found.tolist() == [address(*pair) for pair in pairs]


@pytest.mark.parametrize("buckets", [1, 2, 3, 4, 5, 7, 8, 9, 1000, 1023, 1024, 1025])
def test_exactly_all_buckets_are_reached(buckets: int) -> None:
    assert set(addresses(np.arange(4 * buckets), buckets).tolist()) == set(range(buckets))


@given(HASHES, st.integers(1, 5000))
def test_growth_moves_keys_between_two_buckets(hashes: list[int], buckets: int) -> None:
    before, after = (addresses(np.array(hashes), count) for count in (buckets, buckets + 1))
    moved = before != after
    assert set(after[moved].tolist()) <= {buckets}
    assert set(before[moved].tolist()) <= {int(addresses(np.array([buckets]), buckets)[0])}


@given(HASHES, st.integers(1, 200), st.integers(0, 2000))
def test_split_buckets_hold_all_former_content(hashes: list[int], buckets: int, more: int) -> None:
    """What scans rely on: the bucket that a newer one came from has the newer one's number as its address."""
    now = addresses(np.array(hashes), buckets + more)
    assert addresses(now, buckets).tolist() == addresses(np.array(hashes), buckets).tolist()


@pytest.mark.parametrize(("width", "entries"), [(16, 1), (16, 1000), (16, 10**7), (1, 1000), (70_000, 1000)])
def test_the_wanted_buckets_are_enough(width: int, entries: int) -> None:
    wanted = wanted_buckets(entries, width)
    assert entries / wanted <= max(1, 360 // (width + 4))
    assert not outgrows(entries, width, wanted)
    assert outgrows(2 * entries + 100, width, wanted) == (wanted_buckets(2 * entries + 100, width) > 1.05 * wanted)


def test_no_entries_want_one_bucket() -> None:
    assert wanted_buckets(0, 16) == 1


@pytest.mark.parametrize(
    ("width", "hashes"),
    [
        (1, [3730033459, 1047599247]),
        (7, [3461882268, 2999870567]),
        (8, [1196095309, 3755844171]),
        (9, [3428936298, 2022592156]),
        (16, [4174046048, 1212725574]),
    ],
)
def test_hash_of_versions_2_and_3(width: int, hashes: list[int]) -> None:
    keys = np.array([b"0123456789abcdef"[:width], b"fedcba9876543210"[:width]], dtype=f"V{width}")
    assert hashes_of(keys, b"").tolist() == hashes


KEY = bytes(range(16))


@pytest.mark.parametrize(
    ("width", "hashes"),
    [
        (1, [567989023, 1368723302]),
        (7, [2545936596, 3578390674]),
        (8, [4154817710, 1406684416]),
        (9, [3258952265, 4135909461]),
        (16, [2419254068, 2625323999]),
    ],
)
def test_the_hash_of_version_4(width: int, hashes: list[int]) -> None:
    keys = np.array([b"0123456789abcdef"[:width], b"fedcba9876543210"[:width]], dtype=f"V{width}")
    assert hashes_of(keys, KEY).tolist() == hashes


@pytest.mark.parametrize("width", [1, 4, 5, 16, 30])
def test_hash_of_version_4_matches_definition(width: int) -> None:
    """Words times factors, modulo 2^64; the upper half, by the finalizer of MurmurHash3."""
    key = bytes(range(100, 100 + width))
    padded = key + bytes(-width % 8)
    words = struct.unpack(f"<{len(padded) // 4}I", padded)
    first, *factors = struct.unpack(f"<{len(words) + 1}Q", hashlib.shake_256(KEY).digest(8 * len(words) + 8))
    total = first + sum(word * factor for word, factor in zip(words, factors, strict=True))
    expected = total % 2**64 >> 32
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        expected = ((expected ^ (expected >> shift)) * factor) % 2**32
    expected ^= expected >> 16
    assert hashes_of(np.frombuffer(key, dtype=f"V{width}"), KEY).tolist() == [expected]


@given(
    buckets=st.integers(1, 400),
    width=st.integers(1, 20),
    beginnings=st.lists(st.binary(min_size=20, max_size=20), min_size=1, max_size=5),
)
def test_keys_are_where_beginnings_lead(buckets: int, width: int, beginnings: list[bytes]) -> None:
    for beginning in beginnings:
        generator = np.random.default_rng(len(beginning))
        keys = np.array([beginning[:width] + generator.bytes(9) for _ in range(100)], dtype=f"V{width + 9}")
        low = prefix_hashes(np.array([beginning[:width]], dtype=f"V{width}"), KEY, width)
        [[first], [count], step] = prefix_addresses(low, np.array([buckets]))
        found = addresses(hashes_of(keys, KEY, width), buckets)
        assert set(found.tolist()) <= set(range(first, buckets, step))
        assert count == len(range(first, buckets, step)) <= 1 + buckets // 64


def test_beginnings_share_buckets_evenly() -> None:
    """Also where all keys begin alike: they are in a 64th of the buckets, and as many are in each of those."""
    generator = np.random.default_rng(4)
    alike = np.array([b"8 bytes!" + generator.bytes(16) for _ in range(20_000)], dtype="V24")
    various = np.array([generator.bytes(24) for _ in range(20_000)], dtype="V24")
    of_alike = np.bincount(addresses(hashes_of(alike, KEY, 8), 1024), minlength=1024)
    assert np.count_nonzero(of_alike) == 16
    assert of_alike.max() < 1.25 * 20_000 / 16
    assert np.bincount(addresses(hashes_of(various, KEY, 8), 1024), minlength=1024).max() < 5 * 20


def colliding_keys(count: int) -> NDArray[np.void]:
    """UUIDs that have one hash without a key: the second half of each undoes what the first one does."""
    first = np.random.default_rng(5).integers(0, 1 << 63, count, dtype=np.uint64)
    state = (np.uint64(0x6275_636B) ^ first) * np.uint64(0xFF51_AFD7_ED55_8CCD)
    second = state ^ (state >> np.uint64(32)) ^ np.uint64(0x1234_5678_90AB_CDEF)
    return np.stack([first, second], axis=1).astype("<u8").view("V16")[:, 0]


def test_colliding_keys_spread_evenly() -> None:
    keys = colliding_keys(20_000)
    assert len(set(hashes_of(keys, b"").tolist())) == 1
    for hash_key in (KEY, secrets.token_bytes(16)):
        found = hashes_of(keys, hash_key)
        assert len(np.unique(found)) > 19_990
        assert np.bincount(addresses(found, 1000), minlength=1000).max() < 5 * 20


@pytest.mark.parametrize("hash_key", [b"", KEY, bytes(16)])
@pytest.mark.parametrize("template", ["{:09d}", "{:x}-000000000", "user-{:012d}@example.com", "{:06d}\0\0"])
@pytest.mark.parametrize("buckets", [512, 777, 1024])
def test_similar_keys_spread_evenly(template: str, buckets: int, hash_key: bytes) -> None:
    keys = [template.format(number + 200_000).encode() for number in range(20 * buckets)]
    assert len({len(key) for key in keys}) == 1
    found = hashes_of(np.frombuffer(b"".join(keys), dtype=f"V{len(keys[0])}"), hash_key)
    halved = np.bincount(found & 255, minlength=256)
    # Six standard deviations of what chance would do.
    assert abs(halved - halved.mean()).max() < 6 * halved.mean() ** 0.5
    assert np.bincount(addresses(found, buckets), minlength=buckets).max() < 5 * 20


@pytest.mark.parametrize("mark_of_version_2", ["", "00000607"])
def test_state_of_versions_2_and_3(mark_of_version_2: str) -> None:
    stored = b"version!" + bytes.fromhex("00000102 0000000000000304 0000000000000005" + mark_of_version_2)
    assert Segment.from_bytes(stored) == Segment(b"version!", 0x102, 0x304, 5)


def test_present_and_missing_states_are_distinguished() -> None:
    old, new = (
        b"version1" + bytes.fromhex("00000002 0000000000000003 0000000000000001 00000607"),
        b"version2" + bytes(20),
    )
    states = states_in([old, None, new])
    assert states["version"].tolist() == [b"version1", bytes(8), b"version2"]
    assert states["buckets"].tolist() == [2, 0, 0]
    assert states["entries"].tolist() == [3, 0, 0]


@pytest.mark.parametrize("stored", [b"", bytes(27), bytes(31), bytes(33)])
def test_no_state(stored: bytes) -> None:
    with pytest.raises(CorruptIndexError, match="wrong length"):
        Segment.from_bytes(stored)
