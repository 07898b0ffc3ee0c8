"""Records with a column of every type that a table holds."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

_POINT: Final = pa.struct([("lat", pa.float64()), ("label", pa.string())])

SCHEMA: Final = pa.schema(
    [
        ("id", pa.string()),
        ("flag", pa.bool_()),
        ("tiny", pa.int8()),
        ("small", pa.uint16()),
        ("whole", pa.int32()),
        ("big", pa.int64()),
        ("single", pa.float32()),
        ("double", pa.float64()),
        ("text", pa.large_string()),
        ("raw", pa.binary()),
        ("day", pa.date32()),
        ("moment", pa.timestamp("us", tz="UTC")),
        ("elsewhere", pa.timestamp("us", tz="Europe/Oslo")),
        ("millis", pa.timestamp("ms", tz="UTC")),
        ("price", pa.decimal128(10, 2)),
        ("huge", pa.decimal128(38, 10)),
        ("list", pa.list_(pa.int64())),
        ("point", _POINT),
        ("map", pa.map_(pa.string(), pa.decimal128(6, 3))),
        ("nested", pa.list_(pa.struct([("when", pa.timestamp("us", tz="UTC")), ("points", pa.list_(_POINT))]))),
        ("category", pa.dictionary(pa.int32(), pa.string())),
    ]
)


def _row(key: str, number: int) -> dict[str, Any]:
    moment = (
        datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
        if number < 0
        else datetime(2024, 5, 1, 12, 0, 0, number, tzinfo=UTC)
    )
    point = {"lat": 59.5 + number, "label": "hjem 😀"}
    return {
        "id": key,
        "flag": number > 0,
        "tiny": number,
        "small": abs(number),
        "whole": number * 2**20,
        "big": number * 2**50,
        "single": number / 4,
        "double": number / 3,
        "text": "ä\n\0" * abs(number),
        "raw": bytes([0, 255, abs(number)]),
        "day": date(1969, 12, 31) if number < 0 else date(2024, 2, 29),
        "moment": moment,
        "elsewhere": moment,
        "millis": moment.replace(microsecond=5_000),
        "price": Decimal(number).scaleb(-2),
        "huge": Decimal("1234567890123456789012345678.0123456789") * (1 if number > 0 else -1),
        "list": [number, None, 0],
        "point": point,
        "map": {"a": Decimal("1.500"), "ü": None},
        "nested": [{"when": moment, "points": [point, None]}, None],
        "category": "x",
    }


def every_type() -> pa.Table:
    """Three records: ordinary ones, and one with nulls in every column but its key."""
    return pa.Table.from_pylist([_row("a", 3), _row("b", -2), {"id": "nulls"}], SCHEMA)


def every_type_changed() -> pa.Table:
    """The records with nulls filled in, and a new one."""
    return pa.Table.from_pylist([_row("nulls", 1), _row("c", 4)], SCHEMA)
