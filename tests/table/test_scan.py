"""Scans and reads: batches, tables and files of one state; what is asked for wrongly is refused with a reason."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from rli import (
    CorruptTableError,
    InstantNotFoundError,
    InvalidInputError,
    PrunedCounts,
    PruningStep,
    SchemaError,
    Table,
)
from rli.hudi.meta_columns import META_COLUMNS
from tests.support.tables import SCHEMA, records


@pytest.fixture
def filled(table: Table) -> Table:
    """Two commits, two partitions."""
    table.upsert(records(("a", "x", 1, 1.0), ("b", "y", 1, 2.0)))
    table.upsert(records(("b", "y", 2, 20.0), ("c", "y", 1, 3.0)))
    return table


def ids(table: pa.Table) -> list[str]:
    return sorted(table["id"].to_pylist())


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ("v > 2.5 and city = 'y'", ["b", "c"]),
        ("id in ('a', 'c') or v IS NULL", ["a", "c"]),
        (pc.field("v") < 2, ["a"]),
        ([("city", "=", "x")], ["a"]),
        (None, ["a", "b", "c"]),
        ("v > 100", []),
    ],
)
def test_batches_and_read_give_same_records(filled: Table, filters: Any, expected: list[str]) -> None:
    scan = filled.scan(columns=["id", "v"], filters=filters)
    assert scan.schema == pa.schema([("id", pa.string()), ("v", pa.float64())])
    assert ids(scan.to_table()) == expected
    assert scan.to_batches().read_all().to_pylist() == scan.to_table().to_pylist()
    assert filled.read(["id", "v"], filters).to_pylist() == scan.to_table().to_pylist()


def test_scan_files_suit_any_reader(filled: Table) -> None:
    files = filled.scan(filters="city = 'y'").files()
    assert len(files) == 1
    stored = pq.read_table(files[0], partitioning=None)
    assert set(META_COLUMNS) < set(stored.column_names)
    assert ids(stored) == ["b", "c"]
    assert filled.scan(filters="v > 1000").files() == []
    assert len(filled.scan().files()) == 2


def test_explanation_counts_files_of_each_step(table: Table) -> None:
    for city, value in (("x", 1.0), ("y", 2.0), ("z", 3.0)):
        table.upsert(records((f"k{value}", city, 1, value)))
    explained = table.scan(filters="city in ('x', 'y') and v > 1.5").explain()
    assert explained.files == PrunedCounts(3, {PruningStep.PARTITION_PATH: 1, PruningStep.FOOTERS: 1}, 1)
    assert explained.partitions == explained.files
    assert "files: 1 of 3 read; left out by partition path 1, footers 1" in str(explained)
    assert table.scan(filters="city = 'x'").explain().files == PrunedCounts(3, {PruningStep.PARTITION_PATH: 2}, 1)
    whole = table.scan().explain()
    assert (whole.filter, whole.files, whole.partitions) == (None, PrunedCounts(3, {}, 3), PrunedCounts(3, {}, 3))


def test_a_scan_stays_at_its_state(filled: Table) -> None:
    scan = filled.scan()
    filled.upsert(records(("a", "x", 9, 9.0), ("d", "x", 1, 1.0)))
    assert ids(scan.to_batches().read_all()) == ["a", "b", "c"]
    assert {row["v"] for row in scan.to_table().to_pylist()} == {1.0, 20.0, 3.0}
    first = filled.timeline()[0].time
    assert sorted(filled.scan(as_of=first).to_table()["v"].to_pylist()) == [1.0, 2.0]


def test_unwritten_table_scans_as_empty(table: Table) -> None:
    scan = table.scan(filters="v > 1")
    assert scan.to_table().num_rows == 0
    assert scan.to_batches().read_all().num_rows == 0
    assert scan.files() == []
    assert scan.explain().files == PrunedCounts(0, {}, 0)


def test_batches_name_broken_file(filled: Table) -> None:
    scan = filled.scan()
    broken = Path(scan.files()[-1])
    broken.write_bytes(broken.read_bytes()[:-20])
    with pytest.raises(CorruptTableError, match=broken.name):
        scan.to_batches().read_all()


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"columns": "id"}, InvalidInputError, r"pass a list of names: \['id'\]"),
        ({"columns": ["nope"]}, SchemaError, "no such columns"),
        ({"filters": "nope > 1"}, InvalidInputError, "column=nope"),
        ({"filters": "v > "}, InvalidInputError, "not understood"),
        ({"filters": 7}, SchemaError, "not a filter"),
        ({"as_of": 20240101}, InvalidInputError, "as_of=20240101"),
        ({"as_of": "2001-01-01"}, InstantNotFoundError, "no commit at this time"),
        ({"as_of": dt.date(2001, 1, 1)}, InstantNotFoundError, "no commit at this time"),
        ({"as_of": dt.datetime(2001, 1, 1, tzinfo=dt.UTC)}, InstantNotFoundError, "no commit at this time"),
    ],
)
def test_invalid_scan_arguments_are_refused(
    filled: Table, arguments: dict[str, Any], kind: type[Exception], message: str
) -> None:
    for read in (filled.read, filled.scan):
        with pytest.raises(kind, match=message):
            read(**arguments)


def test_a_date_is_its_midnight(filled: Table) -> None:
    tomorrow = dt.datetime.now(dt.UTC).date() + dt.timedelta(days=2)
    assert filled.read(as_of=tomorrow).select(SCHEMA.names).num_rows == 3


def test_other_libraries_read_a_scan(filled: Table) -> None:
    scan = filled.scan(columns=["id", "v"], filters="v > 2.5")
    expected = {("b", 20.0), ("c", 3.0)}
    for _ in range(2):
        assert set(duckdb.connect().execute("select * from scan").fetchall()) == expected
        assert set(pl.DataFrame(scan).rows()) == expected
