"""Apache Hudi reads, writes, cleans, archives and rolls back tables whose small files rli has clustered."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

import rli
from rli.model import FileGroupId
from rli.table.table import opened_table
from tests.support.agreement import require_agreement, require_hudi_agrees
from tests.support.children import was_killed
from tests.support.histories import SCHEMA, History, Layout, Row, new_history, trip
from tests.support.hudi import HudiEngine
from tests.support.hudi_options import NEWEST, newest_only, table_options, with_hudi, write_options
from tests.support.hudi_rs import read_with_hudi_rs
from tests.support.meta_columns import without_meta_columns
from tests.support.metadata_tables import differences
from tests.support.rows import sorted_rows

pytestmark = [pytest.mark.hudi, pytest.mark.spark, pytest.mark.slow]

BY_CITY: Final = Layout(partition_by=("city",))

upgrading = with_hudi(NEWEST, in_soak=("1.0.2",))
"""Marks a test in which Hudi upgrades the table, to version 9 or, in ``make soak``, 8."""


def _history(folder: Path) -> History:
    """A table with six file groups of a record or two in Oslo, and three in Rome."""
    history = new_history(BY_CITY, folder, small_file_size=0)
    for ts in range(1, 4):
        history.upsert([trip(f"a{ts}", ts=ts), trip(f"r{ts}", city="Rome", ts=ts)])
        history.upsert([trip("m", ts=ts), trip(f"b{ts}", ts=ts, city=["Lima", "Oslo"][ts % 2])])
    return history


def _cluster(history: History) -> str:
    result = history.table.cluster()
    assert result.files_replaced > result.files_created > 0
    assert result.instant is not None
    require_agreement(history)
    return result.instant


def _hudi_upserts(engine: HudiEngine, history: History, rows: list[Row], **options: str) -> None:
    named = {name.replace("__", "."): value for name, value in options.items()}
    engine.write(
        history.path,
        pa.Table.from_pylist(rows, SCHEMA),
        {**table_options(history.layout), "hoodie.index.type": "GLOBAL_SIMPLE", **named},
    )
    history.expect_upserted(rows)
    history.table.sync_index()


def _require_all_agree(engine: HudiEngine, history: History) -> None:
    require_agreement(history)
    require_hudi_agrees(engine, history)


def _hudi_rolls_back(engine: HudiEngine, history: History, instant: str) -> None:
    name = f"t{instant}"
    engine.sql(f"create table {name} using hudi location '{history.path}'")
    assert engine.sql(f"call rollback_to_instant(table => '{name}', instant_time => '{instant}')") == [["True"]]


def _base_files(history: History) -> set[FileGroupId]:
    return {FileGroupId(path.parent.name, path.name.split("_")[0]) for path in history.path.glob("[!.]*/*.parquet")}


@with_hudi(NEWEST, in_soak=("1.0.2", "0.15.0"))
def test_hudi_goes_on_after_our_clustering(engine: HudiEngine, tmp_path: Path) -> None:
    history = _history(tmp_path)
    before, expected = history.states[-2]
    increment = {"hoodie.datasource.query.type": "incremental", "hoodie.datasource.read.begin.instanttime": before}
    changed_since = sorted_rows(without_meta_columns(engine.read(history.path, increment)))
    assert {row["id"] for row in changed_since} == {"m", "b3"}
    _cluster(history)
    require_hudi_agrees(engine, history)
    assert sorted_rows(without_meta_columns(engine.read(history.path, increment))) == changed_since
    assert sorted_rows(without_meta_columns(engine.read(history.path, {"as.of.instant": before}))) == expected
    assert sorted_rows(read_with_hudi_rs(history.path, before)) == expected

    options = write_options(engine, BY_CITY)
    changed = [trip("a1", ts=20), trip("m", ts=20, city="Rome"), trip("h", ts=20)]
    engine.write(history.path, pa.Table.from_pylist(changed, SCHEMA), options)
    history.expect_upserted(changed)
    assert (history.path / ".hoodie" / "metadata").exists()
    history.table.sync_index()
    _require_all_agree(engine, history)

    history.upsert([trip("a2", ts=21), trip("m", ts=21), trip("h", ts=21, city="Rome")])
    _cluster(history)
    assert differences(history.path) == []
    _require_all_agree(engine, history)
    engine.write(
        history.path,
        pa.Table.from_pylist([trip("a3"), trip("r1")], SCHEMA),
        {**options, "hoodie.datasource.write.operation": "delete"},
    )
    history.expect_deleted(["a3", "r1"])
    history.table.sync_index()
    _require_all_agree(engine, history)
    history.table.close()


@pytest.mark.soak
@upgrading
def test_clustering_after_hudi_upgraded_the_table(engine: HudiEngine, tmp_path: Path) -> None:
    history = _history(tmp_path)
    _hudi_upserts(engine, history, [trip("a1", ts=20), trip("h", ts=20, city="Lima")])
    clustered = _cluster(history)
    _require_all_agree(engine, history)
    _hudi_rolls_back(engine, history, clustered)
    history.table.sync_index()
    _require_all_agree(engine, history)

    clustered = _cluster(history)
    history.table.rollback(clustered)
    _require_all_agree(engine, history)
    _hudi_upserts(engine, history, [trip("a1", ts=30, city="Rome"), trip("new", ts=30)])
    _cluster(history)
    _hudi_upserts(engine, history, [trip("a2", ts=40, city="Rome"), trip("m", ts=40), trip("newer", ts=40)])
    history.upsert([trip("a2", ts=41)])
    _require_all_agree(engine, history)

    clustering = {"hoodie__clustering__inline": "true", "hoodie__clustering__inline__max__commits": "1"}
    _hudi_upserts(engine, history, [trip("a1", ts=50)], **clustering)
    _require_all_agree(engine, history)
    last = opened_table(history.table).snapshot().timeline.completed_writes[-1]
    assert last.action == "replacecommit"
    _hudi_rolls_back(engine, history, last.time)
    history.table.sync_index()
    history.upsert([trip("a1", ts=51)])
    _require_all_agree(engine, history)
    history.table.close()


@pytest.mark.soak
@with_hudi("0.15.0")
def test_hudi_rolls_back_version_6_clustering(engine: HudiEngine, tmp_path: Path) -> None:
    history = _history(tmp_path)
    clustered = _cluster(history)
    _hudi_rolls_back(engine, history, clustered)
    history.table.sync_index()
    _require_all_agree(engine, history)
    _cluster(history)
    _hudi_upserts(engine, history, [trip("a1", ts=20, city="Rome"), trip("new", ts=20)])
    _require_all_agree(engine, history)
    history.table.close()


@pytest.mark.soak
@upgrading
def test_hudi_cleans_and_archives_our_clustering(engine: HudiEngine, tmp_path: Path) -> None:
    history = _history(tmp_path)
    replaced = _base_files(history)
    clustered = _cluster(history)
    replaced -= opened_table(history.table).snapshot().slices.keys()
    timestamps = iter(range(10, 17))
    while replaced & _base_files(history) or clustered in {instant.time for instant in history.table.timeline()}:
        ts = next(timestamps)
        _hudi_upserts(
            engine,
            history,
            [trip("a1", ts=ts), trip("r1", ts=ts, city="Rome")],
            hoodie__metadata__enable="false",
            hoodie__clean__commits__retained="1",
            hoodie__keep__min__commits="2",
            hoodie__keep__max__commits="3",
        )
    history.upsert([trip("a1", ts=30), trip("r2", ts=30)])
    _require_all_agree(engine, history)
    history.table.close()


def _cluster_and_die(path: Path, step: rli.Step) -> None:
    """A child's work."""

    def on_step(reported: rli.Step) -> None:
        if reported is step:
            os.kill(os.getpid(), signal.SIGKILL)

    rli.open_table(path).cluster(on_step=on_step)


@newest_only
def test_killed_clustering_blocks_nobody(engine: HudiEngine, tmp_path: Path) -> None:
    history = _history(tmp_path)
    for ts, step in enumerate((rli.Step.INFLIGHT, rli.Step.PROMOTED), 10):
        # Hudi comes first after the death, then we do. From its first write on, the table is of version 9.
        assert was_killed(_cluster_and_die, history.path, step)
        _hudi_upserts(engine, history, [trip("a1", ts=ts), trip(f"h{ts}", city="Rome")])
        _require_all_agree(engine, history)
        history.upsert([trip("b1", city=f"Lima{ts}", ts=ts)])
    _cluster(history)
    _require_all_agree(engine, history)
    assert opened_table(history.table).snapshot().timeline.pending == ()
    history.table.close()
