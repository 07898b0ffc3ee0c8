"""A real process dies in a write of a table that another host, with an index of its own, goes on to write."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path

import pytest

from rli import Step
from tests.crash.conftest import Copies
from tests.crash.test_kill_at_any_time import SEED, expected, write
from tests.crash.writes import (
    AFTER,
    STEPS_BEFORE_PUBLICATION,
    do_write,
    index_url,
    open_copy,
    other_index_url,
    place_index,
    pointed,
    read_rows,
    require_recovery,
    write_and_die_at_point,
    write_and_die_at_step,
)
from tests.support.children import pipe, start_child, was_killed
from tests.support.faults import KillAt
from tests.support.leased_tables import leased_by_the_table
from tests.support.soak import EVERY_POINT, cases
from tests.support.table_model import Rows
from tests.support.tables import check_stored, records

pytestmark = pytest.mark.crash

FOLLOW_UPS = ("upsert", "delete", "sync", "rollback")


def require_recovery_elsewhere(folder: Path, write: str, follow_up: str) -> bool:
    """Check the table from where the other index is, and then from where the process was killed."""
    first = index_url(folder)
    place_index(folder, other_index_url(folder))
    open_copy(folder).sync_index()
    took_effect = require_recovery(folder, write, follow_up)
    place_index(folder, first)
    with open_copy(folder) as table:
        rows = read_rows(table)
        table.upsert(records(("last", "y", 9, 9.0)))
        assert read_rows(table) == {**rows, "last": ("last", "y", 9, 9.0)}
        check_stored(table)
    return took_effect


@pytest.mark.parametrize("step", list(Step))
def test_a_kill_at_a_step(leased_copies: Copies, step: Step) -> None:
    folder = leased_copies.make()
    assert was_killed(write_and_die_at_step, folder, "upsert", step, 1)
    took_effect = require_recovery_elsewhere(folder, "upsert", FOLLOW_UPS[list(Step).index(step) % len(FOLLOW_UPS)])
    assert took_effect == (step not in STEPS_BEFORE_PUBLICATION)


@pytest.mark.slow
def test_kill_at_file_and_store_changes(leased_copies: Copies) -> None:
    points: list[str] = []
    folder = leased_copies.make()
    do_write(pointed(open_copy(folder), points.append), "upsert")
    assert read_rows(open_copy(folder)) == AFTER["upsert"]
    before = [number for number, point in enumerate(points, 1) if point.startswith("before")]
    outcomes = []
    for number, follow_up in zip(before[:: 1 if EVERY_POINT else 9], FOLLOW_UPS * len(before), strict=False):
        folder = leased_copies.make()
        assert was_killed(write_and_die_at_point, folder, "upsert", KillAt(number)), points[number - 1]
        try:
            outcomes.append(require_recovery_elsewhere(folder, "upsert", follow_up))
        except BaseException as error:
            error.add_note(f"killed {points[number - 1]}; then {follow_up}")
            raise
    assert outcomes == sorted(outcomes)
    assert set(outcomes) == {False, True}


@pytest.mark.slow
def test_kills_of_hosts_taking_turns(tmp_path: Path) -> None:
    print(f"RLI_CRASH_SEED={SEED}")  # noqa: T201  (shown when the test fails)
    source = random.Random(SEED)
    hosts = leased_by_the_table(tmp_path, target_file_size=4096)
    urls = [table.settings.index_url for table in hosts]
    (tmp_path / "table").symlink_to(hosts[0].location)
    rows: Rows = {}
    done = 0
    for number in range(cases(4)):
        place_index(tmp_path, urls[number % 2])
        receiver, sender = pipe()
        # A clean would leave no journals for the index that is away.
        child = start_child(partial(write, with_services=False), tmp_path, done + 1, sender)
        sender.close()
        child.join(source.uniform(0.1, 1.5))
        child.kill()
        child.join()
        acknowledged = done
        while receiver.poll():
            try:
                acknowledged = receiver.recv()
            except EOFError:
                break
        for batch in range(done + 1, acknowledged + 1):
            rows = expected(rows, batch)
        place_index(tmp_path, urls[1 - number % 2])
        with open_copy(tmp_path) as table:
            found = read_rows(table)
            assert found in (rows, expected(rows, acknowledged + 1))
            done = acknowledged + (found != rows)
            rows = found
            table.delete(["nobody"])
            assert read_rows(table) == rows
            check_stored(table)
    assert done > 0
    for table in hosts:
        table.sync_index()
        check_stored(table)
