"""Rows that are cut out of Parquet files by their pages, beside the same rows of the whole column."""

from __future__ import annotations

import decimal
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rli.hudi.page_cuts import PageCuts, Read
from rli.hudi.thrift_compact import I32, LIST, STRUCT, Elements, Struct, read_struct, write_struct

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


def written(rows: pa.Table, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, row_group_size=1_100, **{**PAGES, **options})
    content: bytes = sink.getvalue().to_pybytes()
    return content


def reads(content: bytes) -> Read:
    return lambda ranges: [content[place.start : place.stop] for place in ranges]


def cut(content: bytes, row_group: int, names: Sequence[str], rows: Sequence[int]) -> pa.Table:
    cuts = PageCuts.of(pq.read_metadata(pa.BufferReader(content)))
    return cuts.rows(reads(content), row_group, names, np.array(rows))


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("compression", ["zstd", "snappy", "none"])
def test_rows_equal_those_of_columns(version: str, compression: str) -> None:
    content = written(table(), data_page_version=version, compression=compression, write_page_checksum=True)
    whole = pq.ParquetFile(pa.BufferReader(content))
    cuts = PageCuts.of(whole.metadata)
    names = [name for name in whole.schema_arrow.names if name not in {"place", "tags"}]
    rng = np.random.default_rng(3)
    for row_group in range(3):
        expected = whole.read_row_group(row_group, names)
        some = np.sort(rng.choice(expected.num_rows, 5, replace=False))
        for rows in (some, np.array([0]), np.array([255, 256]), np.array([expected.num_rows - 1])):
            assert cuts.rows(reads(content), row_group, names, rows) == expected.take(pa.array(rows))


@pytest.mark.parametrize("name", ["place", "tags", "x", "nobody"])
def test_nested_columns_are_not_cut(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        cut(written(table()), 0, [name], [1])


@pytest.mark.parametrize("options", [{"store_schema": True}, {"write_page_index": False}])
def test_some_files_are_not_cut(options: dict[str, bool]) -> None:
    with pytest.raises(ValueError, match="column"):
        cut(written(table(), **options), 0, ["id"], [1])


def test_rows_beyond_the_end_are_errors() -> None:
    with pytest.raises(ValueError, match="1100"):
        cut(written(table()), 0, ["id"], [1_100])


def test_all_columns_take_two_reads() -> None:
    content, calls = written(table()), list[int]()
    names = [name for name in table().column_names if name not in {"place", "tags"}]
    cuts = PageCuts.of(pq.read_metadata(pa.BufferReader(content)))

    def read(ranges: Sequence[range]) -> Sequence[bytes]:
        calls.append(len(ranges))
        return reads(content)(ranges)

    cuts.rows(read, 0, names, np.array([5, 700]))
    # Offset indexes first; where pages are is known the second time.
    assert calls[:1] == [len(names)]
    assert len(calls) == 2
    cuts.rows(read, 0, names, np.array([900]))
    assert len(calls) == 3


def few_numbers() -> pa.Table:
    # Pages that differ in nothing but their values, so that any of them is read as any other one.
    return pa.table({"n": pa.array(np.arange(40), pa.int32())})


def require_right(content: bytes, row: int) -> bool:
    """Read a row of a damaged file; whether it could be read."""
    try:
        found = cut(content, 0, ["n"], [row])
    except (ValueError, OSError, pa.ArrowException):
        return False
    if found["n"].to_pylist() != [row]:
        # Who reads the whole column reads the same: no checksum covers the header of a page.
        assert pq.read_table(pa.BufferReader(content))["n"][row].as_py() == found["n"][0].as_py()
    return True


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_no_damaged_bit_gives_other_rows(version: str) -> None:
    content = written(
        few_numbers(), max_rows_per_page=10, data_page_version=version, use_dictionary=False, write_page_checksum=True,
        write_statistics=False, compression="none",
    )  # fmt: skip
    fields, _ = read_struct(content[-8 - int.from_bytes(content[-8:-4], "little") : -8])
    chunk = fields[4][1].values[0][1][1].values[0]
    index = range(chunk[4][1], chunk[4][1] + chunk[5][1])
    second_page = read_struct(content[index.start : index.stop])[0][1][1].values[1][1][1]
    assert require_right(content, 15)
    for place in [*index, *range(second_page, second_page + 24)]:
        for bit in range(8):
            damaged = bytearray(content)
            damaged[place] ^= 1 << bit
            require_right(bytes(damaged), 15)


def with_footer(content: bytes, change: Callable[[Struct], object]) -> bytes:
    """A file whose footer is changed."""
    length = int.from_bytes(content[-8:-4], "little")
    fields, _ = read_struct(content[-8 - length : -8])
    change(fields)
    footer = write_struct(fields)
    return content[: -8 - length] + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def test_leaves_may_count_their_children() -> None:
    def count(fields: Struct) -> None:
        for element in fields[2][1].values[1:]:
            element[5] = I32, 0

    content = with_footer(written(few_numbers(), max_rows_per_page=10), count)
    assert pq.read_table(pa.BufferReader(content)).num_rows == 40
    assert cut(content, 0, ["n"], [15])["n"].to_pylist() == [15]


INDEXES: dict[str, Struct] = {
    "a number of 70 bits": {1: (LIST, Elements(STRUCT, [{1: (6, 4), 2: (I32, 2**33), 3: (6, 0)}]))},
    "a string for a number": {1: (LIST, Elements(STRUCT, [{1: (8, b"4"), 2: (I32, 9), 3: (6, 0)}]))},
    "numbers for pages": {1: (LIST, Elements(I32, [1, 2, 3]))},
    "no page": {1: (LIST, Elements(STRUCT, []))},
    "nothing": {},
}


@pytest.mark.parametrize("index", INDEXES.values(), ids=INDEXES)
def test_wrong_offset_indexes_are_errors(index: Struct) -> None:
    content = written(few_numbers(), max_rows_per_page=10)
    place = pq.read_metadata(pa.BufferReader(content)).row_group(0).column(0).total_compressed_size
    raw = write_struct(index)

    def change(fields: Struct) -> None:
        chunk = fields[4][1].values[0][1][1].values[0]
        chunk[4], chunk[5] = (6, 4 + place), (I32, len(raw))

    damaged = bytearray(with_footer(content, change))
    damaged[4 + place : 4 + place + len(raw)] = raw
    with pytest.raises(ValueError):  # noqa: PT011  (each says something else)
        cut(bytes(damaged), 0, ["n"], [1])


def test_footers_of_many_chunks_are_errors() -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(few_numbers(), sink, row_group_size=1)
    metadata = pq.read_metadata(pa.BufferReader(sink.getvalue()))
    PageCuts.of(metadata)
    for _ in range(7):
        metadata.append_row_groups(metadata)
    with pytest.raises(ValueError, match="too many"):
        PageCuts.of(metadata)
