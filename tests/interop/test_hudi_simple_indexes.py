"""rli and Apache Hudi take turns on a table, both with a simple index: each finds the records of the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import rli
from rli.hudi.meta_columns import without_meta_columns
from tests.support.histories import SCHEMA, Layout, trip
from tests.support.hudi import HudiEngine
from tests.support.hudi_options import NEWEST, with_hudi, write_options

pytestmark = [pytest.mark.hudi, pytest.mark.spark, pytest.mark.slow]

BY_CITY = Layout(partition_by=("city",))


@with_hudi(NEWEST, "1.0.2")
@pytest.mark.parametrize(("url", "hudi_type"), [("simple:", "SIMPLE"), ("global-simple:", "GLOBAL_SIMPLE")])
def test_upserts_take_turns(engine: HudiEngine, tmp_path: Path, url: str, hudi_type: str) -> None:
    path = tmp_path / "trips"
    table = rli.create_table(path, record_key="id", partition_by="city", ordering="ts", index=url)
    options = write_options(engine, BY_CITY, index=hudi_type)
    options["hoodie.simple.index.update.partition.path"] = "true"
    is_global = hudi_type == "GLOBAL_SIMPLE"

    table.upsert(_records(trip("ours", ts=1), trip("moves", ts=1)))
    engine.write(path, _records(trip("ours", ts=2), trip("hudi's", ts=2), trip("moves", city="Rome", ts=2)), options)
    found = table.upsert(
        _records(trip("hudi's", ts=3, fare=3.0), trip("hudi's", ts=2), trip("moves", city="Lima", ts=3))
    )
    assert (found.inserted, found.updated, found.moved) == ((0, 1, 1) if is_global else (1, 1, 0))
    engine.write(path, _records(trip("hudi's", ts=4, fare=4.0), trip("moves", city="Lima", ts=4)), options)

    expected = {("ours", "Oslo", 2), ("hudi's", "Oslo", 4), ("moves", "Lima", 4)}
    if not is_global:
        expected |= {("moves", "Oslo", 1), ("moves", "Rome", 2)}
    for rows in (table.read(), without_meta_columns(engine.read(path))):
        assert sorted(_versions(rows)) == sorted(expected)
    assert table.verify_index().agrees
    assert table.delete(["moves"]).deleted == (1 if is_global else 3)
    assert sorted(_versions(engine.read(path))) == [("hudi's", "Oslo", 4), ("ours", "Oslo", 2)]


def _records(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), SCHEMA)


def _versions(rows: pa.Table) -> list[tuple[str, str, int]]:
    return list(zip(*(rows.column(name).to_pylist() for name in ("id", "city", "ts")), strict=True))
