"""A real process dies in a clean, archive, savepoint or restore, and in writes and rollbacks of version 9."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from rli import Step
from rli.table.table import opened_table
from tests.crash.conftest import Copies
from tests.crash.writes import (
    AFTER,
    BATCH,
    BEFORE,
    STEPS_BEFORE_PUBLICATION,
    do_write,
    open_copy,
    pointed,
    read_rows,
    require_honest_lookups,
    require_recovery,
    write_and_die_at_point,
    write_and_die_at_step,
)
from tests.support.children import was_killed
from tests.support.faults import AtPoint, KillAt
from tests.support.soak import EVERY_POINT
from tests.support.tables import check_archived, check_stored, records

pytestmark = pytest.mark.crash


def _changes(points: list[str]) -> list[int]:
    return [number for number, point in enumerate(points, 1) if point.startswith("before")]


@pytest.mark.parametrize("step", [Step.INFLIGHT, Step.FILE_PROMOTED, Step.PROMOTED, Step.PUBLISHED, Step.REGISTERED])
def test_kill_in_upsert_of_version_9(copies_9: Copies, step: Step) -> None:
    folder = copies_9.make()
    assert was_killed(write_and_die_at_step, folder, "upsert", step, 1)
    took_effect = require_recovery(folder, "upsert", "rollback" if step is Step.PUBLISHED else "upsert")
    assert took_effect == (step not in STEPS_BEFORE_PUBLICATION)


def test_kill_in_rollback_of_version_9(copies_9: Copies) -> None:
    points: list[str] = []
    folder = copies_9.make()
    do_write(pointed(open_copy(folder), points.append), "rollback")
    assert read_rows(open_copy(folder)) == AFTER["rollback"]
    for number in _changes(points)[:: 1 if EVERY_POINT else 9]:
        folder = copies_9.make()
        assert was_killed(write_and_die_at_point, folder, "rollback", KillAt(number)), points[number - 1]
        require_recovery(folder, "rollback", "upsert")


@pytest.mark.invariant("P12")
@pytest.mark.parametrize("version", [6, 9])
def test_kill_at_changes_of_restore(copies: Copies, copies_9: Copies, version: int) -> None:
    """Of two commits, so that the table is as it was between them on the way."""
    points: list[str] = []
    template = _with_a_third_commit(copies if version == 6 else copies_9)
    once = Path(shutil.copytree(template, template.with_name("once")))
    do_write(pointed(open_copy(once), points.append), "restore")
    assert read_rows(open_copy(once)) == AFTER["restore"]
    states = [AFTER["upsert"], BEFORE, AFTER["restore"]]
    reached = []
    numbers = _changes(points)
    # Before each deletion of a commit's instant, too: the table is between the commits then.
    deletions = {
        number
        for number in numbers
        if re.fullmatch(r"before delete \.hoodie/(\S*/)?\d+(_\d+)?\.commit", points[number - 1])
    }
    for number in numbers if EVERY_POINT else sorted({*numbers[::4], *deletions}):
        folder = Path(shutil.copytree(template, template.with_name(f"killed-{number}")))
        assert was_killed(write_and_die_at_point, folder, "restore", KillAt(number)), points[number - 1]
        table = open_copy(folder)
        rows = read_rows(table)
        reached.append(states.index(rows))
        require_honest_lookups(table, rows)
        is_announced = any(instant.action == "restore" for instant in table.timeline())
        assert is_announced or rows == states[0]
        table.upsert(records(("next", "y", 9, 9.0)))
        assert read_rows(table) == {**states[2 if is_announced else 0], "next": ("next", "y", 9, 9.0)}
        check_stored(table)
        table.drop_index()
        table.close()
    assert reached == sorted(reached)
    assert set(reached) == {0, 1, 2}


def _with_a_third_commit(copies: Copies) -> Path:
    folder = copies.make()
    table = open_copy(folder)
    table.upsert(records(*BATCH))
    table.close()
    return folder


def savepoint_and_die(folder: Path, at_point: AtPoint) -> None:
    """A child's work: a savepoint and its removal, which report each change before they make it."""
    table = pointed(open_copy(folder), at_point)
    table.delete_savepoint(table.savepoint(opened_table(table).snapshot().timeline.completed_writes[0].time))


@pytest.mark.parametrize("version", [6, 9])
def test_kill_at_changes_of_savepoint(copies: Copies, copies_9: Copies, version: int) -> None:
    chosen = copies if version == 6 else copies_9
    points: list[str] = []
    savepoint_and_die(chosen.make(), points.append)
    # Those of making the savepoint, and of removing it, but not of the lease in between.
    for number in (n for n in _changes(points) if "savepoint" in points[n - 1]):
        folder = chosen.make()
        assert was_killed(savepoint_and_die, folder, KillAt(number)), points[number - 1]
        table = open_copy(folder)
        table.upsert(records(*BATCH))
        first = opened_table(table).snapshot().timeline.completed_writes[0].time
        table.savepoint(first)
        table.clean(keep_commits=1)
        table.restore(first)
        table.delete_savepoint(first)
        assert read_rows(table) == AFTER["restore"]
        check_stored(table)
        table.drop_index()
        table.close()


def archive_and_die(folder: Path, at_point: AtPoint) -> None:
    """A child's work: an archive that reports each change before it makes it."""
    pointed(open_copy(folder), at_point).archive(keep_commits=1)


@pytest.mark.invariant("P13")
@pytest.mark.parametrize("version", [6, 9])
def test_kill_at_changes_of_archive(copies: Copies, copies_9: Copies, version: int) -> None:
    template = _with_a_third_commit(copies if version == 6 else copies_9)
    table = open_copy(template)
    # Its base files, were they left, would pass for those of an archived commit.
    undone = table.upsert(records(("wrong", "new", 1, 1.0))).instant or ""
    wrong = [path for path in template.rglob("*.parquet") if undone in path.name]
    contents = [path.read_bytes() for path in wrong]
    table.rollback(undone)
    for path, content in zip(wrong, contents, strict=True):
        path.write_bytes(content)
    table.upsert(records(("z", "new", 1, 1.0)))
    rows = read_rows(table)
    table.close()
    points: list[str] = []
    once = Path(shutil.copytree(template, template.with_name("once")))
    archive_and_die(once, points.append)
    table = open_copy(once)
    active, archived = table.timeline(), check_archived(table)
    assert len(archived) == 4
    table.close()
    # The two versions take turns.
    for number in _changes(points)[0 if EVERY_POINT else version - 6 :: 1 if EVERY_POINT else 9]:
        folder = Path(shutil.copytree(template, template.with_name(f"killed-{number}")))
        assert was_killed(archive_and_die, folder, KillAt(number)), points[number - 1]
        table = open_copy(folder)
        assert read_rows(table) == rows, points[number - 1]
        require_honest_lookups(table, rows)
        table.archive(keep_commits=1)
        assert read_rows(table) == rows
        assert (table.timeline(), check_archived(table)) == (active, archived), points[number - 1]
        check_stored(table)
        table.drop_index()
        table.close()


def clean_and_die(folder: Path, at_point: AtPoint) -> None:
    """A child's work: a clean that reports each change before it makes it."""
    pointed(open_copy(folder), at_point).clean(keep_commits=1)


def test_kill_at_changes_of_clean(copies: Copies, tmp_path: Path) -> None:
    folder = copies.make()
    table = open_copy(folder)
    table.upsert(records(*BATCH))
    last = read_rows(table)
    table.close()
    points: list[str] = []
    cleaned = Path(shutil.copytree(folder, tmp_path / "cleaned"))
    assert pointed(open_copy(cleaned), points.append).clean(keep_commits=1).files_deleted
    files = {path.name for path in cleaned.rglob("*.parquet")}
    for number in _changes(points)[:: 1 if EVERY_POINT else 3]:
        copy = Path(shutil.copytree(folder, tmp_path / f"killed-{number}"))
        assert was_killed(clean_and_die, copy, KillAt(number)), points[number - 1]
        again = open_copy(copy)
        assert read_rows(again) == last
        again.clean(keep_commits=1)
        assert read_rows(again) == last
        assert {path.name for path in copy.rglob("*.parquet")} == files
        assert [instant.action for instant in again.timeline()].count("clean") == 1
        check_stored(again)
        again.drop_index()
        again.close()
