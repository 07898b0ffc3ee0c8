"""Parquet's bloom filters of row groups, as pyarrow writes them and as we read them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rli.hudi.base_file_reader import BaseFileReader
from rli.hudi.row_group_filter import RowGroupFilter, xxh64
from rli.storage import Storage

KEYS = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)


def stored_filter(keys: list[str]) -> bytes:
    """What pyarrow writes for a row group of these keys."""
    sink = pa.BufferOutputStream()
    options = {"k": {"ndv": max(1, len(keys)), "fpp": 0.05}}
    pq.write_table(pa.table({"k": pa.array(keys, pa.string())}), sink, bloom_filter_options=options)
    content = sink.getvalue()
    chunk = pq.ParquetFile(content).metadata.row_group(0).column(0)
    return content.slice(chunk.bloom_filter_offset, chunk.bloom_filter_length).to_pybytes()


def read_filter(stored: bytes) -> RowGroupFilter:
    return RowGroupFilter(lambda start, size: stored[start : start + size], len(stored))


@given(st.lists(KEYS, min_size=1, max_size=60))
def test_no_stored_key_is_denied(keys: list[str]) -> None:
    row_filter = read_filter(stored_filter(keys))
    assert all(map(row_filter.may_hold, keys))


def test_most_other_keys_are_denied() -> None:
    row_filter = read_filter(stored_filter([f"k{number}" for number in range(5_000)]))
    assert sum(row_filter.may_hold(f"other{number}") for number in range(5_000)) < 500


def test_unknown_filter_denies_nothing() -> None:
    stored = stored_filter(["a"])
    assert not read_filter(stored).may_hold("b")
    header = stored.index(b"\x1c\x1c")
    other_hash = stored[:header] + stored[header:].replace(b"\x1c\x1c", b"\x1c\x2c", 1)
    for damaged in (b"", stored[:1], b"\x15" + b"\xff" * 20, stored[:-1], b"\x19" + stored[1:], other_hash):
        assert read_filter(damaged).may_hold("b")


@pytest.mark.parametrize(
    ("data", "hashed"),
    [(b"", 0xEF46DB3751D8E999), (b"a", 0xD24EC4F1A98C6E5B), (b"abc", 0x44BC2CF5AD770999)],
)
def test_hashes_as_the_specification_has_them(data: bytes, hashed: int) -> None:
    assert xxh64(data) == hashed


def test_filter_beyond_file_is_unused(tmp_path: Path) -> None:
    path, keys = tmp_path / "file.parquet", [f"k{number}" for number in range(60_000)]
    options = {"k": {"ndv": len(keys), "fpp": 0.05}}
    pq.write_table(pa.table({"k": keys}), path, bloom_filter_options=options)
    content, chunk = path.read_bytes(), pq.read_metadata(path).row_group(0).column(0)
    middle, lost = chunk.bloom_filter_offset + 1_000, chunk.bloom_filter_length // 2
    path.write_bytes(content[:middle] + content[middle + lost :])
    with BaseFileReader(Storage(str(tmp_path)), "file.parquet", path.stat().st_size) as reader:
        assert reader.row_group_filter(0, "k") is None


def test_a_column_without_a_filter(tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": ["a"]}), tmp_path / "file.parquet")
    with BaseFileReader(Storage(str(tmp_path)), "file.parquet", (tmp_path / "file.parquet").stat().st_size) as reader:
        assert reader.row_group_filter(0, "k") is None
