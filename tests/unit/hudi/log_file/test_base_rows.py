"""Positions in a base file come back as they were written, or not at all."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from rli.hudi.log_file.base_rows import UNKNOWN, BaseRows

GREATEST = 2**31 - 2
POSITIONS = st.lists(st.integers(UNKNOWN, GREATEST), min_size=1, max_size=50)


@given(positions=POSITIONS)
@example([UNKNOWN, GREATEST, UNKNOWN])
def test_positions_come_back(positions: list[int]) -> None:
    told = BaseRows("f-0_1-2-3_20250101000000000.parquet", np.array(positions, np.int64))
    footer = {name.encode(): value.encode() for name, value in told.to_footer().items()}
    for found in (
        BaseRows.from_footer(footer, len(positions)),
        BaseRows.from_tail(told.to_tail(), len(positions)),
    ):
        assert found is not None
        assert (found.file_name, found.rows.tolist()) == (told.file_name, positions)


@given(positions=POSITIONS, place=st.integers(0, 10_000), byte=st.integers(1, 255))
def test_damaged_positions_are_not_told(positions: list[int], place: int, byte: int) -> None:
    tail = BaseRows("f", np.array(positions, np.int64)).to_tail()
    damaged = bytearray(tail)
    damaged[place % len(tail)] ^= byte
    found = BaseRows.from_tail(bytes(damaged), len(positions))
    assert found is None or (found.rows.tolist() == positions)


def test_other_records_have_none() -> None:
    tail = BaseRows("f", np.array([3, 4], np.int64)).to_tail()
    assert [BaseRows.from_tail(tail, records) for records in (0, 1, 3)] == [None] * 3
    assert BaseRows.from_tail(b"", 0) is None
    assert BaseRows.from_footer(None, 2) is None


def test_great_positions_are_left_out() -> None:
    told = BaseRows("f", np.array([GREATEST + 1], np.int64))
    assert (told.to_footer(), told.to_tail()) == ({}, b"")
