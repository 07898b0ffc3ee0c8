"""Partitions of the metadata table come, are compacted and archived in an object store, where a move is a copy and a deletion."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from rli import LeasePlace, RliError, Table
from rli.table.table import opened_table
from tests.crash.writes import FIRST, SECOND, die, index_url, open_copy, place_table, pointed, read_rows
from tests.storage.test_writers import LEASE_SECONDS, new_table
from tests.support.children import stopping, was_killed
from tests.support.faults import stop_this_process
from tests.support.object_store import ObjectStore
from tests.support.requests import at_requests
from tests.support.soak import EVERY_POINT, in_ci
from tests.support.tables import check_stored, records

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.invariant("P53")]

_PARTITIONS = ("files", "column_stats")
_DONE = "done"
_LOST = "LeaseLostError"
_POINTS = 1
"""In CI."""

Change = Callable[[Table], object]


def enable(table: Table) -> None:
    table.metadata.enable(_PARTITIONS)


def compact(table: Table) -> None:
    table.metadata.compact()


def archive(table: Table) -> None:
    table.archive(keep_commits=1)


class Copies:
    """Copies of a table, each in a bucket of its own, before a change of its metadata table."""

    def __init__(self, server: ObjectStore, folder: Path, change: Change) -> None:
        self._server, self._folder, self._numbers = server, folder, count()
        self._template = folder / "template"
        self._template.mkdir()
        with new_table(server, index_url(self._template), LeasePlace.INDEX, LEASE_SECONDS) as table:
            table.upsert(records(*FIRST))
            table.upsert(records(*SECOND))
            if change is not enable:
                enable(table)
                table.delete(["a"])
            if change is archive:
                compact(table)
            self._bucket = opened_table(table).definition.storage.root.partition("/")[0]

    def make(self) -> Path:
        folder = Path(shutil.copytree(self._template, self._folder / str(next(self._numbers))))
        place_table(folder, f"s3://{self._server.copy_of(self._bucket)}/t", self._server.options)
        return folder


@pytest.fixture(params=in_ci([compact], of=[enable, compact, archive]))
def change(request: pytest.FixtureRequest) -> Change:
    found: Change = request.param
    return found


@pytest.fixture
def copies(object_store: ObjectStore, tmp_path: Path, change: Change) -> Copies:
    return Copies(object_store, tmp_path, change)


def _change_with(folder: Path, change: Change, number: int, act: Callable[[], None]) -> int:
    """Make a change, act before its n-th request from the first move or publication on; returns how many there were."""
    passed = [0]

    def before(_name: str) -> None:
        passed[0] += 1
        if passed[0] == number:
            act()

    requests, table = at_requests(before), open_copy(folder)
    is_on = [False]

    def at_point(point: str) -> None:
        if not is_on[0] and point.startswith(("before move", "before publish")):
            is_on[0] = True
            requests.__enter__()

    try:
        change(pointed(table, at_point))
    finally:
        if is_on[0]:
            requests.__exit__(None, None, None)
    return passed[0]


def change_and_die(folder: Path, change: Change, number: int) -> None:
    """A child's work: a change that dies before one of its requests."""
    _change_with(folder, change, number, die)


def change_and_stop(folder: Path, change: Change, number: int, answers: Connection) -> None:
    """A child's work: a change that stops before one of its requests."""
    try:
        _change_with(folder, change, number, stop_this_process)
        answers.send(_DONE)
    except RliError as error:
        answers.send(type(error).__name__)


def _numbers(copies: Copies, change: Change) -> Sequence[int]:
    total = _change_with(copies.make(), change, 0, die)
    assert total > _POINTS
    return range(1, total + 1) if EVERY_POINT else [total * part // (_POINTS + 1) for part in range(1, _POINTS + 1)]


def _require_alive(table: Table, number: int) -> None:
    rows = read_rows(table)
    assert table.metadata.verify() == (), number
    enable(table)
    table.upsert(records(("next", "y", 9, 9.0)))
    compact(table)
    archive(table)
    assert table.metadata.verify() == (), number
    assert len(table.metadata.status().partitions) == len(_PARTITIONS), number
    assert read_rows(table) == {**rows, "next": ("next", "y", 9, 9.0)}, number
    check_stored(table)


def test_interrupted_changes_of_metadata_tables(copies: Copies, change: Change) -> None:
    """The process of a change dies, or goes on after others have changed the table."""
    for number in _numbers(copies, change):
        folder = copies.make()
        assert was_killed(change_and_die, folder, change, number), number
        with open_copy(folder) as table:
            _require_alive(table, number)
        folder = copies.make()
        with open_copy(folder) as table:
            with stopping(change_and_stop, folder, change, number) as stopped:
                table.upsert(records(("later", "x", 1, 1.0)))
                change(table)
            assert stopped.outcome in {_DONE, _LOST}, number
            _require_alive(table, number)
