"""A real process dies in a clustering: rows and look-ups are as before, and the next process finishes or undoes it."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

from rli import Step, Table
from rli.table.table import opened_table
from tests.crash.conftest import Copies
from tests.crash.writes import (
    BEFORE,
    STEPS_BEFORE_PUBLICATION,
    do_write,
    open_copy,
    pointed,
    read_rows,
    require_honest_lookups,
    write_and_die_at_point,
    write_and_die_at_step,
)
from tests.support.children import was_killed
from tests.support.faults import KillAt
from tests.support.soak import EVERY_POINT, in_ci
from tests.support.table_model import upserted
from tests.support.tables import check_stored, records

pytestmark = pytest.mark.crash

STEPS: Final[list[Step]] = [step for step in Step if step is not Step.TAGGED]
FOLLOW_UPS: Final = ("upsert", "rollback", "cluster", "sync")
BATCH: Final = [("a", "z", 9, 9.0), ("e", "y", 9, 9.0), ("next", "y", 9, 9.0)]


def test_every_step_is_reported(scattered_copies: Copies) -> None:
    steps: list[Step] = []
    result = open_copy(scattered_copies.make()).cluster(on_step=steps.append)
    assert (result.files_replaced, result.files_created) == (2, 1)
    assert list(dict.fromkeys(steps)) == STEPS


@pytest.mark.parametrize("step", STEPS)
def test_a_kill_at_a_step(scattered_copies: Copies, step: Step) -> None:
    folder = scattered_copies.make()
    assert was_killed(write_and_die_at_step, folder, "cluster", step, 1)
    took_effect = require_recovery(folder, FOLLOW_UPS[STEPS.index(step) % len(FOLLOW_UPS)])
    assert took_effect == (step not in STEPS_BEFORE_PUBLICATION)


@pytest.mark.parametrize("step", in_ci([Step.PUBLISHED], of=[Step.PROMOTED, Step.PUBLISHED, Step.CHANGES_APPLIED]))
def test_kill_at_step_with_index_server(scattered_copies: Copies, server_url: str, step: Step) -> None:
    folder = scattered_copies.make(server_url)
    assert was_killed(write_and_die_at_step, folder, "cluster", step, 1)
    took_effect = require_recovery(folder, "upsert")
    assert took_effect == (step not in STEPS_BEFORE_PUBLICATION)


@pytest.mark.parametrize("write", ["cluster", "rollback"])
def test_kill_in_clustering_and_its_rollback(scattered_copies: Copies, write: str) -> None:
    points: list[str] = []
    do_write(pointed(_prepared(scattered_copies, write), points.append), write)
    outcomes = []
    changes = [number for number, point in enumerate(points, 1) if point.startswith("before")]
    for number, follow_up in zip(changes if EVERY_POINT else changes[::9], cycle(FOLLOW_UPS), strict=False):
        folder = Path(_prepared(scattered_copies, write).location).parent
        assert was_killed(write_and_die_at_point, folder, write, KillAt(number)), points[number - 1]
        try:
            outcomes.append(require_recovery(folder, follow_up))
        except BaseException as error:
            error.add_note(f"killed {points[number - 1]}; then {follow_up}")
            raise
    assert outcomes == sorted(outcomes, reverse=write == "rollback")
    assert set(outcomes) == {False, True}


def _prepared(copies: Copies, write: str) -> Table:
    """A copy on which a clustering, or the rollback of one, is to be made."""
    table = open_copy(copies.make())
    if write == "rollback":
        table.cluster()
    return table


def require_recovery(folder: Path, follow_up: str) -> bool:
    """Check a table whose clusterer was killed, before and after the next write; whether the table is clustered."""
    table = open_copy(folder)
    assert read_rows(table) == BEFORE
    require_honest_lookups(table, BEFORE)
    is_clustered = _is_clustered(table)
    expected = BEFORE
    if follow_up == "upsert":
        table.upsert(records(*BATCH))
        expected = upserted(BEFORE, BATCH).rows
    elif follow_up == "cluster":
        table.cluster()
        assert _is_clustered(table)
    elif follow_up == "rollback" and is_clustered:
        do_write(table, "rollback")
        assert not _is_clustered(table)
    else:
        table.sync_index()
    assert read_rows(table) == expected
    _require_instants_of_commits(table)
    check_stored(table)
    table.drop_index()
    table.close()
    return is_clustered


def _is_clustered(table: Table) -> bool:
    return "replacecommit" in {instant.action for instant in opened_table(table).snapshot().timeline.completed_writes}


def _require_instants_of_commits(table: Table) -> None:
    """Look-ups name the commits that placed the records, never a clustering."""
    commits = [instant.time for instant in table.timeline() if instant.action == "commit"]
    found = table.lookup(pa.array(sorted(BEFORE))).column("instant_time").to_pylist()
    assert set(found) <= set(commits)
