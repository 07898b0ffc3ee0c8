"""The timeline of the metadata table does not grow without end: its instants leave it behind those of the table."""

from __future__ import annotations

from pathlib import Path

import pytest

from rli import Table
from rli.hudi.metadata.metadata_files import metadata_layout
from rli.hudi.timeline.archive import Archive
from rli.hudi.timeline.instant import Action
from rli.table.table import opened_table
from tests.support.metadata_tables import differences, metadata_reader
from tests.table.test_metadata_upkeep import LATER, opened, with_values

pytestmark = pytest.mark.invariant("P54")


def _round(table: Table, number: int) -> None:
    for step in range(2):
        table.upsert(with_values(table.read(), ts=LATER + 10 * number + step))
    table.metadata.compact()
    table.archive(keep_commits=1)


def _active(path: Path) -> list[str]:
    return [instant.time for instant in metadata_reader(path).timeline.completed]


@pytest.mark.parametrize("name", ["v9", "v6"])
def test_instants_of_metadata_table_leave(name: str, tmp_path: Path) -> None:
    table, path = opened(name, tmp_path)
    born = _active(path)
    sizes = []
    for number in range(4):
        _round(table, number)
        sizes.append(len(_active(path)))
        assert differences(path) == []
    assert sizes[-1] == sizes[1] < len(born)
    layout = metadata_layout(opened_table(table).definition.timeline_layout)
    assert not Archive(opened_table(table).definition.storage, layout).is_empty()


@pytest.mark.parametrize("name", ["v9", "v6"])
def test_shown_instants_of_table_stay(name: str, tmp_path: Path) -> None:
    """Hudi rolls a commit back in the metadata table, too, and looks for it there."""
    table, path = opened(name, tmp_path)
    for number in range(3):
        _round(table, number)
    shown = {instant.time for instant in table.timeline() if instant.action == Action.COMMIT}
    assert shown <= {*_active(path)}
    table.upsert(with_values(table.read(), ts=LATER + 100))
    table.rollback("last")
    assert differences(path) == []


def test_unmerged_instants_stay_at_archive(tmp_path: Path) -> None:
    table, path = opened("v9", tmp_path)
    _round(table, 0)
    merged = {*_active(path)}
    for step in range(3):
        table.upsert(with_values(table.read(), ts=LATER + 5 + step))
    unmerged = {*_active(path)} - merged
    table.archive(keep_commits=1)
    assert unmerged <= {*_active(path)}
    assert differences(path) == []
