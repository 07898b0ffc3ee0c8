"""Structs of Thrift's compact protocol, as Parquet's footers hold them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rli.hudi.thrift_compact import (
    BINARY,
    I32,
    I64,
    LIST,
    STRUCT,
    Elements,
    Struct,
    read_struct,
    structs_of,
    value_of,
    write_struct,
)


def footer(folder: Path) -> bytes:
    path = folder / "file.parquet"
    pq.write_table(pa.table({"id": list(range(40)), "tags": [["a", "b"]] * 40}), path, row_group_size=2)
    content = path.read_bytes()
    return content[-8 - int.from_bytes(content[-8:-4], "little") : -8]


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


def test_numbers_of_more_bits_are_errors() -> None:
    for kind, bits in ((I32, 32), (I64, 64)):
        least, greatest = -(1 << bits - 1), (1 << bits - 1) - 1
        for number in (least, greatest):
            assert read_struct(write_struct({1: (kind, number)}))[0] == {1: (kind, number)}
    for data in (write_struct({1: (I32, 1 << 31)}), b"\x16" + b"\xff" * 9 + b"\x7f\x00"):
        with pytest.raises(ValueError, match="too large"):
            read_struct(data)


def test_other_types_are_no_value() -> None:
    fields: Struct = {1: (I64, 5), 2: (LIST, Elements(I64, [5]))}
    for number, kind in ((1, I32), (3, I64)):
        with pytest.raises(ValueError, match="lacks"):
            value_of(fields, number, kind)
    with pytest.raises(ValueError, match="no structs"):
        structs_of(fields, 2)


@pytest.mark.parametrize("data", [b"\x1c" * 500, b"\x19\x99" * 500, b"\x16" + b"\xff" * 20, b"\x18\xff\xff\xff\x7fx"])
def test_hostile_bytes_are_an_error(data: bytes) -> None:
    with pytest.raises(ValueError, match="Thrift"):
        read_struct(data)
