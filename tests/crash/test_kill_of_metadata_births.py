"""A process dies at each change by which it makes, compacts, archives or removes partitions of the metadata table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rli import Table
from tests.crash.changes import changes_to_kill
from tests.crash.conftest import Copies
from tests.crash.writes import BATCH, open_copy, pointed, read_rows
from tests.support.children import was_killed
from tests.support.faults import AtPoint, KillAt
from tests.support.tables import records

pytestmark = [pytest.mark.crash, pytest.mark.invariant("P53"), pytest.mark.invariant("P54")]

_PARTITIONS = ("files", "column_stats")

Change = Callable[[Path, AtPoint], None]


def enable(table: Table) -> None:
    table.metadata.enable(_PARTITIONS)


def enable_and_die(folder: Path, at_point: AtPoint) -> None:
    """A child's work: new partitions, whose process reports each change before it makes it."""
    enable(pointed(open_copy(folder), at_point))


def join_and_die(folder: Path, at_point: AtPoint) -> None:
    """A child's work: a partition that joins others."""
    pointed(open_copy(folder), at_point).metadata.enable(["bloom_filters"])


def disable_and_die(folder: Path, at_point: AtPoint) -> None:
    """A child's work: the removal of the metadata table."""
    pointed(open_copy(folder), at_point).metadata.disable()


def compact_and_die(folder: Path, at_point: AtPoint) -> None:
    """A child's work: a compaction of the metadata table."""
    pointed(open_copy(folder), at_point).metadata.compact()


def archive_and_die(folder: Path, at_point: AtPoint) -> None:
    """A child's work: an archive of the table and of its metadata table."""
    pointed(open_copy(folder), at_point).archive(keep_commits=1)


@pytest.mark.parametrize(
    ("change", "every"),
    [(enable_and_die, 9), (join_and_die, 9), (disable_and_die, 5), (compact_and_die, 5), (archive_and_die, 9)],
)
def test_kill_at_changes_of_metadata_table(copies: Copies, copies_9: Copies, change: Change, every: int) -> None:
    """The metadata table says what the table says all the time, and the next call does what was wanted."""
    chosen = copies_9 if change in {join_and_die, archive_and_die} else copies
    points: list[str] = []
    once = _prepared(chosen, change)
    with open_copy(once) as table:
        rows = read_rows(table)
    change(once, points.append)
    for number in changes_to_kill(points, every):
        folder = _prepared(chosen, change)
        assert was_killed(change, folder, KillAt(number)), points[number - 1]
        with open_copy(folder) as table:
            assert read_rows(table) == rows, points[number - 1]
            assert table.metadata.verify() == (), points[number - 1]
            table.metadata.enable([*_PARTITIONS, "bloom_filters"])
            assert len(table.metadata.status().partitions) == 3, points[number - 1]
            assert table.metadata.verify() == (), points[number - 1]
            table.metadata.compact()
            table.archive(keep_commits=1)
            table.upsert(records(*BATCH))
            assert table.metadata.verify() == (), points[number - 1]
            _require_no_leftovers(folder, points[number - 1])


def _prepared(copies: Copies, change: Change) -> Path:
    folder = copies.make()
    if change is not enable_and_die:
        with open_copy(folder) as table:
            enable(table)
            if change in {compact_and_die, archive_and_die}:
                table.delete(["a"])
            if change is archive_and_die:
                table.metadata.compact()
    return folder


def _require_no_leftovers(folder: Path, point: str) -> None:
    metadata = folder / "table" / ".hoodie"
    assert not [*(metadata / ".rli").glob("metadata/*")], point
    assert not [*(metadata / ".rli").glob("prepared/*")], point
