"""The process that migrates an index dies at any change that it makes, or is stopped past its lease (docs/protocol.md, P37).

The table keeps its former index or has the new one; writers go on, and a second migration finishes.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from rli import MigrationStep, RliError, Table, create_table, open_table
from rli.tasks import Item, Result
from rli.view import paths
from tests.crash.writes import die, pointed
from tests.support.children import stopping, was_killed
from tests.support.faults import AtPoint, KillAt, stop_this_process
from tests.support.index_kinds import stored_rows
from tests.support.soak import EVERY_POINT
from tests.support.tables import check_stored, records

pytestmark = [pytest.mark.crash, pytest.mark.invariant("P37")]

ROWS = [("a", "x", 1, 1.0), ("b", "x", 1, 1.0), ("c", "y", 1, 1.0)]
NEXT = ("a", "z", 2, 2.0)
LEASE_SECONDS = 0.3


def other_url(folder: Path) -> str:
    return f"lmdb://{folder}/other"


@pytest.fixture(params=["lmdb to lmdb", "lmdb to global-simple", "global-simple to lmdb"])
def way(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Callable[[Path], str]]:
    """A folder with a table, and the URL of the index that copies of it are to get."""
    folder = tmp_path / "template"
    before, _, after = str(request.param).partition(" to ")
    make_table(folder, "global-simple:" if before == "global-simple" else None)
    return folder, (lambda _: "global-simple:") if after == "global-simple" else other_url


def make_table(folder: Path, index: str | None, **settings: float) -> None:
    folder.mkdir()
    with create_table(
        folder / "table",
        record_key="id",
        partition_by="city",
        ordering="ts",
        index=index,
        small_file_size=0,
        **settings,  # type: ignore[arg-type]
    ) as table:
        table.upsert(records(*ROWS[:2]))
        table.upsert(records(*ROWS[2:]))


def migrate_and_die(folder: Path, to: str, at_point: AtPoint) -> None:
    """A child's work: a migration that reports each change of a file before it makes it."""
    migrate_pointed(folder, to, at_point)


def migrate_pointed(folder: Path, to: str, at_point: AtPoint) -> None:
    pointed(open_table(folder / "table"), at_point).migrate_index(to, drop_old=True)


def build_and_die(folder: Path, to: str) -> None:
    """A child's work: a migration that dies when half of the new index is built."""
    open_table(folder / "table").migrate_index(to, tasks=_Dying())


def step_and_die(folder: Path, to: str, step: MigrationStep) -> None:
    """A child's work: a migration that dies after a step."""
    open_table(folder / "table").migrate_index(to, on_step=lambda reached: die() if reached is step else None)


class _Dying:
    def run(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterable[Result]:
        yield function(items[0])
        die()


def require_recovery(folder: Path, to: str, opened_before: Table) -> None:
    """What a migration that died has left is used by readers and writers, and finished by the next one."""
    rows = {NEXT, *ROWS[1:]}
    assert opened_before.lookup(["a", "c"])["partition_path"].to_pylist() == ["x", "y"]
    assert opened_before.upsert(records(NEXT)).moved == 1
    with open_table(folder / "table") as table:
        assert table.lookup(["a"])["partition_path"].to_pylist() == ["z"]
        done = table.migrate_index(to, drop_old=True)
        assert done.index == table.settings.index_url == to
        assert table.lookup(["a", "b"])["partition_path"].to_pylist() == ["z", "x"]
        assert stored_rows(table) == rows
        check_stored(table)
    assert opened_before.delete(["a"]).deleted == 1


def test_a_kill_at_every_change(way: tuple[Path, Callable[[Path], str]], tmp_path: Path) -> None:
    template, url = way
    points: list[str] = []
    whole = copied(template, tmp_path / "whole")
    migrate_pointed(whole, url(whole), points.append)
    changes = [number for number, point in enumerate(points, 1) if point.startswith("before")]
    assert any("before replace" in point for point in points)
    for number in changes if EVERY_POINT else changes[::5]:
        folder = copied(template, tmp_path / str(number))
        with open_table(folder / "table") as opened_before:
            assert opened_before.lookup(["a"])["partition_path"].to_pylist() == ["x"]
            assert was_killed(migrate_and_die, folder, url(folder), KillAt(number)), points[number - 1]
            require_recovery(folder, url(folder), opened_before)
        shutil.rmtree(folder)


@pytest.mark.parametrize("step", [None, *MigrationStep][:-1])
def test_a_kill_after_every_step(tmp_path: Path, step: MigrationStep | None) -> None:
    folder = tmp_path / "copy"
    make_table(folder, None)
    to = other_url(folder)
    with open_table(folder / "table") as opened_before:
        assert opened_before.lookup(["a"])["partition_path"].to_pylist() == ["x"]
        if step is None:
            assert was_killed(build_and_die, folder, to)
        else:
            assert was_killed(step_and_die, folder, to, step)
        require_recovery(folder, to, opened_before)


def copied(template: Path, target: Path) -> Path:
    return Path(shutil.copytree(template, target))


def migrate_and_stop(folder: Path, answers: Connection) -> None:
    """A child's work: a migration that stops once it holds the lease, and is about to switch."""

    def stop(point: str) -> None:
        if point == f"before replace {paths.SETTINGS}":
            stop_this_process()

    try:
        migrate_pointed(folder, other_url(folder), stop)
        answers.send("done")
    except RliError as error:
        answers.send(type(error).__name__)


@pytest.mark.slow
@pytest.mark.parametrize("third", [None, "global-simple:"])
def test_migration_stopped_early_changes_nothing(tmp_path: Path, third: str | None) -> None:
    """Others that take its lease over write, or give the table yet another index: neither is undone by it."""
    folder = tmp_path / "folder"
    make_table(folder, f"lmdb://{folder}/index", lease_seconds=LEASE_SECONDS)
    with open_table(folder / "table") as other:
        with stopping(migrate_and_stop, folder) as stopped:
            if third is not None:
                other.migrate_index(third)
            assert other.upsert(records(NEXT)).moved == 1
        assert stopped.outcome == "LeaseLostError"
        assert other.lookup(["a"])["partition_path"].to_pylist() == ["z"]
    with open_table(folder / "table") as table:
        assert table.settings.index_url == (third or f"lmdb://{folder}/index")
        assert stored_rows(table) == {NEXT, *ROWS[1:]}
        check_stored(table)
