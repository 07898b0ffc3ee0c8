"""Cleaning: what goes, what stays readable, and that an interrupted clean is finished."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from rli import InstantNotFoundError, InvalidInputError, LeaseLostError, Table, open_table
from rli.model import Step
from rli.publication.fence import Fence
from rli.services.clean import CleanResult, clean
from rli.table.table import opened_table
from rli.view import paths
from tests.support.indexes import EAGER_PURGES, limit_index
from tests.support.leased_tables import leased_by_the_table
from tests.support.tables import check_stored, commit_version, fingerprint, records, rows_of


def _base_files(table: Table) -> set[Path]:
    return set(Path(table.location).glob("[!.]*/*.parquet"))


def _copy(table: Table, target: Path) -> Path:
    shutil.copytree(table.location, target)
    return target


def test_only_kept_commits_stay_readable(trips: Table) -> None:
    instants = [commit_version(trips, version) for version in range(6)]
    states = [rows_of(trips.read(as_of=instant)) for instant in instants]
    files, size = _base_files(trips), sum(path.stat().st_size for path in _base_files(trips))
    result = trips.clean(keep_commits=2)
    left = _base_files(trips)
    assert result.earliest_kept == instants[4]
    assert result.files_deleted == len(files - left) > 0
    assert result.bytes_deleted == size - sum(path.stat().st_size for path in left)
    assert result.journals_deleted == 4
    assert [rows_of(trips.read(as_of=instant)) for instant in instants[4:]] == states[4:]
    for instant in instants[:3]:
        with pytest.raises(InstantNotFoundError, match=f"were cleaned: instant={instant}"):
            trips.read(as_of=instant)
    assert trips.timeline()[-1].time == result.instant
    assert trips.timeline()[-1].action == "clean"
    check_stored(trips)
    commit_version(trips, 7)
    check_stored(trips)


@pytest.mark.invariant("P5")
@pytest.mark.parametrize("step", [Step.WRITTEN, Step.MANIFESTED])
def test_overtaken_first_write_keeps_journals(tmp_path: Path, step: Step) -> None:
    """It is older than all commits, and its journals are there before it has the lease."""
    table, other = leased_by_the_table(tmp_path)

    def overtake(reached: Step) -> None:
        if reached is step:
            for version in range(3):
                other.upsert(records(("b", "y", version, 1.0)))
            other.clean(keep_commits=1)

    assert table.upsert(records(("a", "x", 1, 1.0)), attempts=1, on_step=overtake).inserted == 1
    # The other index follows by the journals.
    assert other.lookup(["a", "b"]).column("partition_path").to_pylist() == ["x", "y"]
    check_stored(table)
    check_stored(other)


def test_second_clean_does_nothing(trips: Table) -> None:
    for version in range(4):
        commit_version(trips, version)
    assert trips.clean(keep_commits=1).files_deleted
    before = fingerprint(trips)
    again = trips.clean(keep_commits=1)
    assert again == CleanResult(None, again.earliest_kept, 0, 0, 0)
    assert fingerprint(trips) == before


def test_only_old_temporary_files_are_removed(trips: Table) -> None:
    commit_version(trips, 0)
    folder = Path(trips.location)
    before = set(folder.rglob("*"))
    names = [
        f"{where}/.{name}.{'0a' * 16}.tmp"
        for where, name in ((".hoodie", "20240531120000000.commit"), (".hoodie/.rli", "lease"), ("amsterdam", "x"))
    ]
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"half")
    trips.clean()
    assert all((folder / name).exists() for name in names)
    for name in names:
        os.utime(folder / name, (0, 0))
    # A file that somebody else named so is not a temporary one.
    (folder / "amsterdam/.mine.tmp").write_bytes(b"")
    os.utime(folder / "amsterdam/.mine.tmp", (0, 0))
    trips.clean()
    assert {path for path in folder.rglob("*") if path.name.endswith(".tmp")} == {folder / "amsterdam/.mine.tmp"}
    assert before <= set(folder.rglob("*"))


def test_new_table_has_nothing_to_clean(trips: Table) -> None:
    assert trips.clean() == CleanResult(None, None, 0, 0, 0)
    with pytest.raises(InvalidInputError, match="keep_commits=0"):
        trips.clean(keep_commits=0)


def test_only_kept_commits_can_roll_back(trips: Table) -> None:
    instants = [commit_version(trips, version) for version in range(5)]
    before = rows_of(trips.read(as_of=instants[2]))
    trips.clean(keep_commits=2)
    trips.rollback(instants[4])
    trips.rollback(instants[3])
    assert rows_of(trips) == before
    with pytest.raises(InstantNotFoundError, match="were cleaned"):
        trips.rollback(instants[2])
    assert rows_of(trips) == before
    check_stored(trips)


def test_a_savepoint_keeps_its_files(trips: Table) -> None:
    instants = [commit_version(trips, version) for version in range(5)]
    saved = rows_of(trips.read(as_of=instants[1]))
    Path(trips.location, ".hoodie", f"{instants[1]}.savepoint").write_bytes(b"")
    trips.clean(keep_commits=1)
    assert rows_of(trips.read(as_of=instants[1])) == saved
    with pytest.raises(InstantNotFoundError, match="were cleaned"):
        trips.read(as_of=instants[0])


def test_running_write_keeps_its_base(trips: Table) -> None:
    """While one write is at its first step, others commit and clean; it then fails as if nobody had cleaned."""
    first = commit_version(trips, 0)
    other = open_table(trips.location)
    cleaned: list[CleanResult] = []

    def commit_and_clean(step: Step) -> None:
        if step is Step.REQUESTED:
            for version in (1, 2, 3):
                other.upsert(records(("m", "xy"[version % 2], version, 0.0)))
            cleaned.append(other.clean(keep_commits=1))

    trips.upsert(records(("new", "z", 1, 1.0)), on_step=commit_and_clean)
    assert [result.earliest_kept for result in cleaned] == [first]
    assert rows_of(trips.read(as_of=first))
    check_stored(trips)


@pytest.mark.parametrize("reached", ["planned", "begun", "some files deleted", "all files deleted"])
def test_killed_clean_is_finished_next(reached: str, trips: Table, tmp_path: Path) -> None:
    for version in range(4):
        commit_version(trips, version)
    before = _copy(trips, tmp_path / "before")
    done = trips.clean(keep_commits=1)
    after, rows = {path.name for path in _base_files(trips)}, rows_of(trips)
    # The table as the clean found it, with what it had done when it was killed.
    hoodie = Path(trips.location, ".hoodie")
    shutil.copy(hoodie / f"{done.instant}.clean.requested", before / ".hoodie")
    if reached != "planned":
        shutil.copy(hoodie / f"{done.instant}.clean.inflight", before / ".hoodie")
    gone = sorted(path for path in before.glob("[!.]*/*.parquet") if path.name not in after)
    for path in gone[: {"some files deleted": 1, "all files deleted": len(gone)}.get(reached, 0)]:
        path.unlink()
    # An index serves its table at one place.
    shutil.rmtree(trips.location)
    shutil.move(before, trips.location)
    again = open_table(trips.location)
    assert again.clean(keep_commits=1).instant is None
    assert [instant.action for instant in again.timeline() if instant.time == done.instant] == ["clean"]
    assert {path.name for path in _base_files(again)} == after
    assert rows_of(again) == rows
    check_stored(again)


@pytest.mark.invariant("P21")
@pytest.mark.parametrize(
    ("is_announced", "told"), [(False, "was not announced, call it again"), (True, "carries out what was announced")]
)
def test_lost_lease_names_the_truth(trips: Table, is_announced: bool, told: str) -> None:  # noqa: FBT001
    for version in range(3):
        commit_version(trips, version)
    other, definition = open_table(trips.location), opened_table(trips).definition

    def overtake() -> None:
        is_drafted = bool(definition.storage.list_files(paths.SERVICES))
        if is_drafted and bool(opened_table(trips).snapshot().timeline.pending) == is_announced:
            commit_version(other, 3)

    with pytest.raises(LeaseLostError, match=told):
        clean(definition, 1, Fence(definition, overtake))
    assert [instant.is_completed for instant in trips.timeline() if instant.action == "clean"] == [True] * is_announced
    check_stored(trips)


def test_rollback_finishes_planned_clean_first(trips: Table, tmp_path: Path) -> None:
    instants = [commit_version(trips, version) for version in range(4)]
    rows = rows_of(trips.read(as_of=instants[2]))
    before = _copy(trips, tmp_path / "before")
    done = trips.clean(keep_commits=1)
    shutil.copy(Path(trips.location, ".hoodie", f"{done.instant}.clean.requested"), before / ".hoodie")
    # An index serves its table at one place.
    shutil.rmtree(trips.location)
    shutil.move(before, trips.location)
    again = open_table(trips.location)
    again.rollback(instants[3])
    assert rows_of(again) == rows
    with pytest.raises(InstantNotFoundError, match="were cleaned"):
        again.rollback(instants[2])
    check_stored(again)


@pytest.mark.invariant("P30")
def test_tombstones_of_old_commits_are_purged(trips: Table) -> None:
    limit_index(trips, EAGER_PURGES)
    keys: list[str] = []
    last = trips.upsert(records(("first", "amsterdam", 0, 1.0)))
    for version in range(6):
        keys = [f"{version}-{number}" for number in range(20)]
        trips.upsert(records(*((key, "amsterdam", version, 1.0) for key in keys)))
        last = trips.delete(keys)
        trips.clean(keep_commits=1)
        assert trips.index.stats().tombstones == 20
    assert trips.verify_index().agrees
    assert trips.delete(["0-0"]).deleted == 0
    inserted = trips.upsert(records(("0-0", "amsterdam", 0, 1.0)))
    assert inserted.inserted == 1
    for undone in (inserted, last):
        assert undone.instant is not None
        trips.rollback(undone.instant)
    assert sorted(row["id"] for row in rows_of(trips.read())) == sorted(["first", *keys])
    check_stored(trips)
    assert trips.verify_index().agrees


@pytest.mark.invariant("P30")
def test_savepoint_keeps_later_tombstones(trips: Table) -> None:
    limit_index(trips, EAGER_PURGES)
    trips.upsert(records(("a", "amsterdam", 1, 1.0), ("b", "amsterdam", 1, 1.0)))
    saved = trips.savepoint()
    before = rows_of(trips.read())
    trips.delete(["a"])
    for version in range(3):
        trips.upsert(records(("c", "amsterdam", version, 1.0)))
    trips.clean(keep_commits=1)
    assert trips.index.stats().tombstones == 1
    trips.restore(saved)
    assert rows_of(trips.read()) == before
    assert trips.verify_index().agrees


@pytest.mark.invariant("P30")
def test_running_write_keeps_later_tombstones(trips: Table) -> None:
    trips.upsert(records(("a", "amsterdam", 1, 1.0), ("b", "rome", 1, 1.0)))

    def meanwhile(step: Step) -> None:
        if step is Step.TAGGED and not done:
            done.append(step)
            other = open_table(trips.location)
            limit_index(other, EAGER_PURGES)
            other.delete(["a"])
            other.upsert(records(("b", "rome", 2, 1.0)))
            other.clean(keep_commits=1)
            assert other.index.stats().tombstones == 1

    done: list[Step] = []
    result = trips.upsert(records(("a", "paris", 2, 2.0)), on_step=meanwhile)
    assert (result.inserted, result.moved) == (1, 0)
    check_stored(trips)
    assert trips.verify_index().agrees
