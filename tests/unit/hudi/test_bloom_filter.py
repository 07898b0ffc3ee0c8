from __future__ import annotations

import base64
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rli.errors import CorruptTableError
from rli.hudi.bloom_filter import FILTER_KEY, TYPE_KEY, BloomFilter
from tests.support.hudi_tables import hudi_table_names, unzip_hudi_table
from tests.support.soak import cases

KEYS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
FOREIGN = pa.array([f"foreign-{number}" for number in range(2_000)])


def footer(bloom_filter: BloomFilter) -> dict[bytes, bytes]:
    return {key.encode(): value.encode() for key, value in bloom_filter.to_footer().items()}


@settings(max_examples=cases(50))
@given(st.lists(KEYS, max_size=40), st.lists(KEYS, max_size=10))
def test_no_key_is_denied(first: list[str], second: list[str]) -> None:
    bloom_filter = BloomFilter.create(len(first), 1e-3)
    bloom_filter.add(pa.array(first, pa.string()))
    read = BloomFilter.from_footer(footer(bloom_filter), "x.parquet")
    assert read is not None
    read.add(pa.chunked_array([pa.array(second, pa.large_string())]))
    assert read.might_contain(pa.array(first + second, pa.string())).all()


def test_nulls_and_slices() -> None:
    bloom_filter = BloomFilter.create(10)
    keys = pa.array(["a", None, "bc", "d" * 70_000, "é😀"])
    bloom_filter.add(keys.slice(1))
    assert bloom_filter.might_contain(keys).tolist() == [False, False, True, True, True]
    assert bloom_filter.might_contain(keys.slice(2, 2)).tolist() == [True, True]
    assert bloom_filter.might_contain(pa.array([], pa.string())).tolist() == []


@pytest.mark.parametrize("keys", [["key-0001"], ["abcd", "efgh"], ["key-0001", "key-0002"]], ids=str)
def test_hashing_leaves_keys_alone(keys: list[str]) -> None:
    # Keys of one length are hashed where they are.
    column = pa.array(keys)
    bloom_filter = BloomFilter.create(2)
    bloom_filter.add(column)
    assert bloom_filter.might_contain(column).all()
    assert column.to_pylist() == keys


def test_positions_ignore_batch_size() -> None:
    keys = pa.array([f"ключ-{number:04d}{'x' * (number % 5)}" for number in range(500)])
    together, one_by_one = BloomFilter.create(500), BloomFilter.create(500)
    together.add(keys)
    for start in range(0, 500, 5):
        one_by_one.add(keys.slice(start, 5))
    assert np.array_equal(together.rows, one_by_one.rows)


@pytest.mark.parametrize("most_hashes", [None, 4, 1])
def test_hardly_any_foreign_key_is_claimed(most_hashes: int | None) -> None:
    bloom_filter = BloomFilter.create(1_000, 1e-2, most_hashes)
    bloom_filter.add(pa.array([f"key-{number}" for number in range(1_000)]))
    assert bloom_filter.might_contain(FOREIGN).mean() < 0.02


@pytest.mark.parametrize("most_hashes", [None, 10, 4, 1])
def test_room_shrinks(most_hashes: int | None) -> None:
    bloom_filter = BloomFilter.create(1_000, 1e-3, most_hashes)
    assert 990 <= bloom_filter.room(1e-3) <= 1_010
    bloom_filter.add(pa.array([f"key-{number}" for number in range(600)]))
    assert 370 <= bloom_filter.room(1e-3) <= 430
    bloom_filter.add(FOREIGN)
    assert bloom_filter.room(1e-3) < 0


def test_hudis_default_size() -> None:
    bloom_filter = BloomFilter.create(60_000, 1e-9)
    assert (bloom_filter.hash_count, bloom_filter.bit_count) == (30, 2_587_966)


@pytest.mark.parametrize("name", ["sample_table/cow/v6_nonpartitioned", "sample_table/cow/v9_txns_complex_nometa"])
def test_hudi_filters_equal_ours(tmp_path: Path, name: str) -> None:
    files = sorted(unzip_hudi_table(name, tmp_path).rglob("*.parquet"))
    assert files
    for path in files:
        theirs = BloomFilter.from_footer(pq.read_metadata(path).metadata, path.name)
        assert theirs is not None
        keys = pq.read_table(path, columns=["_hoodie_record_key"]).column(0)
        assert theirs.might_contain(keys).all()
        assert not theirs.might_contain(FOREIGN).any()
        ours = BloomFilter.create(60_000, 1e-9)
        ours.add(keys)
        assert np.array_equal(ours.rows, theirs.rows)
        # A writer that adds keys asks for two numbers, which readers do not.
        assert _without_counts(_entries(pq.read_metadata(path).metadata)) == _without_counts(footer(ours))


def test_hudi_filter_of_several_rows() -> None:
    """Of the keys ``käse 0`` to ``käse 74``, by Hudi 1.2.0: 20 in a row, and rows for no more than 60."""
    text = Path(__file__).parents[2].joinpath("data/golden/dynamic-filter-by-hudi.json").read_bytes()
    metadata = {key.encode(): value.encode() for key, value in json.loads(text).items()}
    theirs = BloomFilter.from_footer(metadata, "x.parquet")
    assert theirs is not None
    assert len(theirs.rows) == 3
    assert theirs.might_contain(pa.array([f"käse {number}" for number in range(75)])).all()
    assert not theirs.might_contain(FOREIGN).any()
    # A file that is rewritten without new keys has it as it is.
    assert _without_counts(footer(theirs)) == _without_counts(metadata)


def _entries(metadata: dict[bytes, bytes]) -> dict[bytes, bytes]:
    return {key.encode(): metadata[key.encode()] for key in (FILTER_KEY, TYPE_KEY)}


def _without_counts(metadata: dict[bytes, bytes]) -> tuple[bytes, bytes]:
    content = base64.b64decode(metadata[FILTER_KEY.encode()])
    return metadata[TYPE_KEY.encode()], content[:13] + content[21:]


def test_other_real_filters_hold_their_keys(tmp_path: Path) -> None:
    checked = 0
    for name in hudi_table_names("sample_table/cow/v[68]*"):
        for path in unzip_hudi_table(name, tmp_path / name).rglob("*.parquet"):
            bloom_filter = BloomFilter.from_footer(pq.read_metadata(path).metadata, path.name)
            assert (bloom_filter is None) == ("no_metafields" in name)
            if bloom_filter is not None:
                keys = pq.read_table(path, columns=["_hoodie_record_key"]).column(0)
                assert bloom_filter.might_contain(keys).all()
                checked += 1
    assert checked > 10


def test_dynamic_filter_covers_all_rows() -> None:
    dynamic = _of_two_rows()
    assert dynamic.room(1e-3) == 0
    keys = pa.array(["key-0", "key-1", "key-2"])
    again = BloomFilter.from_footer(footer(dynamic), "x.parquet")
    simple = BloomFilter.from_footer({FILTER_KEY.encode(): dynamic.to_simple()}, "x.parquet")
    for found, rows in ((dynamic, 2), (again, 2), (simple, 1)):
        assert found is not None
        assert len(found.rows) == rows
        assert found.might_contain(keys).tolist() == [True, True, False]


@pytest.mark.parametrize("kind", ["SIMPLE", "DYNAMIC_V0"])
def test_bytes_tell_the_type(kind: str) -> None:
    """Hudi's build of the metadata table names all filters by an option of the writer."""
    made = _of_two_rows()
    for content in (made.to_simple(), footer(made)[FILTER_KEY.encode()]):
        found = BloomFilter.from_footer({FILTER_KEY.encode(): content, TYPE_KEY.encode(): kind.encode()}, "x.parquet")
        assert found is not None
        assert found.might_contain(pa.array(["key-0", "key-1", "key-2"])).tolist() == [True, True, False]


def _of_two_rows() -> BloomFilter:
    parts = [BloomFilter.create(100), BloomFilter.create(100)]
    for number, part in enumerate(parts):
        part.add(pa.array([f"key-{number}"]))
    return BloomFilter(parts[0].hash_count, parts[0].bit_count, np.concatenate([part.rows for part in parts]))


def _damaged() -> list[dict[bytes, bytes]]:
    good = footer(BloomFilter.create(10))
    content = base64.b64decode(good[FILTER_KEY.encode()])
    contents = [
        b"",
        content[:5],
        content[:-1],
        content + b"\0",
        b"\0" * len(content),
        content[:8] + b"\2" + content[9:],
        content[:21] + b"\x7f" + content[22:],
        content[:27] + b"\1" + content[28:],
    ]
    damaged = [{**good, FILTER_KEY.encode(): base64.b64encode(content)} for content in contents]
    return [
        *damaged,
        {**good, FILTER_KEY.encode(): b"!not base64!"},
        {**good, TYPE_KEY.encode(): b"OTHER"},
    ]


@pytest.mark.parametrize("metadata", _damaged())
def test_damaged_filters_are_reported(metadata: dict[bytes, bytes]) -> None:
    with pytest.raises(CorruptTableError, match=r"file=x\.parquet"):
        BloomFilter.from_footer(metadata, "x.parquet")


def test_a_footer_without_filter() -> None:
    assert BloomFilter.from_footer({}, "x.parquet") is None


def test_arrow_reads_footer_with_large_filter(tmp_path: Path) -> None:
    bloom_filter = BloomFilter.create(10**9, 1e-9)
    keys = pa.array([f"key-{number}" for number in range(100)])
    bloom_filter.add(keys)
    assert bloom_filter.room(1e-9) > 10**8
    path = tmp_path / "x.parquet"
    with pq.ParquetWriter(path, pa.schema([("k", pa.string())])) as writer:
        writer.add_key_value_metadata(bloom_filter.to_footer())
    read = BloomFilter.from_footer(pq.read_metadata(path).metadata, path.name)
    assert read is not None
    assert read.might_contain(keys).all()


def test_filter_with_worse_rate_holds_less() -> None:
    rooms = [BloomFilter.create(1_000, made).room(1e-6) for made in (1e-3, 1e-6, 1e-9)]
    assert rooms[0] < 500
    assert 990 <= rooms[1] < rooms[2]


def test_single_and_bulk_additions_agree() -> None:
    keys = pa.array([f"key-{number}" for number in range(1_000)])
    together, apart = BloomFilter.create(100_000), BloomFilter.create(100_000)
    together.add(keys)
    for start in range(0, len(keys), 100):
        apart.add(keys.slice(start, 100))
    assert np.array_equal(together.rows, apart.rows)
