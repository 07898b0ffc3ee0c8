"""Timelines that rli archived, and what Apache Hudi makes of them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

from tests.support.agreement import require_agreement, require_hudi_agrees
from tests.support.histories import SCHEMA, History, Layout, Row, new_history, trip
from tests.support.hudi import HudiEngine
from tests.support.hudi_options import NEWEST, table_options, with_hudi, write_options
from tests.support.tables import check_archived

# Several writes of Hudi in each test, each of which takes long where the machine is busy.
pytestmark = [pytest.mark.hudi, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1800)]

BY_CITY: Final = Layout(partition_by=("city",))

_ARCHIVING: Final = {
    "hoodie.metadata.enable": "false",
    "hoodie.clean.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
}


def _hudi_upserts(engine: HudiEngine, history: History, rows: list[Row], *, upgrade: bool, archive: bool) -> None:
    options = {**table_options(history.layout), "hoodie.index.type": "GLOBAL_SIMPLE"}
    stay = {} if upgrade else write_options(engine, history.layout)
    engine.write(
        history.path, pa.Table.from_pylist(rows, SCHEMA), {**options, **stay, **(_ARCHIVING if archive else {})}
    )
    history.expect_upserted(rows)


def _our_upserts(history: History, *timestamps: int) -> None:
    for ts in timestamps:
        history.upsert(
            [trip("a", ts=ts), trip("m", city=["Rome", "Lima"][ts % 2], ts=ts), trip(f"n{ts}", city=f"c{ts}")]
        )


def _require_all_agree(engine: HudiEngine, history: History) -> None:
    history.table.sync_index()
    require_agreement(history)
    require_hudi_agrees(engine, history)


def _shown_by_hudi(engine: HudiEngine, history: History) -> set[str]:
    """Times of the archived commits, as Hudi lists them."""
    name = f"t{abs(hash(str(history.path)))}"
    engine.sql(f"create table if not exists {name} using hudi location '{history.path}'")
    engine.sql(f"refresh table {name}")
    rows = engine.sql(
        f"call show_archived_commits(table => '{name}', limit => 1000, start_ts => '20000101000000000', "
        "end_ts => '29991231000000000')"
    )
    return {row[0] for row in rows}


def _archived_commits(history: History) -> set[str]:
    return {time for time, action in check_archived(history.table) if action == "commit"}


def _archive_twice(history: History, folder: Path) -> None:
    """An archive that is killed when it has written to the archive, and the next, which repeats it."""
    timeline = history.path / ".hoodie"
    # No archive passes the last compaction of the metadata table that Hudi has made.
    history.table.metadata.compact()
    before = Path(shutil.copytree(timeline, folder))
    history.table.archive(keep_commits=2)
    for path in before.iterdir():
        if path.is_file() and not (timeline / path.name).exists():
            shutil.copy(path, timeline)
    assert history.table.archive(keep_commits=2).instants_archived


@pytest.mark.soak
@with_hudi(NEWEST, in_soak=("1.0.2",))
def test_hudi_continues_after_our_archive(engine: HudiEngine, tmp_path: Path) -> None:
    history = new_history(BY_CITY, tmp_path)
    _our_upserts(history, 1, 2, 3)
    history.table.clean(keep_commits=1)
    history.upsert([trip("wrong", ts=4)])
    history.roll_back()
    _our_upserts(history, 5, 6, 7)
    assert history.table.archive(keep_commits=2).instants_archived
    archived = _archived_commits(history)
    assert len(archived) == 4
    assert _shown_by_hudi(engine, history) == archived
    _require_all_agree(engine, history)

    # In version 6: we archive once more, dying in between, and Hudi archives on top of it.
    _our_upserts(history, 9, 10)
    _archive_twice(history, tmp_path / "before")
    assert _archived_commits(history) > archived
    assert _shown_by_hudi(engine, history) == _archived_commits(history)
    archived = _archived_commits(history)
    _our_upserts(history, 11, 12, 13)
    _hudi_upserts(engine, history, [trip("h", city="Lima", ts=14)], upgrade=False, archive=True)
    assert _shown_by_hudi(engine, history) > archived
    archived = _shown_by_hudi(engine, history)
    _require_all_agree(engine, history)

    # In the version that Hudi makes of it, with the archive. Hudi 1.0.2 cannot list what it has taken along there,
    # not even what it had archived itself.
    lists = engine.version == NEWEST
    _hudi_upserts(engine, history, [trip("a", city="Rome", ts=15)], upgrade=True, archive=False)
    _require_all_agree(engine, history)
    assert not lists or _shown_by_hudi(engine, history) >= archived
    _our_upserts(history, 16, 17, 18)
    history.table.metadata.compact()
    assert history.table.archive(keep_commits=2).instants_archived
    _require_all_agree(engine, history)
    archived |= _archived_commits(history)
    assert not lists or _shown_by_hudi(engine, history) >= archived
    _our_upserts(history, 19, 20, 21)
    before = len(_archived_commits(history))
    _hudi_upserts(engine, history, [trip("h", ts=22), trip("n1", city="Oslo", ts=22)], upgrade=True, archive=True)
    _require_all_agree(engine, history)
    assert len(_archived_commits(history)) > before
    assert not lists or _shown_by_hudi(engine, history) > archived
    _our_upserts(history, 23)
    history.table.metadata.compact()
    assert history.table.archive(keep_commits=1).instants_archived
    _require_all_agree(engine, history)
    history.table.close()
