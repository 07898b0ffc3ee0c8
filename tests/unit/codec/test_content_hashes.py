"""Rows of equal content have equal hashes, in any order, and in every version."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from rli.codec.content_hashes import content_hashes

_VALUES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.string(), ["", "a", "b", "a" * 5_000, "é" * 15]),
    (pa.binary(), [b"", b"\xff\xfe", b"\xff\xfd", b"a"]),
    (pa.bool_(), [True, False]),
    (pa.int8(), [-1, 0, 1]),
    (pa.int64(), [-(2**63), 0, 2**63 - 1]),
    (pa.float32(), [0.0, 0.5, float("inf")]),
    (pa.float64(), [0.0, 1e-300, float("nan"), float("-inf")]),
    (pa.decimal128(38, 3), [Decimal("0.001"), Decimal("-0.001"), Decimal(10**30)]),
    (pa.date32(), [date(1, 1, 1), date(2024, 2, 29)]),
    (pa.time64("us"), [time(0, 0), time(23, 59)]),
    (pa.timestamp("us"), [datetime(1970, 1, 1), datetime(2024, 1, 1)]),  # noqa: DTZ001  (Spark's timestamps without a zone)
    (pa.timestamp("us", "UTC"), [datetime(1970, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC)]),
    (pa.duration("us"), [timedelta(0), timedelta(days=1)]),
    (pa.list_(pa.int32()), [[], [1], [1, 2], [None]]),
    (pa.struct([("x", pa.int32()), ("y", pa.string())]), [{"x": 1, "y": None}, {"x": None, "y": "1"}]),
    (pa.map_(pa.string(), pa.int32()), [[], [("a", 1)], [("a", 2)]]),
]


@pytest.mark.parametrize(("kind", "values"), _VALUES, ids=[str(kind) for kind, _ in _VALUES])
def test_equal_rows_alone_share_hashes(kind: pa.DataType, values: list[Any]) -> None:
    column = pa.array([*values, None], kind)
    found = content_hashes(pa.table({"value": column})).tolist()
    assert len(set(found)) == len(values) + 1
    # In another order, and in chunks that begin within a buffer.
    turned = pa.chunked_array([column.slice(2), column.slice(0, 2)])
    assert content_hashes(pa.table({"value": turned})).tolist() == [*found[2:], *found[:2]]


def test_swapped_column_values_change_hash() -> None:
    rows = pa.table({"x": [1, 2, None], "y": [2, 1, 1]})
    assert len(set(content_hashes(rows).tolist())) == 3
