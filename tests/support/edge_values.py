"""Values at the edges of types, and a table of them that rli has changed in all ways."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from rli import Table, TableType, create_table
from tests.support.tables import turn_into_version_9

_LONG = "x" * 6000
EDGES: dict[str, list[Any]] = {
    "string": ["", "a", "b", "\uffff", "\U00010000", _LONG, _LONG + "a"],
    "double": [0.0, 1.0, -1.5, 5.0, 7.0, 1999.0],
    "float": [0.0, 1.0, -1.5, 5.0],
    "int64": [0, 1, -1, 2**53],
    "int32": [0, 1, -1],
    "date32[day]": [dt.date(1, 1, 1), dt.date(1582, 10, 10), dt.date(2024, 1, 1)],
    "timestamp[us, tz=UTC]": [dt.datetime(1500, 1, 1, tzinfo=dt.UTC), dt.datetime(2024, 1, 1, tzinfo=dt.UTC)],
    "decimal128(12, 2)": [Decimal("0.00"), Decimal("-3.99")],
}
"""Type of a column → values at its edges."""
_TYPES: dict[str, pa.DataType] = {
    str(kind): kind
    for kind in (
        *(pa.string(), pa.float64(), pa.float32(), pa.int64(), pa.int32(), pa.date32()),
        *(pa.timestamp("us", "UTC"), pa.decimal128(12, 2)),
    )
}


def table_after_all_changes(folder: Path, version: int, table_type: TableType) -> Table:
    """A table of version 6 or 9 whose metadata table has followed changes of all kinds, and a column that came later."""
    table = create_table(
        folder, record_key="id", partition_by="city", ordering="ts", index="global-simple:", table_type=table_type
    )
    if version == 9:
        turn_into_version_9(table)
    table.metadata.enable(["files", "column_stats", "partition_stats", "bloom_filters"])
    table.upsert(_records(range(24), ts=1))
    table.upsert(_records(range(20, 32), ts=2))
    saved = table.history()[0].time
    table.delete(["1", "14", "27"])
    table.cluster()
    table.upsert(_records(range(0, 30, 7), ts=5))
    table.restore(saved)
    table.upsert(_records(range(30, 42), ts=6).append_column("late", pa.array([None, *range(11)], pa.int64())))
    table.cluster()
    table.upsert(_records(range(31, 45, 3), ts=7), missing="keep")
    table.upsert(_records([2, 9, 44], ts=8), missing="null")
    table.rollback("last")
    table.delete(["3", "33"])
    assert table.metadata.verify() == ()
    return table


def _records(numbers: Iterable[int], ts: int) -> pa.Table:
    """Records with values at the edges of all types, nulls and NaN among them."""
    kinds = {name: [*values, None] for name, values in EDGES.items()}
    kinds["double"] += [float("nan"), -0.0]
    given = [*numbers]
    columns = {
        f"c{place}": pa.array([values[number * (place + 1) % len(values)] for number in given], _TYPES[name])
        for place, (name, values) in enumerate(kinds.items())
    }
    known = {
        "id": pa.array([*map(str, given)]),
        "city": pa.array([f"city {number % 4}" for number in given]),
        "ts": pa.array([ts] * len(given), pa.int64()),
    }
    return pa.table({**known, **columns})
