"""Hudi reads and writes tables whose metadata table rli has built."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from rli import Table, create_table, open_table
from tests.crash.writes import pointed
from tests.support.children import was_killed
from tests.support.histories import Layout
from tests.support.hudi import STAY_ON_VERSION_6, HudiEngine
from tests.support.hudi_options import BY_RECORD_INDEX, NEWEST, table_options, with_hudi
from tests.support.metadata_tables import metadata_reader
from tests.support.soak import FACTOR, in_ci
from tests.support.tables import records, rows_of, turn_into_version_8, turn_into_version_9

pytestmark = [pytest.mark.hudi, pytest.mark.spark, pytest.mark.slow, pytest.mark.invariant("P53")]

_PARTITIONS: Final = ("files", "column_stats", "bloom_filters", "record_index")
_TURNS: Final = {9: turn_into_version_9, 8: turn_into_version_8}
_READING: Final = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"}
_KEPT_BY_HUDI: Final = {
    **BY_RECORD_INDEX,
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.compact.max.delta.commits": "1",
    "hoodie.clean.automatic": "false",
}


@with_hudi(NEWEST, "0.15.0", in_soak=("1.0.2",))
def test_hudi_goes_on_with_births(engine: HudiEngine, tmp_path: Path) -> None:
    for version in [9, 6][:FACTOR] if engine.version == NEWEST else [6]:
        table = _table(tmp_path / str(version), version)
        partitions = [*_PARTITIONS, *(["partition_stats"] if version == 9 else [])]
        assert "record_index" in table.metadata.enable(partitions).added
        _require_same_reads(engine, table)
        for number in range(2):
            # One key moves nowhere, one is new: a wrong index would store the first one twice.
            rows = (("a", "x", 10 + number, 1.0 + number), (f"new {number}", "y", 1, 2.0))
            engine.write(table.location, records(*rows), _writing(engine, version))
            table.sync_index()
            table.delete(["b"])
            # Hudi's next compaction is over ours, which leaves a file group without a record.
            assert number or table.metadata.compact().instant
            assert table.metadata.verify() == (), number
            table.upsert(records(("b", "y", 1, 5.0 + number)))
            assert table.metadata.verify() == (), number
            assert len(rows_of(table)) == 5 + number
        assert {found.partition for found in table.metadata.status().partitions} == {*partitions}
        _require_same_reads(engine, table)
        if engine.version == "0.15.0":
            _require_reads_past_stale_statistics(engine, table)
        table.close()


def _require_reads_past_stale_statistics(engine: HudiEngine, table: Table) -> None:
    """Hudi 0.15 does not know the statistics of partitions, and commits without them."""
    table.metadata.enable(["partition_stats"])
    engine.write(table.location, records(("c", "y", 99, 99.0)), _writing(engine, 6))
    assert {found.partition for found in table.metadata.verify()} == {"partition_stats"}
    assert table.read(filters="v > 90")["id"].to_pylist() == ["c"]


@with_hudi(NEWEST, in_soak=("1.0.2", "0.15.0"))
def test_hudi_reads_behind_our_crash(engine: HudiEngine, tmp_path: Path) -> None:
    """As files come into the metadata table, and between its deltacommit and the commit of the table."""
    version = {NEWEST: 9, "1.0.2": 8}.get(engine.version, 6)
    for number, step in enumerate(in_ci(_STEPS[:1], of=_STEPS)):
        table = _table_with_all(tmp_path / str(number), version)
        before = rows_of(table)
        assert was_killed(_upsert_and_die, table.location, step)
        completed = {instant.time for instant in metadata_reader(Path(table.location)).timeline.completed}
        pending = {instant.time for instant in table.timeline() if instant.state != "completed"}
        assert bool(completed & pending) is (step == _STEPS[0])
        assert rows_of(table) == before
        _require_same_reads(engine, table)
        rows = records(("new 1", "y", 1, 2.0))
        if number % 2 == 0:
            engine.write(table.location, rows, _writing(engine, version))
            table.sync_index()
        else:
            table.upsert(rows)
        assert [row["id"] for row in rows_of(table)] == ["a", "b", "c", "d", "new 1"], number
        assert table.metadata.verify() == (), number
        _require_same_reads(engine, table)
        table.close()


_ROWS: Final = records(("a", "y", 9, 9.0), ("new 1", "x", 9, 1.0))
"""A key that is known, in another partition, and a new one."""


_STEPS: Final = (
    r"before publish \.hoodie/[^/]*(/[^/]*)?\.commit$",
    r"before publish \.hoodie/metadata/.*\.deltacommit$",
    r"before move .*/record_index/",
    r"before move .*/files/",
    r"before move .*/column_stats/",
    r"before move .*\.deltacommit\.requested$",
)
"""The commit of the table, and what a commit does before in its metadata table, the last step first."""


def _die_before(step: str, point: str) -> None:
    if re.match(step, point):
        os.kill(os.getpid(), signal.SIGKILL)


def _upsert_and_die(location: str, step: str) -> None:
    pointed(open_table(location), partial(_die_before, step)).upsert(_ROWS)


def _table_with_all(folder: Path, version: int) -> Table:
    table = _table(folder, version)
    table.metadata.enable(_PARTITIONS)
    return table


def _table(folder: Path, version: int) -> Table:
    table = create_table(
        folder / "t", record_key="id", partition_by="city", ordering="ts", name="trips", index=f"lmdb://{folder}/index"
    )
    if version in _TURNS:
        _TURNS[version](table)
        # Before its first commit, so that no definition names the columns.
        table.metadata.enable(["files", "column_stats"])
    table.upsert(records(("a", "x", 1, 1.0), ("b", "y", 1, 2.0), ("c", "y", 1, 3.0)))
    table.upsert(records(("b", "z", 2, 20.0), ("d", "x", 1, 4.0)))
    table.metadata.enable(["files", "column_stats"])
    return table


def _writing(engine: HudiEngine, version: int) -> dict[str, str]:
    stays = STAY_ON_VERSION_6 if version == 6 and engine.version != "0.15.0" else {}
    layout = Layout(partition_by=("city",), hive_style=False)
    return {**table_options(layout), **_KEPT_BY_HUDI, **stays, "hoodie.datasource.write.operation": "upsert"}


def _require_same_reads(engine: HudiEngine, table: Table) -> None:
    """With the metadata table and without it, and as rli."""
    wheres: list[tuple[str | None, Callable[[tuple[object, ...]], bool]]] = [
        (None, lambda _: True),
        ("id in ('b', 'new 1')", lambda row: row[0] in {"b", "new 1"}),
        ("v > 3.5", lambda row: float(str(row[3])) > 3.5),
        ("city = 'y' and v < 2.5", lambda row: row[1] == "y" and float(str(row[3])) < 2.5),
    ]
    mine = [tuple(row.values()) for row in table.read().to_pylist()]
    for where, passes in wheres:
        expected = sorted(row for row in mine if passes(row))
        for options in (_READING, {"hoodie.metadata.enable": "false"}):
            found = engine.read(table.location, options, where).select(table.read().column_names).to_pylist()
            assert sorted(tuple(row.values()) for row in found) == expected, (where, options)
