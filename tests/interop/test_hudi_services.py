"""Apache Hudi goes on with a table that rli cleaned, and with one in which a writer of rli was killed."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

import rli
from rli.table.table import opened_table
from tests.support.children import was_killed
from tests.support.histories import SCHEMA, History, Layout, Row, new_history, trip
from tests.support.hudi import HudiEngine
from tests.support.hudi_options import newest_only, table_options
from tests.support.hudi_rs import read_with_hudi_rs
from tests.support.meta_columns import without_meta_columns
from tests.support.rows import sorted_rows

pytestmark = [pytest.mark.hudi, pytest.mark.spark, pytest.mark.slow]

BY_CITY: Final = Layout(partition_by=("city",))


def _hudi_upserts(engine: HudiEngine, history: History, rows: list[Row]) -> None:
    options = {
        **table_options(history.layout),
        "hoodie.index.type": "GLOBAL_SIMPLE",
        "hoodie.clean.commits.retained": "1",
    }
    engine.write(history.path, pa.Table.from_pylist(rows, SCHEMA), options)
    history.expect_upserted(rows)


def _require_all_agree(engine: HudiEngine, history: History) -> None:
    history.table.sync_index()
    assert sorted_rows(history.table.read()) == history.rows
    assert sorted_rows(without_meta_columns(engine.read(history.path))) == history.rows
    assert sorted_rows(read_with_hudi_rs(history.path)) == history.rows
    report = history.table.verify_index()
    assert report.agrees
    assert report.records == len(history.rows)


def _our_upserts(history: History, *timestamps: int) -> None:
    for ts in timestamps:
        history.upsert([trip("a", ts=ts), trip("m", city=["Rome", "Lima"][ts % 2], ts=ts), trip(f"n{ts}", ts=ts)])


@newest_only
def test_hudi_goes_on_after_our_cleans(engine: HudiEngine, tmp_path: Path) -> None:
    history = new_history(BY_CITY, tmp_path)
    _our_upserts(history, 1, 2, 3, 4)
    first = history.table.clean(keep_commits=1)
    assert first.files_deleted
    # Hudi upgrades the table, our clean included, and cleans by itself.
    _hudi_upserts(engine, history, [trip("a", ts=10), trip("h", city="Rome", ts=10)])
    _require_all_agree(engine, history)

    _our_upserts(history, 11, 12)
    second = history.table.clean(keep_commits=1)
    assert second.files_deleted
    # As if we had been killed when the clean was planned: Hudi carries it out.
    timeline = history.path / ".hoodie" / "timeline"
    for path in (*timeline.glob(f"{second.instant}_*.clean"), timeline / f"{second.instant}.clean.inflight"):
        path.unlink()
    _hudi_upserts(engine, history, [trip("a", ts=13), trip("h", city="Lima", ts=13)])
    cleans = {instant.time: instant for instant in history.table.timeline() if instant.action == "clean"}
    assert cleans[second.instant or ""].is_completed
    _our_upserts(history, 14)
    _require_all_agree(engine, history)
    history.table.close()


def _upsert_and_die(path: Path, rows: list[Row], step: rli.Step) -> None:
    """A child's work."""

    def on_step(reported: rli.Step) -> None:
        if reported is step:
            os.kill(os.getpid(), signal.SIGKILL)

    rli.open_table(path).upsert(pa.Table.from_pylist(rows, SCHEMA), on_step=on_step)


@newest_only
def test_killed_writer_leftovers_are_harmless(engine: HudiEngine, tmp_path: Path) -> None:
    history = new_history(BY_CITY, tmp_path)
    lost = [trip("lost", ts=99), trip("a", ts=99), trip("lost too", city="Lima", ts=99)]
    # The very first write dies: nothing of it may ever pass for an archived commit's.
    assert was_killed(_upsert_and_die, history.path, lost, rli.Step.PROMOTED)
    history.upsert([trip("a"), trip("b", city="Rome")])
    for ts, step in enumerate((rli.Step.INFLIGHT, rli.Step.PROMOTED), 10):
        # Hudi comes first after the death, then we do.
        assert was_killed(_upsert_and_die, history.path, lost, step)
        _hudi_upserts(engine, history, [trip("a", ts=ts), trip(f"h{ts}", city="Rome")])
        history.upsert([trip("b", city=f"Lima{ts}", ts=ts)])
    # We come first.
    assert was_killed(_upsert_and_die, history.path, lost, rli.Step.PROMOTED)
    history.upsert([trip("c", ts=20)])
    _hudi_upserts(engine, history, [trip("c", city="Rome", ts=21)])
    _require_all_agree(engine, history)
    timeline = opened_table(history.table).snapshot().timeline
    assert timeline.pending == ()
    times = {instant.time for instant in timeline.completed_writes}
    assert {path.stem.rpartition("_")[2] for path in history.path.glob("[!.]*/*.parquet")} <= times
    history.table.close()
