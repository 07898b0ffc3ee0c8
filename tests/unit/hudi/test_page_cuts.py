"""Rows that are cut out of Parquet files by their pages, beside the same rows of the whole column."""

from __future__ import annotations

import decimal
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rli.hudi.page_cuts import PageCuts, read_footer

ROWS = 3_000
PAGES = {"write_page_index": True, "max_rows_per_page": 256, "store_schema": False}


def table() -> pa.Table:
    rng = np.random.default_rng(7)
    numbers = rng.integers(0, 1_000_000, ROWS)
    return pa.table(
        {
            "id": [f"key-{number}" for number in numbers],
            "city": pa.array([None if number % 5 == 0 else f"city-{number % 9}" for number in numbers]),
            "fare": rng.random(ROWS),
            "wide": ["x" * int(number % 3_000) for number in numbers],
            "flag": numbers % 2 == 0,
            "at": [datetime(2024, 5, 1, tzinfo=UTC) + timedelta(seconds=int(number)) for number in numbers],
            "price": [decimal.Decimal(int(number)) / 100 for number in numbers],
            "nothing": pa.nulls(ROWS, pa.int32()),
            "place": [{"x": int(number), "y": None} for number in numbers],
            "tags": [["a"] * int(number % 3) for number in numbers],
        }
    )


def cuts(path: Path, rows: pa.Table, **options: Any) -> tuple[PageCuts, pa.NativeFile]:
    pq.write_table(rows, path, row_group_size=1_100, **options)
    source = pa.OSFile(str(path))
    footer = read_footer(source)
    assert footer is not None
    found = PageCuts.of(footer, 1)
    assert found is not None
    return found, source


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("compression", ["zstd", "snappy", "none"])
def test_rows_equal_those_of_columns(tmp_path: Path, version: str, compression: str) -> None:
    path = tmp_path / "file.parquet"
    found, source = cuts(
        path, table(), **PAGES, data_page_version=version, compression=compression, write_page_checksum=True
    )
    whole = pq.ParquetFile(path)
    names = [name for name in whole.schema_arrow.names if name not in {"place", "tags"}]
    rng = np.random.default_rng(3)
    for row_group in range(3):
        expected = whole.read_row_group(row_group, names)
        some = np.sort(rng.choice(expected.num_rows, 5, replace=False))
        for rows in (some, np.array([0]), np.array([255, 256]), np.array([expected.num_rows - 1])):
            assert found.rows(source, row_group, names, rows) == expected.take(pa.array(rows))
    source.close()


def test_nested_columns_are_not_cut(tmp_path: Path) -> None:
    found, source = cuts(tmp_path / "file.parquet", table(), **PAGES)
    for name in ("place", "tags", "x", "nobody"):
        assert found.rows(source, 0, [name], np.array([1])) is None
    source.close()


def test_types_of_arrow_are_not_cut(tmp_path: Path) -> None:
    found, source = cuts(tmp_path / "file.parquet", table(), **{**PAGES, "store_schema": True})
    assert found.rows(source, 0, ["id"], np.array([1])) is None
    source.close()


def test_files_without_index_are_not_cut(tmp_path: Path) -> None:
    found, source = cuts(tmp_path / "file.parquet", table(), store_schema=False)
    assert found.rows(source, 0, ["id"], np.array([1])) is None
    source.close()


def test_rows_beyond_the_end_are_none(tmp_path: Path) -> None:
    found, source = cuts(tmp_path / "file.parquet", table(), **PAGES)
    assert found.rows(source, 0, ["id"], np.array([1_100])) is None
    source.close()


def test_no_footer_is_found_elsewhere() -> None:
    for content in (b"", b"PAR1", b"PAR1\xff\xff\xff\x7fPAR1", b"x" * 100, b"PAR1\x00\x00\x00\x00PARE"):
        assert read_footer(pa.BufferReader(content)) is None
    assert PageCuts.of(pa.py_buffer(b"\x15\x04"), 1) is None
