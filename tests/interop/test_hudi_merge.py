"""Hudi reads what merges leave, writes on, and its own marked deletes are what a merge makes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

from tests.support.agreement import require_agreement, require_hudi_agrees
from tests.support.histories import SCHEMA, Layout, new_history, trip
from tests.support.hudi import HudiEngine
from tests.support.hudi_options import newest_only, write_options

pytestmark = [pytest.mark.hudi, pytest.mark.spark, pytest.mark.slow]

BY_CITY: Final = Layout(partition_by=("city",), hive_style=True)


@newest_only
def test_hudi_reads_and_continues_merges(engine: HudiEngine, tmp_path: Path) -> None:
    history = new_history(BY_CITY, tmp_path)
    first = [trip("a"), trip("b", city="Rome"), trip("c", city="Lima"), trip("d")]
    history.upsert(first)
    changes = [
        trip("a", ts=5, fare=9.5),
        trip("b", city="Bern", ts=5),
        trip("c", ts=5),
        trip("e", ts=5),
        trip("nobody", ts=5),
    ]
    operations = pa.array(["u", "U", "d", "insert", "delete"])
    done = history.table.merge(pa.Table.from_pylist(changes, SCHEMA).append_column("op", operations), op="op")
    assert (done.inserted, done.updated, done.moved, done.deleted, done.unchanged) == (1, 1, 1, 1, 1)
    history.expect_upserted([changes[0], changes[1], changes[3]])
    history.expect_deleted(["c"])
    require_agreement(history)
    require_hudi_agrees(engine, history)

    # The same batch, with Hudi's marks, by Hudi itself and by a merge.
    schema = SCHEMA.append(pa.field("_hoodie_is_deleted", pa.bool_()))
    marked = [{**trip("d", ts=6), "_hoodie_is_deleted": True}, {**trip("f", ts=6), "_hoodie_is_deleted": False}]
    options = write_options(engine, BY_CITY, index="GLOBAL_SIMPLE")
    engine.write(history.path, pa.Table.from_pylist(marked, schema), options)
    history.table.sync_index()
    assert {row["id"] for row in history.table.read(columns=["id"]).to_pylist()} == {"a", "b", "e", "f"}
    again = history.table.merge(pa.Table.from_pylist([{**row, "ts": 7} for row in marked], schema))
    assert (again.updated, again.unchanged) == (1, 1)
    found = {row["id"] for row in engine.read(history.path).select(["id"]).to_pylist()}
    assert found == {"a", "b", "e", "f"}
    history.table.close()
