"""Apache Hudi upgrades a table of ours at its first write, and we write on in the new version's format."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

from rli.hudi.properties import Key, load_properties
from rli.storage import Storage
from tests.support.agreement import require_agreement
from tests.support.histories import SCHEMA, WIDER_SCHEMA, History, Layout, Row, trip, write_history
from tests.support.hudi import HudiEngine
from tests.support.hudi_options import table_options
from tests.support.hudi_rs import read_with_hudi_rs
from tests.support.meta_columns import without_meta_columns
from tests.support.metadata_tables import differences
from tests.support.rows import sorted_rows
from tests.support.soak import in_ci

pytestmark = [pytest.mark.hudi, pytest.mark.spark, pytest.mark.slow]

BY_CITY: Final = Layout(partition_by=("city",))
BY_CITY_AND_YEAR: Final = Layout(partition_by=("city", "year"), hive_style=True)

VERSIONS: Final = {"1.2.0": 9, "1.0.2": 8}


def _hudi_upserts(engine: HudiEngine, history: History, rows: list[Row], schema: pa.Schema = SCHEMA) -> None:
    options = {**table_options(history.layout), "hoodie.index.type": "GLOBAL_SIMPLE"}
    engine.write(history.path, pa.Table.from_pylist(rows, schema), options)
    history.expect_upserted(rows, schema)


def _require_all_agree(engine: HudiEngine, history: History) -> None:
    require_agreement(history)
    if history.layout == BY_CITY:
        # It does not undo the escape in city\:SIMPLE, as Hudi names the partition fields of the other layout.
        assert sorted_rows(read_with_hudi_rs(history.path)) == history.rows
    assert sorted_rows(without_meta_columns(engine.read(history.path))) == history.rows


def _raw_properties(history: History) -> dict[str, str]:
    raw = dict(load_properties(Storage(str(history.path))).raw)
    for key in (Key.METADATA_PARTITIONS, Key.METADATA_PARTITIONS_INFLIGHT):
        raw.pop(key, None)
    return raw


def _our_turn(history: History, ts: int) -> None:
    """An upsert with an insert, an update, a move and a late record; a delete; a commit that is rolled back."""
    rows = [trip("plain", ts=ts), trip("ours", ts=ts), trip("-7", city="Lima", ts=ts), trip("upgraded", ts=0)]
    result = history.upsert(rows)
    assert (result.inserted, result.updated, result.moved, result.unchanged) == (1, 1, 1, 1)
    assert history.delete(["new", "unknown"]).deleted == 1
    history.upsert([trip("plain", city="Bergen", ts=ts + 1), trip("gone", ts=ts + 1)])
    history.roll_back()
    history.table.sync_index()


@pytest.mark.parametrize(
    ("engine", "layout"),
    in_ci(
        [("1.2.0", BY_CITY_AND_YEAR), ("1.0.2", BY_CITY)],
        of=[("1.2.0", BY_CITY), ("1.2.0", BY_CITY_AND_YEAR), ("1.0.2", BY_CITY)],
    ),
    indirect=["engine"],
    ids=str,
)
def test_rli_writes_after_hudi_upgrade(engine: HudiEngine, layout: Layout, tmp_path: Path) -> None:
    history = write_history(layout, tmp_path, steps=2)
    _hudi_upserts(engine, history, [trip("plain", ts=30), trip("upgraded", ts=30, city="Rome")])
    kept = _raw_properties(history)
    assert kept[Key.VERSION] == str(VERSIONS[engine.version])
    assert kept[Key.MERGE_MODE] == "EVENT_TIME_ORDERING"

    _our_turn(history, ts=40)
    assert differences(history.path) == []
    _require_all_agree(engine, history)
    assert _raw_properties(history) == kept

    _hudi_upserts(engine, history, [trip("ours", city="Lima", ts=50), trip("plain", ts=1), trip("theirs", ts=50)])
    assert (history.path / ".hoodie" / "metadata").exists()
    history.table.sync_index()
    _require_all_agree(engine, history)

    history.upsert([trip("theirs", city="Rome", ts=60), trip("ours", ts=60)])
    history.upsert([trip("plain", ts=61, note="wider")], WIDER_SCHEMA)
    _require_all_agree(engine, history)
    completed = [instant.completion_time for instant in history.table.timeline() if instant.is_completed]
    assert completed == sorted(set(completed), key=str)
    history.table.close()
