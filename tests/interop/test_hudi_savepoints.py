"""Savepoints and restores of rli, and what Apache Hudi makes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

from rli.table.table import opened_table
from tests.support.agreement import require_agreement, require_hudi_agrees
from tests.support.histories import SCHEMA, History, Layout, Row, new_history, trip
from tests.support.hudi import HudiEngine
from tests.support.hudi_options import NEWEST, newest_only, table_options, with_hudi, write_options
from tests.support.soak import in_ci

pytestmark = [pytest.mark.hudi, pytest.mark.spark, pytest.mark.slow]

BY_CITY: Final = Layout(partition_by=("city",))


def _hudi_writes(engine: HudiEngine, history: History, rows: list[Row], *, upgrade: bool) -> None:
    options = {**table_options(history.layout), "hoodie.index.type": "GLOBAL_SIMPLE"}
    engine.write(
        history.path, pa.Table.from_pylist(rows, SCHEMA), options if upgrade else write_options(engine, history.layout)
    )


def _we_write(history: History, *rows: Row) -> None:
    """A write that is to be undone: the expected rows stay."""
    history.table.upsert(pa.Table.from_pylist(rows, SCHEMA))


def _call(engine: HudiEngine, history: History, procedure: str, **arguments: str) -> list[list[str]]:
    given = "".join(f", {name} => '{value}'" for name, value in arguments.items())
    return engine.sql(f"call {procedure}(path => '{history.path}'{given})")


def _require_all_agree(engine: HudiEngine, history: History) -> None:
    history.table.sync_index()
    require_agreement(history)
    require_hudi_agrees(engine, history)


@with_hudi(NEWEST, in_soak=("1.0.2",))
@pytest.mark.parametrize("upgrade", in_ci([False], of=[False, True]))
def test_hudi_accepts_our_savepoints_and_restores(engine: HudiEngine, tmp_path: Path, *, upgrade: bool) -> None:
    """In a table of version 6, and in one of the version that Hudi makes of it."""
    history = new_history(BY_CITY, tmp_path)
    history.upsert([trip("a"), trip("b", city="Rome"), trip("c", city="Rome")])
    first = [trip("a", ts=2), trip("h", city="Lima")]
    _hudi_writes(engine, history, first, upgrade=upgrade)
    history.expect_upserted(first)
    history.upsert([trip("b", city="Oslo", ts=3), trip("d", city="Lima")])
    saved = history.states[-1][0]

    history.table.savepoint(saved, "as it should be")
    assert saved in {row[0] for row in _call(engine, history, "show_savepoints")}
    _we_write(history, trip("a", city="Lima", ts=4), trip("wrong"))
    _hudi_writes(engine, history, [trip("wrong", ts=5), trip("c", city="Oslo", ts=5)], upgrade=upgrade)
    _we_write(history, trip("wrong", city="Lima", ts=6))
    history.table.restore(saved)
    _require_all_agree(engine, history)

    # Hudi writes on the restored table, and we on that.
    later = [trip("c", ts=7), trip("d", city="Rome", ts=7), trip("new", city="New")]
    _hudi_writes(engine, history, later, upgrade=upgrade)
    history.expect_upserted(later)
    _require_all_agree(engine, history)
    history.upsert([trip("new", city="Oslo", ts=8)])
    history.roll_back()
    history.expect_upserted(later)
    _require_all_agree(engine, history)

    # Hudi goes back to our savepoint, and removes it.
    history._rows = {history.key_of(row): row for row in dict(history.states)[saved]}  # noqa: SLF001
    assert _call(engine, history, "rollback_to_savepoint", instant_time=saved) == [["True"]]
    if not upgrade:
        # Hudi has upgraded the table meanwhile. By a metadata table that was made over commits in version 6, hudi-rs finds no
        # files, also where Hudi alone has written.
        history.table.metadata.disable()
    _require_all_agree(engine, history)
    assert _call(engine, history, "delete_savepoint", instant_time=saved) == [["True"]]
    assert "savepoint" not in {instant.action for instant in history.table.timeline()}
    history.upsert([trip("a", city="Rome", ts=9), trip("wrong", ts=9)])
    _require_all_agree(engine, history)
    history.table.close()


@pytest.mark.soak
@newest_only
def test_hudi_savepoints_are_restored_and_removed(engine: HudiEngine, tmp_path: Path) -> None:
    history = new_history(BY_CITY, tmp_path)
    history.upsert([trip("a"), trip("b", city="Rome")])
    first = [trip("c"), trip("a", city="Rome", ts=2)]
    _hudi_writes(engine, history, first, upgrade=True)
    history.expect_upserted(first)
    latest = opened_table(history.table).snapshot().timeline.latest_write
    assert latest is not None
    assert _call(engine, history, "create_savepoint", commit_time=latest.time) == [["True"]]
    _we_write(history, trip("a", city="Lima", ts=3), trip("wrong"))
    history.table.clean(keep_commits=1)
    history.table.restore(latest.time)
    _require_all_agree(engine, history)
    history.table.delete_savepoint(latest.time)
    assert _call(engine, history, "show_savepoints") == []
    history.upsert([trip("a", city="Lima", ts=4)])
    _require_all_agree(engine, history)
    history.table.close()
