"""What changed between two states: also a file group that only got a log file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from rli import Table, create_table
from rli.model import FileGroupId
from rli.view.diff import GroupChange, changed_groups, diff
from rli.view.file_slices import DataFile, FileSlice
from rli.view.snapshot import Snapshot
from tests.support.tables import records


@dataclass(frozen=True)
class Listed:
    """A listing from elsewhere than the table's folders."""

    slices: tuple[FileSlice, ...]

    def all_slices(self) -> list[FileSlice]:
        return [*self.slices]

    def slices_of(self, partition_path: str) -> list[FileSlice]:
        return [found for found in self.slices if found.group.partition_path == partition_path]

    def requests_of_all(self) -> float:
        return 1.0


@pytest.fixture
def table(tmp_path: Path) -> Table:
    table = create_table(
        tmp_path / "t", record_key="id", partition_by="city", ordering="ts", index=f"memory:{tmp_path.name}"
    )
    table.upsert(records(("a", "x", 1, 1.0), ("b", "y", 1, 1.0)))
    return table


def with_log(snapshot: Snapshot, group: FileGroupId) -> Snapshot:
    """The state after a log file was appended to a file group."""
    log = DataFile(f"{group.partition_path}/.{group.file_id}_1.log.1_0-0-0", 10)
    slices = snapshot.slices.values()
    appended = (replace(found, logs=(log,)) if found.group == group else found for found in slices)
    return replace(snapshot, listing=Listed(tuple(appended)))


def group_in(snapshot: Snapshot, partition_path: str) -> FileGroupId:
    (found,) = snapshot.slices.of_partitions([partition_path])
    return found.group


def test_an_appended_log_changes_a_slice(table: Table) -> None:
    before = table.snapshot()
    group = group_in(before, "x")
    now = with_log(before, group)
    expected = (GroupChange(group, before.slices[group], now.slices[group]),)
    assert changed_groups(before, now) == changed_groups(before, now, [group]) == expected
    assert changed_groups(before, now, [group_in(before, "y")]) == ()


def test_a_commit_changes_its_groups(table: Table) -> None:
    before = table.snapshot()
    result = table.upsert(records(("a", "x", 2, 2.0), ("c", "z", 2, 2.0)))
    found = diff(before, table.snapshot())
    assert found is not None
    assert found.instants == (result.instant,)
    assert [change.group.partition_path for change in found.groups] == ["x", "z"]
    assert [change.before is None for change in found.groups] == [False, True]


def test_an_undone_commit_is_a_difference(table: Table) -> None:
    result = table.upsert(records(("a", "x", 2, 2.0)))
    before = table.snapshot()
    table.rollback("last")
    found = diff(before, table.snapshot())
    assert found is not None
    assert found.instants == (result.instant,)
    assert [change.group.partition_path for change in found.groups] == ["x"]


def test_equal_states_do_not_differ(table: Table) -> None:
    assert diff(table.snapshot(), table.snapshot()) is None
