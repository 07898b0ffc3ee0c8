"""Rows at some positions are those that Arrow takes, and no strings are copied twice."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from rli.file_group import work_rows

KEYS = pa.array(["a", "bé", None, "", "e"])


def chunked(*arrays: pa.Array) -> pa.ChunkedArray:
    return pa.chunked_array([*arrays])


ROWS = pa.table(
    {
        "key": chunked(KEYS.slice(0, 2), KEYS.slice(2)),
        "same": chunked(KEYS.slice(0, 2), KEYS.slice(2)),
        "cut differently": chunked(KEYS.slice(0, 1), KEYS.slice(1)),
        "reversed": chunked(KEYS.slice(2), KEYS.slice(0, 2)),
        "equal": pa.array(KEYS.to_pylist()),
        "none": pa.nulls(5, pa.string()),
        "empty": pa.array([""] * 5),
        "large": KEYS.cast(pa.large_string()),
        "word": pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, 1, 0], pa.int32()), ["x", "y"]),
        "other word": pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, 1, 0], pa.int32()), ["y", "x"]),
        "list": pa.array([[1], [], None, [2, 3], [4]]),
        "number": pa.array([1, 2, None, 4, 5]),
    }
)


@pytest.mark.parametrize("positions", [[4, 0, 0, 2], [], [3]])
@pytest.mark.parametrize("rows", [ROWS, ROWS.slice(0, 0)], ids=["some", "none"])
def test_rows_at_positions(positions: list[int], rows: pa.Table) -> None:
    wanted = np.array(positions if rows.num_rows else [], np.int64)
    assert work_rows.rows_at(rows, wanted) == rows.take(pa.array(wanted))


def test_shared_strings_are_copied_once() -> None:
    taken = work_rows.rows_at(ROWS, np.array([4, 1]))
    assert taken["key"].chunk(0).buffers()[2].address == taken["same"].chunk(0).buffers()[2].address
    assert taken["key"].chunk(0).buffers()[2].address != taken["equal"].chunk(0).buffers()[2].address
