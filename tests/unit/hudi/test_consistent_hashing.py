"""Rings of buckets: the same as Apache Hudi's, and every hash has one owner whatever is split or merged."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rli.errors import CorruptTableError
from rli.hudi.consistent_hashing import (
    FIRST_INSTANT,
    LARGEST_HASH,
    Bucket,
    Ring,
    commit_marker_path,
    instants_of_rings,
    key_hashes,
    ring_path,
)
from rli.hudi.xx_hash import xx_hashes

DATA = Path(__file__).parents[2] / "data" / "hudi-consistent-hashing"
AFTER_SPLITS = DATA / "20261123060650498.hashing_meta"

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
HASHES = st.integers(0, LARGEST_HASH)

KNOWN = {
    "": 0x02CC5D05,
    "a": 0x550D7456,
    "abc": 0x32D153FF,
    "Nobody inspects the spammish repetition": 0xE2293B2F,
}
"""Hashes that the documentation of the algorithm and of its libraries name."""


def test_owners_and_middles_match_hudi() -> None:
    lines = [json.loads(line) for line in (DATA / "owners.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(lines) == 200
    for line in lines:
        ring = Ring.first(line["partition_path"], line["buckets"])
        hashes = key_hashes(pa.array([line["record_key"]]), line["fields"], line["key_fields"])
        position = int(ring.owners(hashes)[0])
        assert ring.buckets[position] == Bucket(line["value"], line["prefix"]), line
        assert ring.middle(position) == line["middle"], line


def test_first_rings_match_hudi_files() -> None:
    content = (DATA / f"{FIRST_INSTANT}.hashing_meta").read_bytes()
    assert Ring.from_json(content, "file") == Ring.first("eu", 4)
    assert json.loads(Ring.first("eu", 4).to_json()) == json.loads(content)


def test_hudi_splits_buckets_at_middles() -> None:
    content = AFTER_SPLITS.read_bytes()
    split, first = Ring.from_json(content, "file"), Ring.first("eu", 4)
    assert json.loads(split.to_json()) == json.loads(content)
    ends = [value for number in range(4) for value in (first.middle(number), first.buckets[number].value)]
    assert [bucket.value for bucket in split.buckets] == ends
    assert (split.number, split.first_buckets) == (1, 4)


@pytest.mark.parametrize(("text", "expected"), KNOWN.items())
def test_hashes_are_those_of_the_algorithm(text: str, expected: int) -> None:
    assert xx_hashes(pa.array([text])).tolist() == [expected]


@given(st.lists(TEXTS), st.integers(0, 3))
def test_hash_ignores_other_strings(texts: list[str], skipped: int) -> None:
    together = xx_hashes(pa.array([*["left out"] * skipped, *texts], pa.string()).slice(skipped))
    assert together.tolist() == [int(xx_hashes(pa.array([text]))[0]) for text in texts]


@given(st.integers(1, 40), st.lists(st.tuples(st.booleans(), st.integers(0, 1000)), max_size=12), st.lists(HASHES))
def test_every_hash_has_single_owner(buckets: int, steps: list[tuple[bool, int]], hashes: list[int]) -> None:
    """Only the hashes of the buckets that were split or merged get another owner."""
    ring, sought = Ring.first("p", buckets), np.array([0, LARGEST_HASH, *hashes], np.int64)
    for number, (is_split, chosen) in enumerate(steps):
        before, owned = ring, ring.owners_of(sought).to_pylist()
        position = chosen % len(ring.buckets)
        ring = _split(ring, position, number) if is_split else _merged(ring, position, number)
        gone = set(before.file_ids) - set(ring.file_ids)
        after = ring.owners_of(sought).to_pylist()
        assert all(new == old for new, old in zip(after, owned, strict=True) if old not in gone)
        assert {new for new, old in zip(after, owned, strict=True) if old in gone} <= set(ring.file_ids) - set(
            before.file_ids
        )
        ring.require_valid()
        assert Ring.from_json(ring.to_json(), "file") == ring


@given(st.integers(1, 1000))
def test_first_buckets_have_equal_shares(buckets: int) -> None:
    values = [bucket.value for bucket in Ring.first("p", buckets).buckets]
    sizes = np.diff([0, *values])
    assert values[-1] == LARGEST_HASH
    assert max(sizes) - min(sizes) <= buckets


def test_middle_of_range_wrapping_around_ring() -> None:
    ring = Ring("p", "1" * 17, 2, 1, (Bucket(10, _prefix(0)), Bucket(LARGEST_HASH - 9, _prefix(1))))
    assert ring.middle(0) == 0
    assert ring.owners(np.array([LARGEST_HASH - 8, LARGEST_HASH, 0, 10, 11])).tolist() == [0, 0, 0, 0, 1]
    assert Ring("p", "1" * 17, 2, 1, (Bucket(4, _prefix(0)), Bucket(5, _prefix(1)))).middle(1) is None


def test_names_of_files() -> None:
    folder = ".hoodie/.bucket_index/consistent_hashing_metadata"
    assert ring_path("a/b", "1" * 17) == f"{folder}/a/b/{'1' * 17}.hashing_meta"
    assert ring_path("", FIRST_INSTANT) == f"{folder}/{FIRST_INSTANT}.hashing_meta"
    assert commit_marker_path("a", "1" * 17) == f"{folder}/a/{'1' * 17}.commit"
    names = [f"{FIRST_INSTANT}.hashing_meta", f"{'2' * 17}.hashing_meta", f"{'3' * 17}.commit", "x.hashing_meta.tmp.7"]
    assert instants_of_rings(names) == ["2" * 17, FIRST_INSTANT]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[" * 100_000,
        AFTER_SPLITS.read_bytes().replace(b'"value" : 268435455', b'"value" : -1'),
        AFTER_SPLITS.read_bytes().replace(b'"value" : 268435455', b'"value" : 536870912'),
        AFTER_SPLITS.read_bytes().replace(b"0f2b8232-977c-447b-9716-cfe3a36abd3b", b"../../other"),
        AFTER_SPLITS.read_bytes().split(b'"nodes"')[0] + b'"nodes": []}',
    ],
)
def test_damaged_files_are_named(content: bytes) -> None:
    with pytest.raises(CorruptTableError, match=r"hashing metadata is damaged: file=eu/x\.hashing_meta"):
        Ring.from_json(content, "eu/x.hashing_meta")


def test_unknown_bucket_cannot_be_replaced() -> None:
    with pytest.raises(KeyError):
        Ring.first("p", 2).with_changes("1" * 17, {"unknown-0": ()})


def _prefix(number: int) -> str:
    return f"{number:08x}-0000-0000-0000-000000000000"


def _split(ring: Ring, position: int, number: int) -> Ring:
    bucket, middle = ring.buckets[position], ring.middle(position)
    if middle is None:
        return ring
    halves = Bucket(middle, _prefix(2 * number)), Bucket(bucket.value, _prefix(2 * number + 1))
    return ring.with_changes(f"{number:017}", {bucket.file_id: halves})


def _merged(ring: Ring, position: int, number: int) -> Ring:
    if len(ring.buckets) == 1:
        return ring
    former, bucket = ring.buckets[position - 1], ring.buckets[position]
    return ring.with_changes(
        f"{number:017}", {former.file_id: (), bucket.file_id: (Bucket(bucket.value, _prefix(2 * number)),)}
    )
