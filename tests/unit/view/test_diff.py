"""What changed between two states: also a file group that only got a log file."""

from __future__ import annotations

from pathlib import Path

import pytest

from rli import Table, create_table
from rli.table.table import opened_table
from rli.view.diff import GroupChange, changed_groups, diff
from tests.support.log_files import group_in, log_name, with_logs
from tests.support.tables import records


@pytest.fixture
def table(tmp_path: Path) -> Table:
    table = create_table(
        tmp_path / "t", record_key="id", partition_by="city", ordering="ts", index=f"memory:{tmp_path.name}"
    )
    table.upsert(records(("a", "x", 1, 1.0), ("b", "y", 1, 1.0)))
    return table


def test_an_appended_log_changes_a_slice(table: Table) -> None:
    before = opened_table(table).snapshot()
    group = group_in(before, "x")
    now = with_logs(before, group, log_name(group, "1"))
    expected = (GroupChange(group, before.slices[group], now.slices[group]),)
    assert changed_groups(before, now) == changed_groups(before, now, [group]) == expected
    assert changed_groups(before, now, [group_in(before, "y")]) == ()


def test_a_commit_changes_its_groups(table: Table) -> None:
    before = opened_table(table).snapshot()
    result = table.upsert(records(("a", "x", 2, 2.0), ("c", "z", 2, 2.0)))
    found = diff(before, opened_table(table).snapshot())
    assert found is not None
    assert found.instants == (result.instant,)
    assert [change.group.partition_path for change in found.groups] == ["x", "z"]
    assert [change.before is None for change in found.groups] == [False, True]


def test_an_undone_commit_is_a_difference(table: Table) -> None:
    result = table.upsert(records(("a", "x", 2, 2.0)))
    before = opened_table(table).snapshot()
    table.rollback("last")
    found = diff(before, opened_table(table).snapshot())
    assert found is not None
    assert found.instants == (result.instant,)
    assert [change.group.partition_path for change in found.groups] == ["x"]


def test_equal_states_do_not_differ(table: Table) -> None:
    assert diff(opened_table(table).snapshot(), opened_table(table).snapshot()) is None
