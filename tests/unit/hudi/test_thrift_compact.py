"""Structs of Thrift's compact protocol, as Parquet's footers hold them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rli.hudi.page_cuts import read_footer
from rli.hudi.thrift_compact import BINARY, I32, I64, LIST, STRUCT, Elements, Struct, read_struct, write_struct


def footer(folder: Path) -> bytes:
    path = folder / "file.parquet"
    pq.write_table(pa.table({"id": list(range(40)), "tags": [["a", "b"]] * 40}), path, row_group_size=2)
    with pa.OSFile(str(path)) as file:
        found = read_footer(file)
    assert found is not None
    return found.to_pybytes()


def test_a_footer_is_written_as_read(tmp_path: Path) -> None:
    data = footer(tmp_path)
    fields, end = read_struct(data)
    assert end == len(data)
    assert write_struct(fields) == data


@pytest.mark.parametrize("number", [0, 1, -1, 63, -64, 2**31, 2**63 - 1, -(2**63)])
def test_numbers_are_read_as_written(number: int) -> None:
    fields: Struct = {1: (I64, number), 40: (I32, 7), 41: (LIST, Elements(BINARY, [b"x"] * 20)), 42: (STRUCT, {})}
    assert read_struct(write_struct(fields))[0] == fields


def test_each_cut_is_an_error(tmp_path: Path) -> None:
    data = footer(tmp_path)
    for end in range(0, len(data), 211):
        with pytest.raises(ValueError, match="Thrift"):
            read_struct(data[:end])


@pytest.mark.parametrize("data", [b"\x1c" * 500, b"\x19\x99" * 500, b"\x16" + b"\xff" * 20, b"\x18\xff\xff\xff\x7fx"])
def test_hostile_bytes_are_an_error(data: bytes) -> None:
    with pytest.raises(ValueError, match="Thrift"):
        read_struct(data)
