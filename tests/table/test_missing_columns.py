"""Records that lack columns of the table, and numbers of another type."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

from rli import InvalidInputError, SchemaError, Table, create_table
from tests.support.tables import by_key, check_stored, records, rows_of

STORED = records(("a", "x", 5, 1.0), ("b", "y", 5, 2.0))
LACKING = pa.schema([("id", pa.string()), ("city", pa.string()), ("ts", pa.int64())])


def lacking(*rows: tuple[str, str, int]) -> pa.Table:
    """Records without the column ``v``."""
    return pa.table([list(column) for column in zip(*rows, strict=True)], schema=LACKING)


def test_missing_columns_are_refused_with_advice(trips: Table) -> None:
    trips.upsert(STORED)
    with pytest.raises(
        SchemaError, match=r"columns=\['v'\] \(nothing was written\); add them, or write with missing=\"null\""
    ):
        trips.upsert(lacking(("a", "x", 6)))
    with pytest.raises(InvalidInputError, match="missing='drop'; choose one of"):
        trips.upsert(STORED, missing="drop")


def test_missing_columns_become_null(table: Table) -> None:
    table.upsert(STORED)
    table.upsert(lacking(("a", "x", 6), ("c", "x", 6)), missing="null")
    assert {key: row["v"] for key, row in by_key(rows_of(table)).items()} == {"a": None, "b": 2.0, "c": None}
    check_stored(table)


def test_missing_columns_keep_stored_values(table: Table) -> None:
    table.upsert(STORED)
    done = table.upsert(lacking(("a", "x", 6), ("b", "z", 6), ("c", "x", 6)), missing="keep")
    assert (done.inserted, done.updated, done.moved) == (1, 1, 1)
    rows = by_key(rows_of(table))
    assert {key: row["v"] for key, row in rows.items()} == {"a": 1.0, "b": 2.0, "c": None}
    assert {key: row["ts"] for key, row in rows.items()} == {"a": 6, "b": 6, "c": 6}
    assert rows["b"]["city"] == "z"
    check_stored(table)


def test_late_records_change_nothing_with_keep(table: Table) -> None:
    table.upsert(STORED)
    done = table.upsert(lacking(("a", "x", 4), ("b", "z", 4)), missing="keep")
    assert done.unchanged == 2
    assert {key: row["v"] for key, row in by_key(rows_of(table)).items()} == {"a": 1.0, "b": 2.0}


def test_moves_keep_values_without_ordering(tmp_path: Path, memory_url: str) -> None:
    table = create_table(tmp_path / "t", record_key="id", partition_by="city", index=memory_url)
    table.upsert(STORED)
    table.upsert(lacking(("b", "z", 1)).drop_columns("ts"), missing="keep")
    assert by_key(rows_of(table))["b"] == {"id": "b", "city": "z", "ts": 5, "v": 2.0}


def test_only_newest_record_per_key_merges(trips: Table) -> None:
    trips.upsert(STORED)
    batch = lacking(("a", "x", 7), ("a", "x", 6)).append_column("note", pa.array([None, "older"]))
    trips.upsert(batch, missing="keep")
    assert by_key(rows_of(trips))["a"] == {"id": "a", "city": "x", "ts": 7, "v": 1.0, "note": None}


# Numbers -------------------------------------------------------------------------------------------------------


@pytest.fixture
def prices(trips: Table) -> Table:
    trips.upsert(STORED.append_column("count", pa.array([1, 2])))
    return trips


def with_numbers(v: object, count: object) -> pa.Table:
    return pa.table({"id": ["a", "b"], "city": ["x", "y"], "ts": [6, 6], "v": v, "count": count})


def test_integers_fit_double_columns(prices: Table) -> None:
    prices.upsert(with_numbers(pa.array([7, 2**60]), pa.array([1, 2])))
    assert {key: row["v"] for key, row in by_key(rows_of(prices)).items()} == {"a": 7.0, "b": float(2**60)}


def test_integer_beyond_double_precision_is_named(prices: Table) -> None:
    with pytest.raises(SchemaError, match=r"column=v type=double row=1 value=9007199254740993"):
        prices.upsert(with_numbers(pa.array([7, 2**53 + 1]), pa.array([1, 2])))
    assert by_key(rows_of(prices))["a"]["v"] == 1.0


def test_pandas_doubles_fit_integer_columns(prices: Table) -> None:
    prices.upsert(pd.DataFrame(with_numbers([1.0, 2.0], [5.0, None]).to_pandas()))
    assert {key: row["count"] for key, row in by_key(rows_of(prices)).items()} == {"a": 5, "b": None}
    prices.upsert(with_numbers([1.0, 2.0], pa.array([float("nan"), 6.0])))
    assert {key: row["count"] for key, row in by_key(rows_of(prices)).items()} == {"a": None, "b": 6}


@pytest.mark.parametrize("wrong", [1.5, 1e300, float("inf"), 2.0**63])
def test_fractional_double_is_named(prices: Table, wrong: float) -> None:
    with pytest.raises(SchemaError, match=r"column=count type=int64 row=1 value="):
        prices.upsert(with_numbers([1.0, 2.0], pa.array([1.0, wrong])))


@pytest.mark.parametrize("missing", ["null", "keep"])
def test_column_differing_in_case_is_refused(trips: Table, missing: str) -> None:
    trips.upsert(STORED)
    with pytest.raises(SchemaError, match=r"column=V table=v \(nothing was written\); rename it"):
        trips.upsert(STORED.rename_columns(["id", "city", "ts", "V"]), missing=missing)
    assert trips.read().column_names == STORED.column_names
