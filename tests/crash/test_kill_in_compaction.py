"""A real process dies in a compaction: the records are as before, and the next process carries the plan out."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

import rli
from rli import Query, Step, Table
from rli.table.table import opened_table
from tests.crash.writes import STEPS_BEFORE_PUBLICATION, pointed
from tests.support.children import was_killed
from tests.support.faults import AtPoint, KillAt
from tests.support.metadata_tables import unpack_metadata_table
from tests.support.soak import EVERY_POINT

pytestmark = [pytest.mark.crash, pytest.mark.invariant("P58")]

EVERY_STEP = [step for step in Step if step not in {Step.TAGGED, Step.CHANGES_APPLIED}]
FEW_STEPS = [Step.INFLIGHT, Step.FILE_PROMOTED, Step.PUBLISHED]
STEPS = EVERY_STEP if EVERY_POINT else FEW_STEPS
EVERY_CHANGE = 1 if EVERY_POINT else 9


@pytest.fixture(scope="module", params=["v9_logs", "v6_logs"])
def copies(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """Makes copies of Hudi's table with log files, taken up by rli."""
    folder = tmp_path_factory.mktemp("compacted")
    original = unpack_metadata_table(request.param, folder)
    rli.open_table(original).bootstrap_index("simple:")
    numbers = iter(range(10_000))
    return lambda: Path(shutil.copytree(original, folder / f"copy-{next(numbers)}"))


def rows(path: Path, query: Query = Query.SNAPSHOT) -> list[tuple[str, int, str]]:
    return sorted((row["id"], row["ts"], row["v"]) for row in rli.open_table(path).read(query=query).to_pylist())


def die_at_step(path: Path, step: Step) -> None:
    """A child's work."""

    def on_step(reported: Step) -> None:
        if reported is step:
            os.kill(os.getpid(), signal.SIGKILL)

    rli.open_table(path).compact(on_step=on_step)


def die_at_change(path: Path, at_point: AtPoint) -> None:
    """A child's work."""
    pointed(rli.open_table(path), at_point).compact()


def require_recovery(path: Path, before: list[tuple[str, int, str]]) -> bool:
    """Compact again; returns whether the compaction that died took effect."""
    assert rows(path) == before
    table = rli.open_table(path)
    took_effect = rows(path, Query.READ_OPTIMIZED) == before
    assert bool(table.compact().instants) != took_effect
    assert rows(path) == rows(path, Query.READ_OPTIMIZED) == before
    require_nothing_left(table)
    return took_effect


def require_nothing_left(table: Table) -> None:
    timeline = opened_table(table).snapshot().timeline
    assert timeline.pending == ()
    times = timeline.write_times
    folder = Path(table.location)
    assert {path.stem.rpartition("_")[2] for path in folder.glob("[!.]*/*.parquet")} <= times
    assert [*folder.glob(".hoodie/.temp/*")] == [*folder.glob(".hoodie/.rli/work/*")] == []


def test_kill_at_a_step(copies: Callable[[], Path]) -> None:
    for step in STEPS:
        path = copies()
        before = rows(path)
        assert was_killed(die_at_step, path, step), step
        assert require_recovery(path, before) == (step not in STEPS_BEFORE_PUBLICATION), step


def test_kill_at_a_change(copies: Callable[[], Path]) -> None:
    points: list[str] = []
    die_at_change(copies(), points.append)
    outcomes = []
    changes = [number for number, point in enumerate(points, 1) if point.startswith("before")]
    for number in changes[::EVERY_CHANGE]:
        path = copies()
        before = rows(path)
        # How often a process renews its record depends on its time: one without so many changes ends by itself.
        is_dead = was_killed(die_at_change, path, KillAt(number))
        try:
            outcomes.append(require_recovery(path, before))
            assert is_dead or outcomes[-1]
        except BaseException as error:
            error.add_note(f"killed {points[number - 1]}")
            raise
    assert outcomes == sorted(outcomes)
    assert set(outcomes) == {False, True}
