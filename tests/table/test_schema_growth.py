"""The types of a table grow by writes, and every read brings older files into the newest types."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rli import SchemaError, Table, create_table
from tests.support.growing_rows import NARROW, WIDE, as_wide, narrow, wide
from tests.support.tables import check_stored, fingerprint

EXPECTED = [*as_wide(narrow(["a"])), *wide(["b", "c"]).to_pylist(), *as_wide(narrow(["e", "f"], "y"))]


@pytest.fixture(params=["lmdb://{}", "simple:", "global-simple:", "bloom:", "global-bloom:", "bucket:?buckets=2"])
def grown(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    """Partition x has wide files, y narrow ones."""
    url = request.param.format(tmp_path / "index")
    table = create_table(tmp_path / "t", record_key="id", partition_by="city", ordering="ts", index=url)
    table.upsert(narrow(["a", "b"]))
    table.upsert(narrow(["e", "f"], "y"))
    table.upsert(wide(["b", "c"]))
    return table


def rows_of(records: pa.Table) -> list[dict[str, Any]]:
    return records.sort_by("id").to_pylist()


def test_older_files_use_new_types(grown: Table) -> None:
    assert grown.schema == WIDE
    assert rows_of(grown.read()) == EXPECTED
    assert rows_of(grown.scan().to_batches().read_all()) == EXPECTED
    assert [row["id"] for row in rows_of(grown.read(filters="whole = 7"))] == ["a", "e", "f"]
    assert [row["id"] for row in rows_of(grown.read(filters="price < 2 and real > 1.0"))] == ["a", "e", "f"]
    assert [row["id"] for row in rows_of(grown.read(filters="whole > 1000000000000"))] == ["b", "c"]
    before = grown.read(as_of=grown.timeline()[1].time)
    assert before.schema == NARROW
    assert rows_of(before) == rows_of(pa.concat_tables([narrow(["a", "b"]), narrow(["e", "f"], "y")]))


def test_merges_rewrite_older_files(grown: Table) -> None:
    assert grown.upsert(narrow(["e"], "y", ts=0), missing="null").unchanged == 1
    assert grown.upsert(narrow(["e"], "y", ts=2), missing="null").updated == 1
    later = as_wide(narrow(["e"], "y", ts=2))
    assert rows_of(grown.read()) == [*EXPECTED[:3], *later, EXPECTED[4]]
    check_stored(grown)


def test_a_clustering_rewrites_older_files(grown: Table) -> None:
    if not grown.settings.index_url.startswith("bucket:"):
        grown.cluster()
        assert rows_of(grown.read()) == EXPECTED
        check_stored(grown)


def test_a_rollback_takes_new_types_back(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", record_key="id", partition_by="city", ordering="ts")
    table.upsert(narrow(["a", "b"]))
    instant = table.upsert(wide(["b", "c"])).instant
    assert instant is not None
    table.rollback(instant)
    assert table.schema == NARROW
    assert rows_of(table.read()) == rows_of(narrow(["a", "b"]))
    assert rows_of(table.get(["b"])) == rows_of(narrow(["b"]))


def test_point_reads_use_new_types(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", record_key="id", partition_by="city", ordering="ts")
    table.upsert(narrow(["a", "b"]))
    table.upsert(wide(["c"], "z"))
    assert rows_of(table.get(["a", "c"])) == [*as_wide(narrow(["a"])), *wide(["c"], "z").to_pylist()]


def test_structs_without_a_field(grown: Table) -> None:
    batch, before = narrow(["a"], ts=9), grown.timeline()
    with pytest.raises(SchemaError, match=r"fields=\['point.label', .*missing=\"null\""):
        grown.upsert(batch)
    with pytest.raises(SchemaError, match=r'missing="keep" keeps whole columns: fields='):
        grown.upsert(batch, missing="keep")
    assert grown.timeline() == before


REFUSED = [
    ("c", pa.int64(), pa.string(), "column=c table=int64 records=string"),
    ("c", pa.string(), pa.binary(), "column=c table=string records=binary"),
    ("c", pa.int32(), pa.date32(), "column=c table=int32 records=date32"),
    ("c", pa.decimal128(38, 0), pa.decimal128(38, 10), "no decimal of 38 digits"),
    ("c", pa.struct({"x": pa.int64()}), pa.struct({"x": pa.string()}), r"column=c\.x table=int64"),
    ("c", pa.list_(pa.int64()), pa.list_(pa.string()), r"column=c\.element table=int64"),
    ("c", pa.struct({"x": pa.int64()}), pa.struct({"x": pa.int64(), "X": pa.int64()}), r"column=c\.X"),
    ("c", pa.struct({"x": pa.int64()}), pa.struct({"X": pa.int64()}), r"column=c\.X table=c\.x"),
]


@pytest.mark.parametrize(("name", "stored", "arriving", "named"), REFUSED)
def test_other_changes_are_refused(
    trips: Table, name: str, stored: pa.DataType, arriving: pa.DataType, named: str
) -> None:
    def batch(kind: pa.DataType) -> pa.Table:
        return pa.table({"id": ["a"], "city": ["x"], "ts": [1], name: pa.nulls(1, kind)})

    trips.upsert(batch(stored))
    before = fingerprint(trips)
    with pytest.raises(SchemaError, match=named):
        trips.upsert(batch(arriving))
    assert fingerprint(trips) == before


def test_decimals_grow_to_hold_both(trips: Table) -> None:
    def batch(key: str, value: str, kind: pa.DataType) -> pa.Table:
        return pa.table({"id": [key], "city": ["x"], "ts": [1], "c": pa.array([Decimal(value)], kind)})

    trips.upsert(batch("a", "12345.67", pa.decimal128(7, 2)))
    trips.upsert(batch("b", "0.1234", pa.decimal128(5, 4)))
    assert trips.schema is not None
    assert trips.schema.field("c").type == pa.decimal128(9, 4)
    assert trips.read().sort_by("id")["c"].to_pylist() == [Decimal("12345.6700"), Decimal("0.1234")]
