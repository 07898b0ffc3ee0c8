"""Buckets of record keys: the same as Apache Hudi's, and the same for each key by itself."""

from __future__ import annotations

import json
from functools import reduce
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rli.hudi.bucket_index import bucket_hashes, bucket_of_file_id, new_bucket_file_id
from rli.hudi.hash_fields import hash_values
from rli.hudi.java_hash import list_hashes, string_hashes
from rli.hudi.key_generator import KeyGenerator

GOLDEN = Path(__file__).parents[2] / "data" / "hudi-buckets" / "buckets.jsonl"

# Hudi cannot read a lone surrogate, nor can Arrow hold one.
TEXTS = st.text(st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from(",:_😀é")), max_size=12)


def test_buckets_are_those_of_hudi() -> None:
    """As ``BucketIdentifier.getBucketId`` of Hudi 1.2.0 told, for keys with null, empty and odd values too."""
    lines = [json.loads(line) for line in GOLDEN.read_text(encoding="utf-8").splitlines()]
    assert len(lines) == 200
    for line in lines:
        keys = pa.array([line["record_key"]])
        assert bucket_hashes(keys, line["fields"], line["key_fields"]) % line["buckets"] == line["bucket"], line


@given(st.lists(st.none() | TEXTS), st.integers(0, 3))
def test_hashes_of_strings_are_java_s(texts: list[str | None], skipped: int) -> None:
    strings = pa.array([*["left out"] * skipped, *texts], pa.string()).slice(skipped)
    assert string_hashes(strings).tolist() == [_java_hash(text) for text in texts]


@given(st.lists(st.lists(st.none() | TEXTS, max_size=4)), st.integers(0, 2))
def test_hashes_of_lists_are_java_s(lists: list[list[str | None]], skipped: int) -> None:
    array = pa.array([*[["left out"]] * skipped, *lists], pa.list_(pa.string())).slice(skipped)
    expected = [reduce(lambda h, text: (31 * h + _java_hash(text)) % 2**32, texts, 1) for texts in lists]
    assert list_hashes(array).tolist() == expected


def test_hashes_ignore_number_of_strings() -> None:
    strings = pa.array([f"{number}é😀" if number % 3 else None for number in range(150_000)])
    chosen = [0, 1, 65_535, 65_536, 149_999]
    assert string_hashes(strings)[chosen].tolist() == [_java_hash(strings[row].as_py()) for row in chosen]


@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1))
def test_key_values_ignore_other_keys(rows: list[tuple[str, str]]) -> None:
    keys = pa.array([f"a:{one},b:{two}" for one, two in rows])
    together = hash_values(keys, ["a", "b"], ["a", "b"]).to_pylist()
    assert together == [hash_values(pa.array([key.as_py()]), ["a", "b"], ["a", "b"])[0].as_py() for key in keys]


@given(st.lists(st.tuples(st.text("xé😀 :_", min_size=1), st.none() | st.text("xé😀 ,_")), min_size=1))
def test_key_values_round_trip(rows: list[tuple[str, str | None]]) -> None:
    ones, twos = (pa.array(column, pa.string()) for column in zip(*rows, strict=True))
    records = pa.table({"a": ones, "b": twos})
    keys = KeyGenerator(("a", "b"), (), hive_style=False, url_encode=False).record_keys(records)
    assert hash_values(keys, ["b"], ["a", "b"]).to_pylist() == [[row[1]] for row in rows]


@pytest.mark.parametrize("key", ["a,b", "a:b", "https://host:80/?a,b", "id", "x:1,y:2"])
def test_single_column_key_is_hashed_whole(key: str) -> None:
    assert hash_values(pa.array([key]), ["id"], ["id"]).to_pylist() == [[key]]


def test_file_ids_name_their_bucket() -> None:
    file_id = new_bucket_file_id(7)
    assert file_id.startswith("00000007-")
    assert file_id.endswith("-0")
    assert file_id != new_bucket_file_id(7)
    fixed, of_a_rescaling = "00000012-0000-0000-0000-000000000000-0", "00000012-c557-4b1f-9b1f-38da8e01a7a0"
    assert [bucket_of_file_id(name) for name in (file_id, fixed, of_a_rescaling)] == [7, 12, 12]


@pytest.mark.parametrize(
    "file_id", ["0a000012-c557-4b1f-9b1f-38da8e01a7a0-0", "00000012", "٠٠٠٠٠٠١٢-c557-4b1f-9b1f-38da8e01a7a0-0"]
)
def test_other_file_ids_name_none(file_id: str) -> None:
    assert bucket_of_file_id(file_id) is None


def _java_hash(text: str | None) -> int:
    units = "" if text is None else text
    octets = units.encode("utf-16-be")
    return reduce(lambda h, at: (31 * h + octets[at] * 256 + octets[at + 1]) % 2**32, range(0, len(octets), 2), 0)
