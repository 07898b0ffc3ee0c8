"""Apache Hudi rolls commits back and restores savepoints, and the index follows."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

from rli import Table, create_table
from rli.table.table import opened_table
from tests.support.agreement import require_agreement, require_hudi_agrees
from tests.support.histories import SCHEMA, History, Layout, Row, new_history, trip
from tests.support.hudi import STAY_ON_VERSION_6, HudiEngine
from tests.support.hudi_options import NEWEST, newest_only, table_options, with_hudi
from tests.support.soak import FACTOR
from tests.support.tables import records, rows_of, turn_into_version_8, turn_into_version_9

pytestmark = [pytest.mark.hudi, pytest.mark.spark, pytest.mark.slow]

BY_CITY: Final = Layout(partition_by=("city",))


_INDEXES: Final = ("files", "column_stats", "partition_stats", "bloom_filters", "record_index")
_TABLE_VERSIONS: Final = {NEWEST: (9, 6), "1.0.2": (8,), "0.15.0": (6,)}
_TURNS: Final = {9: turn_into_version_9, 8: turn_into_version_8}
_WITH: Final = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"}
_WITHOUT: Final = {"hoodie.metadata.enable": "false"}
_BY_RECORD_INDEX: Final = {
    **table_options(Layout(partition_by=("city",), hive_style=False)),
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.record.index.update.partition.path": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.datasource.write.operation": "upsert",
    "hoodie.clean.automatic": "false",
}


def _hudi_writes(engine: HudiEngine, history: History, rows: list[Row], operation: str = "upsert") -> str:
    """Returns the instant."""
    options = {
        **table_options(history.layout),
        "hoodie.index.type": "GLOBAL_SIMPLE",
        "hoodie.datasource.write.operation": operation,
    }
    engine.write(history.path, pa.Table.from_pylist(rows, SCHEMA), options)
    return _last_commit(history)


def _last_commit(history: History) -> str:
    latest = opened_table(history.table).snapshot().timeline.latest_write
    assert latest is not None
    return latest.time


def _hudi_rolls_back(engine: HudiEngine, path: Path | str, instant: str) -> None:
    name = f"t{instant}"
    engine.sql(f"create table {name} using hudi location '{path}'")
    assert engine.sql(f"call rollback_to_instant(table => '{name}', instant_time => '{instant}')") == [["True"]]


def _require_followed(history: History) -> None:
    history.table.sync_index()
    require_agreement(history)


@newest_only
def test_hudi_rollbacks_are_followed(engine: HudiEngine, tmp_path: Path) -> None:
    history = new_history(BY_CITY, tmp_path)
    history.upsert([trip("a"), trip("b"), trip("c", city="Rome"), trip("d", city="Rome")])

    undone = _hudi_writes(engine, history, [trip("a", city="Rome", ts=2), trip("b", ts=2), trip("new", city="Lima")])
    history.table.sync_index()
    assert history.table.lookup(["new"])["partition_path"].to_pylist() == ["Lima"]
    _hudi_rolls_back(engine, history.path, undone)
    _require_followed(history)
    assert history.table.lookup(["new"])["partition_path"].to_pylist() == [None]

    replaced = _hudi_writes(engine, history, [trip("e", ts=3), trip("a", ts=3)], "insert_overwrite")
    history.table.sync_index()
    _hudi_rolls_back(engine, history.path, replaced)
    _require_followed(history)

    never_seen = _hudi_writes(engine, history, [trip("a", city="Lima", ts=4)])
    _hudi_rolls_back(engine, history.path, never_seen)
    _require_followed(history)

    ours = history.table.upsert(pa.Table.from_pylist([trip("b", city="Lima", ts=5), trip("f", ts=5)], SCHEMA))
    assert ours.moved == 1
    assert ours.instant is not None
    _hudi_rolls_back(engine, history.path, ours.instant)
    _require_followed(history)

    history.upsert([trip("a", city="Lima", ts=6), trip("f", ts=6)])
    _require_followed(history)
    require_hudi_agrees(engine, history)
    history.table.close()


@newest_only
def test_hudi_restore_is_followed(engine: HudiEngine, tmp_path: Path) -> None:
    history = new_history(BY_CITY, tmp_path)
    history.upsert([trip("a"), trip("b", city="Rome")])
    saved = _hudi_writes(engine, history, [trip("c"), trip("a", city="Rome", ts=2)])
    history.expect_upserted([trip("c"), trip("a", city="Rome", ts=2)])
    assert engine.sql(f"call create_savepoint(path => '{history.path}', commit_time => '{saved}')") == [["True"]]
    history.table.sync_index()

    after = [trip("d", city="Lima"), trip("c", city="Lima", ts=3), trip("b", city="Rome", ts=3)]
    history.table.upsert(pa.Table.from_pylist(after, SCHEMA))
    _hudi_writes(engine, history, [trip("e"), trip("d", city="Oslo", ts=4)])
    history.table.sync_index()
    history.table.upsert(pa.Table.from_pylist([trip("e", ts=5), trip("f", city="Lima")], SCHEMA))
    assert history.table.lookup(["f"])["file_id"].null_count == 0
    restored = engine.sql(f"call rollback_to_savepoint(path => '{history.path}', instant_time => '{saved}')")
    assert restored == [["True"]]
    _require_followed(history)

    history.upsert([trip("c", city="Lima", ts=6), trip("f", ts=6)])
    _require_followed(history)
    require_hudi_agrees(engine, history)
    history.table.close()


@pytest.mark.soak
@newest_only
def test_undone_first_commit_is_not_archived(engine: HudiEngine, tmp_path: Path) -> None:
    history = new_history(BY_CITY, tmp_path)
    first = _hudi_writes(engine, history, [trip("wrong"), trip("a")])
    history.table.sync_index()
    (orphan,) = (history.path / "Oslo").glob("*.parquet")
    shutil.copy(orphan, tmp_path / orphan.name)
    _hudi_rolls_back(engine, history.path, first)
    history.upsert([trip("a", city="Rome", ts=2)])
    # What a task of the dead write, still running somewhere, may leave.
    shutil.copy(tmp_path / orphan.name, orphan)
    _require_followed(history)
    history.upsert([trip("b", ts=3)])
    _require_followed(history)
    history.table.close()


@with_hudi(NEWEST, in_soak=("1.0.2", "0.15.0"))
def test_each_undoes_the_other_with_indexes(engine: HudiEngine, tmp_path: Path) -> None:
    """With the whole metadata table: Hudi finds keys and skips files by it afterwards."""
    for version in _TABLE_VERSIONS[engine.version][:FACTOR]:
        _undo_each_other(engine, version, tmp_path / str(version))


def _undo_each_other(engine: HudiEngine, version: int, folder: Path) -> None:
    table = create_table(
        folder / "t",
        record_key="id",
        partition_by="city",
        ordering="ts",
        name="trips",
        index=f"lmdb://{folder}/index",
    )
    if version in _TURNS:
        _TURNS[version](table)
    table.upsert(records(("a", "x", 1, 1.0), ("b", "y", 1, 2.0), ("c", "y", 1, 3.0)))
    table.metadata.enable(_kept_by(engine))
    writing = {**_BY_RECORD_INDEX, **(STAY_ON_VERSION_6 if version == 6 and engine.version != "0.15.0" else {})}
    before = rows_of(table)

    ours = table.upsert(records(("a", "z", 2, 9.0), ("c", "y", 2, 9.0), ("new", "x", 2, 9.0))).instant
    assert ours is not None
    engine.roll_back(table.location, ours, writing)
    _require_right(engine, table, before)

    # By the record index, one key is where it was before, and the other one is new.
    engine.write(table.location, records(("a", "x", 3, 4.0), ("new", "z", 3, 5.0)), writing)
    after = [before[0] | {"ts": 3, "v": 4.0}, *before[1:], {"id": "new", "city": "z", "ts": 3, "v": 5.0}]
    _require_right(engine, table, after)

    # The metadata table tells which keys Hudi's commit has placed.
    table.rollback("last")
    _require_right(engine, table, before)
    assert {found.partition for found in table.metadata.status().partitions} == {*_kept_by(engine)}
    engine.write(table.location, records(("a", "x", 3, 4.0), ("new", "z", 3, 5.0)), writing)
    _require_right(engine, table, after)
    table.close()


def _kept_by(engine: HudiEngine) -> list[str]:
    """The partitions of the metadata table that a version of Hudi keeps right."""
    return [name for name in _INDEXES if name != "partition_stats" or engine.version != "0.15.0"]


def _require_right(engine: HudiEngine, table: Table, expected: list[dict[str, object]]) -> None:
    """The metadata table is, and with it and without it Hudi and rli read the same rows."""
    table.sync_index()
    assert table.metadata.verify() == ()
    assert rows_of(table) == expected
    for where, passing in (
        (None, expected),
        ("v > 3.5", [row for row in expected if float(str(row["v"])) > 3.5]),
        ("id in ('b', 'new')", [row for row in expected if row["id"] in {"b", "new"}]),
    ):
        assert rows_of(table.read(filters=where)) == passing, where
        for options in (_WITH, _WITHOUT):
            found = engine.read(table.location, options, where).select(table.read().column_names)
            assert rows_of(found) == passing, (where, options)
