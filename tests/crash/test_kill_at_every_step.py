"""A real process dies at every step of a write, and at every change that it makes: the next one finds all or nothing."""

from __future__ import annotations

import shutil
from itertools import count
from pathlib import Path

import pytest

from rli import Step
from tests.crash.conftest import Copies
from tests.crash.writes import (
    AFTER,
    STEPS_BEFORE_PUBLICATION,
    bootstrap_and_die,
    do_write,
    open_copy,
    pointed,
    read_rows,
    require_recovery,
    write_and_die_at_point,
    write_and_die_at_step,
)
from tests.support.children import was_killed
from tests.support.faults import KillAt
from tests.support.soak import EVERY_POINT, in_ci
from tests.support.tables import check_stored, records

pytestmark = pytest.mark.crash

FOLLOW_UPS = ("upsert", "rollback", "sync", "delete")
REPEATED = (Step.FILE_GROUP_WRITTEN, Step.FILE_PROMOTED)
WRITES = ("upsert", "delete", "merge", "delete_where", "update_where", "overwrite", "drop", "rollback")
DELETE_HAS_NO = (Step.RESOLVED,)
KILLS = [
    (write, step, occurrence)
    for write in WRITES
    if write not in {"drop", "rollback"}
    for step in Step
    for occurrence in ((1, 2) if step in REPEATED else (1,))
    if write != "delete" or step not in DELETE_HAS_NO
]


def test_steps_are_reported_once_per_file(template: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(template, tmp_path / "copy"))
    steps: list[Step] = []
    open_copy(folder).upsert(records(("n", "n", 1, 1.0), ("m", "m", 1, 1.0)), on_step=steps.append)
    assert list(dict.fromkeys(steps)) == list(Step)
    assert {step: steps.count(step) for step in Step} == {step: 2 if step in REPEATED else 1 for step in Step}


# The other writes are killed at changes between these steps (below).
@pytest.mark.every_case
@pytest.mark.parametrize(
    ("write", "step", "occurrence"), in_ci([kill for kill in KILLS if kill[0] in {"upsert", "delete"}], of=KILLS)
)
def test_a_kill_at_a_step(copies: Copies, write: str, step: Step, occurrence: int) -> None:
    folder = copies.make()
    assert was_killed(write_and_die_at_step, folder, write, step, occurrence)
    follow_up = FOLLOW_UPS[list(Step).index(step) % len(FOLLOW_UPS)]
    took_effect = require_recovery(folder, write, follow_up)
    assert took_effect == (step not in STEPS_BEFORE_PUBLICATION)


@pytest.mark.parametrize("step", list(Step))
def test_kill_at_step_with_index_server(copies: Copies, server_url: str, step: Step) -> None:
    folder = copies.make(server_url)
    assert was_killed(write_and_die_at_step, folder, "upsert", step, 1)
    took_effect = require_recovery(folder, "upsert", "delete")
    assert took_effect == (step not in STEPS_BEFORE_PUBLICATION)


@pytest.mark.invariant("P1", "P2")
@pytest.mark.parametrize("write", WRITES)
def test_a_kill_at_every_change(copies: Copies, write: str) -> None:
    kill_at_changes(copies, write, 1 if EVERY_POINT else 7)


@pytest.mark.invariant("P1", "P2")
@pytest.mark.parametrize("write", in_ci(["upsert", "update_where"], of=WRITES))
def test_kills_with_log_files(logged_copies: Copies, write: str) -> None:
    kill_at_changes(logged_copies, write, 1 if EVERY_POINT else 13)


def kill_at_changes(copies: Copies, write: str, every: int) -> None:
    """Kill a write before each so-many-th change that it makes, and require that it took effect as a whole or not at all."""
    points: list[str] = []
    folder = copies.make()
    do_write(pointed(open_copy(folder), points.append), write)
    assert read_rows(open_copy(folder)) == AFTER[write]
    before = [number for number, point in enumerate(points, 1) if point.startswith("before")]
    chosen = sorted({*before[::every], before[-1]})
    outcomes = []
    for number, follow_up in zip(chosen, (FOLLOW_UPS * len(chosen)), strict=False):
        folder = copies.make()
        assert was_killed(write_and_die_at_point, folder, write, KillAt(number)), points[number - 1]
        try:
            outcomes.append(require_recovery(folder, write, follow_up))
        except BaseException as error:
            error.add_note(f"killed {points[number - 1]}; then {follow_up}")
            raise
    # There is one change by which the write takes effect.
    assert outcomes == sorted(outcomes)
    assert set(outcomes) == {False, True}


@pytest.mark.invariant("P9")
def test_kill_during_cleanup_of_killed_write(copies: Copies) -> None:
    """The process that cleans up after a dead one dies itself, at every change that it makes."""
    for number in count(2, 1 if EVERY_POINT else 9):
        folder = copies.make()
        assert was_killed(write_and_die_at_step, folder, "upsert", Step.FILE_PROMOTED, 2)
        killed = was_killed(write_and_die_at_point, folder, "delete", KillAt(number))
        table = open_copy(folder)
        rows = read_rows(table)
        assert rows in (AFTER["bootstrap"], AFTER["delete"])
        table.upsert(records(("next", "y", 9, 9.0)))
        assert read_rows(table) == {**rows, "next": ("next", "y", 9, 9.0)}
        check_stored(table)
        table.drop_index()
        if not killed:
            break


def test_a_kill_in_a_bootstrap(copies: Copies) -> None:
    folder = copies.make()
    assert was_killed(bootstrap_and_die, folder)
    table = open_copy(folder)
    assert table.bootstrap_index(shards=3) == len(AFTER["bootstrap"])
    check_stored(table)
    assert require_recovery(folder, "bootstrap", "upsert")
