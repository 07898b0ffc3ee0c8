"""Log files among the files that commits have written: which are lost, and how the sums of slices count them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rli import Table, create_table, open_table
from rli.errors import CorruptTableError
from rli.table.table import opened_table
from rli.view.lost_files import lost_files, require_all_files, sums_after
from rli.view.slice_sums import SliceSum
from rli.view.snapshot import Snapshot
from rli.view.table_change import TableChange
from tests.support.log_files import DELTA, append_log, group_in, log_name, log_stat, with_logs, with_slice
from tests.support.tables import records, turn_into_version_9

LATER = "99990101000000002"


@pytest.fixture(params=[6, 9])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    index = f"memory:{tmp_path.name}"
    table = create_table(tmp_path / "t", record_key="id", partition_by="city", ordering="ts", index=index)
    if request.param == 9:
        turn_into_version_9(table)
        table = open_table(table.location)
    table.upsert(records(("a", "x", 1, 1.0), ("b", "y", 1, 1.0)))
    return table


def test_a_missing_log_is_lost(table: Table) -> None:
    stat = append_log(table, "x")
    now = Snapshot.now(opened_table(table).definition)
    assert lost_files(with_logs(now, stat.group, Path(stat.path).name)) == {}
    (lost,) = lost_files(now)[stat.group]
    assert (lost.path, lost.instant) == (stat.path, DELTA)
    assert lost_files(with_logs(now, stat.group, log_name(stat.group, "1")))[stat.group] == (lost,)


def test_a_lost_log_is_named(table: Table) -> None:
    stat = append_log(table, "x")
    with pytest.raises(CorruptTableError, match=f"a log file of the last commit is missing: file={stat.path}"):
        require_all_files(Snapshot.now(opened_table(table).definition))


def test_other_partitions_lose_nothing(table: Table) -> None:
    append_log(table, "x")
    assert lost_files(Snapshot.now(opened_table(table).definition), {"y"}) == {}


def test_newer_base_files_supersede_logs(table: Table) -> None:
    stat = append_log(table, "x")
    now = Snapshot.now(opened_table(table).definition)
    instants = (*now.timeline.instants, replace(now.timeline.completed_writes[0], time=LATER))
    now = replace(now, timeline=replace(now.timeline, instants=instants))
    assert lost_files(with_slice(now, replace(now.slices[stat.group], instant=LATER))) == {}


def test_slices_may_lack_base_files(table: Table) -> None:
    stat = append_log(table, "x")
    now = with_logs(Snapshot.now(opened_table(table).definition), stat.group, Path(stat.path).name)
    (lost,) = lost_files(with_slice(now, replace(now.slices[stat.group], base=None)))[stat.group]
    assert lost.path.endswith(".parquet")


def test_sums_count_log_files(table: Table) -> None:
    before = opened_table(table).snapshot()
    group = group_in(before, "x")
    name = log_name(group, DELTA)
    sums = sums_after(before, before.timeline, DELTA, TableChange(appended=(log_stat(group, name),)))
    now = with_logs(before, group, name)
    assert sums.whole == SliceSum.of((held.group, part) for held in now.slices.values() for part in held.parts)
    assert sums.whole.count == 3
    assert sums.partitions["x"][0] == SliceSum.of((group, part) for part in now.slices[group].parts)


def test_sums_forget_superseded_log_files(table: Table) -> None:
    before = opened_table(table).snapshot()
    group = group_in(before, "x")
    written = TableChange(written=before.change(before.timeline.completed_writes[0]).written[:1])
    assert {stat.group for stat in written.written} == {group}
    log = log_stat(group, log_name(group, DELTA))
    logged = with_logs(before, group, log_name(group, DELTA))
    first = sums_after(before, before.timeline, DELTA, TableChange(appended=(log,)))
    assert first.whole.count == 3
    again = sums_after(logged, before.timeline, LATER, written)
    assert again.whole == SliceSum.of(
        [(group, LATER), *((g, s.instant) for g, s in before.slices.items() if g != group)]
    )
