"""Columns that Hudi's SQL renames, drops or changes: rli reads the rows that Hudi reads, or refuses the table by name."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import rli
from tests.support.histories import Layout
from tests.support.hudi import STAY_ON_VERSION_6, HudiEngine
from tests.support.hudi_options import BY_RECORD_INDEX, WITHOUT_STATISTICS, newest_only, table_options, write_options
from tests.support.meta_columns import without_meta_columns
from tests.support.soak import in_ci

pytestmark = [pytest.mark.hudi, pytest.mark.spark, pytest.mark.slow, newest_only]

_SETTINGS: Final = {
    "hoodie.schema.on.read.enable": "true",
    "hoodie.datasource.write.schema.allow.auto.evolution.column.drop": "true",
    **STAY_ON_VERSION_6,
}
_LAYOUT: Final = Layout(("id",), ("city",), hive_style=False, url_encode_partitions=False)
_IN_VERSION_9: Final = {
    **table_options(_LAYOUT, "t"),
    "hoodie.datasource.write.operation": "upsert",
    **BY_RECORD_INDEX,
    **WITHOUT_STATISTICS,
}
_SCHEMA_ON_READ: Final = {"hoodie.schema.on.read.enable": "true"}
_BY_NAME: Final = {"hoodie.schema.on.read.enable": "false"}
_RENAMED: Final = pytest.param(["rename column v to price"], "v", id="renamed")


def _rows(keys: list[str], city: str, **columns: Any) -> pa.Table:
    return pa.table({"id": keys, "city": [city] * len(keys), "ts": [1] * len(keys), **columns})


def _made(engine: HudiEngine, path: Path, records: pa.Table, *changes: str) -> rli.Table:
    """A table of Hudi after changes of its columns by SQL."""
    engine.write(path, records, write_options(engine, _LAYOUT), mode="overwrite")
    name = f"altered_{path.parent.name}".replace("-", "_")
    engine.sql(f"create table {name} using hudi location '{path}'")
    for change in changes:
        engine.sql(f"alter table {name} {change}", _SETTINGS)
    return rli.open_table(path)


def _read(engine: HudiEngine, table: rli.Table) -> pa.Table:
    return engine.read(table.location, settings=_SETTINGS)


def _seen(records: pa.Table) -> list[dict[str, Any]]:
    return without_meta_columns(records).sort_by("id").to_pylist()


@pytest.mark.parametrize(
    ("changes", "column"),
    in_ci([_RENAMED], of=[_RENAMED, pytest.param(["drop column v", "add columns (v int)"], "v", id="added again")]),
)
def test_names_that_mean_other_columns(engine: HudiEngine, tmp_path: Path, changes: list[str], column: str) -> None:
    table = _made(engine, tmp_path / "t", _rows(["a", "b"], "x", v=pa.array([1, 2], pa.int32())), *changes)
    table = rli.open_table(table.location, index="global-simple:")
    for read in (table.read, lambda: table.get(["a"]), lambda: table.upsert(_rows(["c"], "x", w=[1]))):
        with pytest.raises(rli.UnsupportedTableError, match=f"column={column} before="):
            read()


def test_a_dropped_column_is_gone(engine: HudiEngine, tmp_path: Path) -> None:
    table = _made(engine, tmp_path / "t", _rows(["a"], "x", v=[1], w=["p"]), "drop column v")
    assert _seen(table.read()) == _seen(_read(engine, table)) == [{"id": "a", "city": "x", "ts": 1, "w": "p"}]
    table.bootstrap_index(f"lmdb://{tmp_path / 'index'}")
    before = table.timeline()
    with pytest.raises(rli.UnsupportedTableError, match=r"history of its columns.*; write it with Hudi"):
        table.upsert(_rows(["b"], "x", w=["q"]))
    assert table.timeline() == before


@pytest.mark.soak
def test_types_changed_by_hudi(engine: HudiEngine, tmp_path: Path) -> None:
    columns: dict[str, tuple[pa.Array, str]] = {
        "a": (pa.array([2**31 - 1], pa.int32()), "bigint"),
        "b": (pa.array([2**31 - 1], pa.int32()), "double"),
        "c": (pa.array([-7], pa.int32()), "string"),
        "d": (pa.array([2**53 + 1]), "string"),
        "e": (pa.array([Decimal("1.10")], pa.decimal128(5, 2)), "decimal(12,2)"),
        "f": (pa.array([Decimal("1.10")], pa.decimal128(5, 2)), "string"),
        "g": (pa.array([1.5], pa.float32()), "double"),
        "h": (pa.array([2**53]), "double"),
        "i": (pa.array([date(2024, 2, 29)]), "string"),
        "j": (pa.array([b"bytes"]), "string"),
    }
    changes = [f"alter column {name} type {kind}" for name, (_, kind) in columns.items()]
    records = _rows(["k"], "x", **{name: values for name, (values, _) in columns.items()})
    table = _made(engine, tmp_path / "t", records, *changes)
    assert _seen(table.read()) == _seen(_read(engine, table))


@pytest.mark.soak
@pytest.mark.parametrize(
    ("values", "kind"),
    [(pa.array([2**53 + 1]), "double"), (pa.array([2**24 + 1], pa.int32()), "float")],
    ids=["bigint", "int"],
)
def test_digits_are_not_lost(engine: HudiEngine, tmp_path: Path, values: pa.Array, kind: str) -> None:
    table = _made(engine, tmp_path / "t", _rows(["k"], "x", v=values), f"alter column v type {kind}")
    with pytest.raises(rli.SchemaError, match="column=v"):
        table.read()


@pytest.mark.soak
def test_floats_keep_their_exact_value(engine: HudiEngine, tmp_path: Path) -> None:
    single = pa.array([0.1, 1e20], pa.float32())
    changes = ["alter column v type double", "alter column w type string"]
    table = _made(engine, tmp_path / "t", _rows(["a", "b"], "x", v=single, w=single), *changes)
    ours, theirs = _seen(table.read()), _seen(_read(engine, table))
    assert [row["v"] for row in ours] == single.cast(pa.float64()).to_pylist()
    assert [row["v"] for row in theirs] == [0.1, 1e20]
    assert [row["w"] for row in ours] == ["0.1", "1e+20"]
    assert [row["w"] for row in theirs] == ["0.1", "1.0E20"]
    with pytest.raises(rli.SchemaError, match=r"numbers would become strings.*column=w"):
        rli.open_table(table.location, index="global-simple:").get(["a"])


@pytest.mark.soak
def test_a_name_that_hudi_forgets(engine: HudiEngine, tmp_path: Path) -> None:
    """A write without schema-on-read ends the history; from then on, Hudi finds columns by name, too."""
    table = _made(engine, tmp_path / "t", _rows(["a"], "x", v=[1]), "rename column v to price")
    options = {**write_options(engine, _LAYOUT), "hoodie.schema.on.read.enable": "false"}
    engine.write(table.location, _rows(["b"], "y", price=[2]), options)
    assert _seen(table.read()) == _seen(_read(engine, table))


@pytest.mark.parametrize("home", ["store", "metadata"])
def test_an_index_of_a_renamed_column(engine: HudiEngine, tmp_path: Path, home: str) -> None:
    """Also if another column takes its name: an indexed look-up finds what a scan finds, or both are refused."""
    options = {**(_IN_VERSION_9 if home == "metadata" else write_options(engine, _LAYOUT)), **_SCHEMA_ON_READ}
    engine.write(tmp_path / "t", _rows(["a", "b"], "x", v=["1", "2"], w=["2", "3"]), options, mode="overwrite")
    table = rli.open_table(tmp_path / "t")
    table.bootstrap_index(f"lmdb://{tmp_path / 'index'}")
    table.create_index("by_v", on="v", home=home)
    assert _answers(table, "v") == {"1": ["a"], "2": ["b"], "3": []}
    name = f"renamed_in_{home}"
    engine.sql(f"create table {name} using hudi location '{table.location}'")
    for before, after in (("v", "price"), ("w", "v")):
        engine.sql(f"alter table {name} rename column {before} to {after}", {**_SETTINGS, **options})
        assert [_answers(table, column)["2"] for column in ("v", "price")] == [rli.UnsupportedTableError] * 2
    engine.write(table.location, _rows(["b", "c"], "x", price=["1", "2"], v=["2", "1"]), options)
    assert {_answers(table, column)["2"] for column in ("v", "price")} == {rli.UnsupportedTableError}
    # This write ends the history of names.
    engine.write(table.location, _rows(["d"], "y", price=["1"], v=["2"]), {**options, **_BY_NAME})
    records = _read(engine, table).to_pylist()
    for column in ("v", "price"):
        expected = {value: sorted(one["id"] for one in records if one[column] == value) for value in "123"}
        assert _answers(table, column) == expected


def _answers(table: rli.Table, column: str) -> dict[str, list[str] | type[rli.RliError]]:
    """For values of a column, the keys of all records with the value, or the error that refuses to tell them."""
    return {value: _answer(table, column, value) for value in "123"}


def _answer(table: rli.Table, column: str, value: str) -> list[str] | type[rli.RliError]:
    def scanned() -> pa.Table:
        rows = table.read(columns=["id", column])
        return rows.filter(pc.equal(rows[column], value))

    scan, *indexed = map(
        _keys_or_refusal,
        (
            scanned,
            lambda: table.read(columns=["id"], filters=f"{column} = '{value}'"),
            lambda: table.get(where={column: [value]}, columns=["id"]),
        ),
    )
    assert indexed == [scan, scan], (column, value)
    return scan


def _keys_or_refusal(ask: Callable[[], pa.Table]) -> list[str] | type[rli.RliError]:
    try:
        return sorted(ask()["id"].to_pylist())
    except rli.RliError as error:
        return type(error)
