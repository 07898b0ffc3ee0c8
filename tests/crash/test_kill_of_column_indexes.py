"""A process dies at each change by which it makes, builds or drops an index on a column."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from unittest.mock import patch

import pytest

from rli import ColumnIndexState, Table
from rli.store.contract import Store
from rli.store.registry import open_store
from rli.view.file_slices import FileSlice
from tests.crash.conftest import Copies
from tests.crash.writes import BATCH, open_copy, pointed, read_rows
from tests.support.children import was_killed
from tests.support.faults import AtPoint, KillAt, PointedStore
from tests.support.soak import EVERY_POINT, in_ci
from tests.support.tables import records

pytestmark = [pytest.mark.crash, pytest.mark.invariant("P59")]

_POINTS = 1_000 if EVERY_POINT else 4
"""At how many changes a process dies."""

_OPENERS = ("beside", "stored_column")

Change = Callable[[Path, AtPoint], None]


def _small_shards(slices: Sequence[FileSlice], _: object = None) -> list[list[FileSlice]]:
    return [[one] for one in slices]


@contextmanager
def _pointed_stores(at_point: AtPoint) -> Iterator[None]:
    """The stores of columns report their changes, too."""

    def opened(url: str, *, create: bool = False) -> Store:
        return PointedStore(open_store(url, create=create), at_point)

    first, second = (f"rli.index.record.columns.{module}.open_store" for module in _OPENERS)
    stored, in_metadata = (
        f"rli.{module}.shards" for module in ("index.record.columns.building", "metadata_table.kept_shards")
    )
    with patch(first, opened), patch(second, opened), patch(stored, _small_shards), patch(in_metadata, _small_shards):
        yield


def create_and_die(folder: Path, at_point: AtPoint) -> None:
    """A child's work: an index, made at once."""
    with _pointed_stores(at_point):
        _create(pointed(open_copy(folder), at_point))


def schedule_and_die(folder: Path, at_point: AtPoint) -> None:
    """A child's work: an index that is scheduled, then built."""
    with _pointed_stores(at_point):
        table = pointed(open_copy(folder), at_point)
        table.create_index("by_ts", on="ts", wait=False)
        table.build_indexes()


def drop_and_die(folder: Path, at_point: AtPoint) -> None:
    """A child's work: an index that goes."""
    with _pointed_stores(at_point):
        pointed(open_copy(folder), at_point).drop_index("by_ts")


@pytest.mark.parametrize(
    ("change", "version"),
    in_ci(
        [(create_and_die, 9), (schedule_and_die, 6), (drop_and_die, 9)],
        of=[*product((create_and_die, schedule_and_die, drop_and_die), (6, 9))],
    ),
)
def test_kill_at_changes_of_indexes(copies: Copies, copies_9: Copies, change: Change, version: int) -> None:
    """What readers find is what is there, and one command makes the index, or drops it."""
    chosen = copies_9 if version == 9 else copies
    points: list[str] = []
    change(_prepared(chosen, change), points.append)
    numbers = [number for number, point in enumerate(points, 1) if point.startswith("before")]
    for turn, number in enumerate(numbers[:: -(-len(numbers) // _POINTS)]):
        folder, point = _prepared(chosen, change), points[number - 1]
        assert was_killed(change, folder, KillAt(number)), point
        with open_copy(folder) as table:
            _require_same(table, point)
            table.upsert(records(*BATCH))
            table.clean(keep_commits=1)
            table.metadata.compact()
            _require_same(table, point)
            if turn % 2:
                _create(table)
                assert _states(table) == [ColumnIndexState.VALID], point
                _require_same(table, point)
            if _states(table):
                table.drop_index("by_ts")
            table.build_indexes()
            assert _states(table) == [], point
            _require_same(table, point)
            assert table.metadata.verify() == (), point
            table.clean()
            for left in ("dropped_indexes/*", "builds/*/*/*"):
                assert not [*(folder / "table" / ".hoodie" / ".rli").glob(left)], point


def _create(table: Table) -> None:
    table.create_index("by_ts", on="ts")


def _prepared(copies: Copies, change: Change) -> Path:
    folder = copies.make()
    if change is drop_and_die:
        with open_copy(folder) as table:
            _create(table)
    return folder


def _states(table: Table) -> list[ColumnIndexState]:
    return [index.state for index in table.indexes() if index.name == "by_ts"]


def _require_same(table: Table, point: str) -> None:
    rows = read_rows(table)
    for ts in (1, 2, 3, 4):
        expected = sorted(key for key, row in rows.items() if row[2] == ts)
        assert sorted(table.get(where={"ts": [ts]})["id"].to_pylist()) == expected, point
        assert sorted(table.read(filters=f"ts = {ts}")["id"].to_pylist()) == expected, point
