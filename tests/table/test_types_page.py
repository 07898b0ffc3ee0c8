"""Each line of the page of types holds."""

from __future__ import annotations

import pyarrow as pa
import pytest

from rli import SchemaError, Table
from tests.support.tables import by_key, check_stored, fingerprint
from tests.support.types_page import HeldType, held_types, refused_types


def _batch(column: pa.Array, ts: int = 1) -> pa.Table:
    count = len(column)
    return pa.table({"id": [f"k{n}" for n in range(count)], "city": ["x"] * count, "ts": [ts] * count, "c": column})


@pytest.mark.parametrize("line", held_types(), ids=lambda line: line.text)
def test_held_types_come_back(trips: Table, line: HeldType) -> None:
    batch = _batch(line.column())
    trips.upsert(batch)
    # One file has records of both writes: some are read again and written again.
    trips.upsert(_batch(line.column(), ts=2).slice(0, 1))
    read = trips.read()
    assert read.schema.field("c").type == line.stored
    assert trips.schema == read.schema
    found = by_key(read.to_pylist())
    assert [found[f"k{n}"]["c"] for n in range(batch.num_rows)] == [*line.returned, None]
    assert trips.get(["k0"]).column("c").to_pylist() == line.returned[:1]
    check_stored(trips)


@pytest.mark.parametrize("kind", refused_types(), ids=str)
def test_refused_types_name_the_column(trips: Table, kind: pa.DataType) -> None:
    before = fingerprint(trips)
    with pytest.raises(SchemaError, match=r"column='?money.*; \w+"):
        trips.upsert(_batch(pa.nulls(1, kind)).rename_columns(["id", "city", "ts", "money"]))
    nested = pa.StructArray.from_arrays([pa.nulls(1, kind)], ["x"])
    with pytest.raises(SchemaError, match=r"column='?money\.x.*; \w+"):
        trips.upsert(_batch(nested).rename_columns(["id", "city", "ts", "money"]))
    assert fingerprint(trips) == before


def test_the_page_has_all_lines() -> None:
    assert len(held_types()) >= 35
    assert len(refused_types()) >= 13
