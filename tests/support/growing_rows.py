"""Records of a table before and after its types have grown."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa


def _schema(whole: pa.DataType, real: pa.DataType, price: pa.DataType, added: Sequence[pa.Field] = ()) -> pa.Schema:
    point = pa.struct([pa.field("n", whole), *added])
    return pa.schema(
        [
            ("id", pa.string()),
            ("city", pa.string()),
            ("ts", whole),
            ("whole", whole),
            ("real", real),
            ("price", price),
            ("point", point),
            ("points", pa.list_(pa.field("element", pa.struct([("p", point)])))),
            ("named", pa.map_(pa.string(), point)),
            ("wholes", pa.list_(pa.field("element", whole))),
        ]
    )


NARROW: Final = _schema(pa.int32(), pa.float32(), pa.decimal128(5, 2))
WIDE: Final = _schema(pa.int64(), pa.float64(), pa.decimal128(13, 4), [pa.field("label", pa.string())])


def narrow(keys: Sequence[str], city: str = "x", ts: int = 1) -> pa.Table:
    """Records of ``NARROW``."""
    return pa.Table.from_pylist([_row(key, city, ts, {"n": 7}, real=1.5, price="1.23") for key in keys], NARROW)


def wide(keys: Sequence[str], city: str = "x", ts: int = 2) -> pa.Table:
    """Records of ``WIDE`` with values that ``NARROW`` does not hold."""
    return pa.Table.from_pylist(
        [_row(key, city, 2**33 + ts, {"n": 2**40, "label": "x"}, real=0.1, price="123456789.1234") for key in keys],
        WIDE,
    )


def as_wide(records: pa.Table) -> list[dict[str, Any]]:
    """Records of ``NARROW`` as a table with the schema ``WIDE`` has them, by an independent way."""
    return [
        _row(row["id"], row["city"], row["ts"], {"n": 7, "label": None}, real=1.5, price="1.2300")
        for row in records.to_pylist()
    ]


def _row(key: str, city: str, ts: int, point: dict[str, Any], *, real: float, price: str) -> dict[str, Any]:
    whole = point["n"]
    return {
        "id": key,
        "city": city,
        "ts": ts,
        "whole": whole,
        "real": real,
        "price": Decimal(price),
        "point": point,
        "points": [{"p": point}, {"p": None}, None],
        "named": [("k", point), ("l", None)],
        "wholes": [whole, None],
    }
