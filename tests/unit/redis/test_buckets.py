"""Buckets give back what was put into them, in as few bytes as the format allows, and refuse what is no bucket."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from rli.codec.entries import MAX_FILE_GROUP, MAX_SEQUENCE, TOMBSTONE, Entries
from rli.errors import CorruptIndexError
from rli.testing.batches import entry
from rli_redis.buckets import (
    HEADER_WIDTH,
    NO_RECORDS,
    Records,
    decode,
    empty_bucket,
    encode,
    least_width_bytes,
    random_step,
    stamp_of,
)

# The greatest value of each width stands for a tombstone, so a file group of that value needs the next one.
BORDERS = [0, 1, 253, 254, 255, 256, 257, 65_533, 65_534, 65_535, 65_536, 65_537, 2**32 - 3, MAX_FILE_GROUP]
GROUPS = st.sampled_from([*BORDERS, TOMBSTONE]) | st.integers(0, TOMBSTONE)
SEQUENCES = st.sampled_from([number for number in [*BORDERS, MAX_SEQUENCE] if number]) | st.integers(1, MAX_SEQUENCE)
ENTRIES = st.builds(entry, SEQUENCES, GROUPS)


def keys_of(keys: list[bytes], width: int) -> NDArray[np.void]:
    return np.frombuffer(b"".join(keys), dtype=f"V{width}")


def entries_array(entries: list[int]) -> Entries:
    return np.array(entries, dtype=np.uint64)


def contents(buckets: list[bytes], width: int) -> list[dict[bytes, int]]:
    """Each bucket as a dict."""
    records = decode(buckets, width)
    found: list[dict[bytes, int]] = [{} for _ in buckets]
    for bucket, key, number in zip(
        records.buckets.tolist(), records.keys.tolist(), records.entries.tolist(), strict=True
    ):
        assert key not in found[bucket]
        found[bucket][key] = number
    return found


def bucket_of(content: dict[bytes, int], width: int, stamp: int = 0) -> bytes:
    records = Records(keys_of(list(content), width), entries_array(list(content.values())), np.array([len(content)]))
    return encode(records, [stamp])[0]


@st.composite
def many_buckets(draw: st.DrawFn) -> tuple[int, list[dict[bytes, int]]]:
    width = draw(st.integers(1, 20))
    one = st.dictionaries(st.binary(min_size=width, max_size=width), ENTRIES, max_size=8)
    return width, draw(st.lists(one, max_size=6))


@given(many_buckets(), st.integers(0, 2**32 - 1), st.randoms(use_true_random=False))
def test_what_was_encoded_is_decoded(case: tuple[int, list[dict[bytes, int]]], stamp: int, random: object) -> None:
    width, wanted = case
    rows = [(number, key, value) for number, content in enumerate(wanted) for key, value in content.items()]
    random.shuffle(rows)  # type: ignore[attr-defined]
    records = Records.sorted_into(
        np.array([row[0] for row in rows], dtype=np.int64),
        len(wanted),
        keys_of([row[1] for row in rows], width),
        entries_array([row[2] for row in rows]),
    )
    stamps = [stamp + number for number in range(len(wanted))]
    buckets = encode(records, stamps)
    assert contents(buckets, width) == wanted
    assert [stamp_of(bucket) for bucket in buckets] == [number % 2**32 for number in stamps]


@pytest.mark.parametrize(
    ("sequence", "group", "width_byte"),
    [
        (1, 0, 0x11),
        (254, 254, 0x11),
        (1, TOMBSTONE, 0x11),
        (255, 0, 0x21),
        (256, 0, 0x21),
        (1, 255, 0x12),
        (1, 256, 0x12),
        (65_534, 65_534, 0x22),
        (1, 65_535, 0x14),
        (65_535, TOMBSTONE, 0x41),
        (65_536, 65_536, 0x44),
        (MAX_SEQUENCE, MAX_FILE_GROUP, 0x44),
        (MAX_SEQUENCE, TOMBSTONE, 0x41),
    ],
)
def test_each_number_takes_the_least_width(sequence: int, group: int, width_byte: int) -> None:
    number = entry(sequence, group)
    assert least_width_bytes(entries_array([number])).tolist() == [width_byte]
    bucket = bucket_of({b"key": number}, 3)
    assert bucket[4] == width_byte
    assert len(bucket) == HEADER_WIDTH + 3 + (width_byte >> 4) + (width_byte & 15)
    assert contents([bucket], 3) == [{b"key": number}]


def test_version_1_of_a_bucket() -> None:
    one = bucket_of({b"k1": entry(7, 5), b"k2": entry(8, TOMBSTONE)}, 2, stamp=0x01020304)
    assert one == bytes.fromhex("01020304 11 6b31 07 05 6b32 08 ff")
    mixed = bucket_of({b"k1": entry(0x1234, 5), b"k2": entry(8, TOMBSTONE), b"k3": entry(9, 0x12345)}, 2)
    assert mixed == bytes.fromhex("00000000 24 6b31 1234 00000005 6b32 0008 ffffffff 6b33 0009 00012345")
    for width_byte in (0x11, 0x12, 0x14, 0x21, 0x22, 0x24, 0x41, 0x42, 0x44):
        sequence, group = 9, width_byte & 15
        stored = (
            bytes(4)
            + bytes([width_byte])
            + b"k"
            + sequence.to_bytes(width_byte >> 4, "big")
            + group.to_bytes(width_byte & 15, "big")
            + b"l"
            + sequence.to_bytes(width_byte >> 4, "big")
            + b"\xff" * (width_byte & 15)
        )
        assert contents([stored], 1) == [{b"k": entry(9, group), b"l": entry(9, TOMBSTONE)}]


def test_empty_bucket_has_needed_widths() -> None:
    expected = entries_array([entry(1, 300), entry(70_000, 1)])
    assert empty_bucket(5, expected) == bytes.fromhex("00000005 42")
    assert contents([empty_bucket(5, expected), NO_RECORDS], 16) == [{}, {}]


@pytest.mark.parametrize(
    "stored",
    [b"", bytes(4), bytes(5), bytes(4) + b"\x13", bytes(4) + b"\x11" + bytes(4), bytes(4) + b"\x11" + bytes(6)],
)
def test_bytes_that_are_no_bucket(stored: bytes) -> None:
    with pytest.raises(CorruptIndexError, match="not a bucket"):
        decode([bucket_of({b"key": 1 << 32}, 3), stored], 3)


def test_stamps_never_stay() -> None:
    steps = {random_step() for _ in range(1000)}
    assert min(steps) >= 1
    assert max(steps) <= 1 << 16
    assert len(steps) > 900
