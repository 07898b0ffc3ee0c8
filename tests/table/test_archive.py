"""Archiving: which instants leave the active timeline, and that nothing else changes."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from rli import (
    ConflictError,
    IndexNotReadyError,
    InstantNotFoundError,
    InvalidInputError,
    LeaseLostError,
    Table,
    UnsupportedTableError,
    create_table,
    open_table,
)
from rli.model import Step
from rli.publication.fence import Fence
from rli.services.archive import ArchiveResult, archive
from rli.table.table import opened_table
from rli.view import paths
from tests.support.faults import PointedStorage
from tests.support.steps import Once
from tests.support.tables import check_archived, check_stored, fingerprint, records, rows_of, turn_into_version_9


def _commit(table: Table, version: int) -> str:
    """Updates ``a``, moves ``m`` to and fro, and adds a record of its own, whose file no other commit touches."""
    rows = [
        ("a", "x", version, float(version)),
        ("m", "xy"[version % 2], version, 0.0),
        (f"n{version}", f"p{version}", 1, 0.0),
    ]
    return table.upsert(records(*rows)).instant or ""


def _times(table: Table, action: str = "commit") -> list[str]:
    return [instant.time for instant in table.timeline() if instant.action == action]


def test_archive_removes_old_commits_only(table: Table) -> None:
    instants = [_commit(table, version) for version in range(6)]
    rows = rows_of(table)
    found = table.lookup(["a", "n0", "n5"])
    assert table.archive(keep_commits=2) == ArchiveResult(4, instants[4], 0)
    assert _times(table) == instants[4:]
    assert check_archived(table) == [(time, "commit") for time in instants[:4]]
    assert rows_of(table) == rows
    # Look-ups go on reporting the commits that are archived now.
    assert table.lookup(["a", "n0", "n5"]) == found
    assert found["instant_time"].to_pylist()[1] == instants[0]
    check_stored(table)
    more = [_commit(table, version) for version in range(6, 9)]
    assert table.archive(keep_commits=1) == ArchiveResult(4, more[-1], 0)
    assert check_archived(table) == [(time, "commit") for time in (*instants, *more[:-1])]
    check_stored(table)
    assert {row["id"] for row in rows_of(table)} == {"a", "m", *(f"n{version}" for version in range(9))}
    assert table.bootstrap_index() == 11
    check_stored(table)


def test_second_archive_does_nothing(table: Table) -> None:
    assert table.archive() == ArchiveResult(0, None, 0)
    instants = [_commit(table, version) for version in range(3)]
    table.archive(keep_commits=2)
    before = fingerprint(table)
    assert table.archive(keep_commits=2) == ArchiveResult(0, instants[1], 0)
    assert fingerprint(table) == before
    with pytest.raises(InvalidInputError, match="keep_commits=0"):
        table.archive(keep_commits=0)


def test_last_clean_survives_archive(table: Table) -> None:
    for version in range(3):
        _commit(table, version)
    first = table.clean(keep_commits=1).instant
    table.rollback(_commit(table, 3))
    (rollback,) = _times(table, "rollback")
    for version in range(4, 6):
        _commit(table, version)
    last = table.clean(keep_commits=1).instant
    kept = [_commit(table, version) for version in range(6, 8)]
    table.archive(keep_commits=2)
    assert [instant.time for instant in table.timeline()] == [last, *kept]
    archived = check_archived(table)
    assert {(first, "clean"), (rollback, "rollback")} <= set(archived)
    check_stored(table)
    _commit(table, 8)
    assert table.clean(keep_commits=1).files_deleted
    check_stored(table)


def test_archived_states_cannot_be_reached(table: Table) -> None:
    instants = [_commit(table, version) for version in range(4)]
    state = rows_of(table.read(as_of=instants[2]))
    table.archive(keep_commits=2)
    assert rows_of(table.read(as_of=instants[2])) == state
    with pytest.raises(InstantNotFoundError, match=f"left the active timeline: instant={instants[1]}"):
        table.read(as_of=instants[1])
    for call in (table.savepoint, table.restore):
        with pytest.raises(InstantNotFoundError, match="no completed commit"):
            call(instants[1])
    table.restore(instants[2])
    assert rows_of(table) == state
    # Files of archived commits count because there is a commit that is newer.
    with pytest.raises(UnsupportedTableError, match="all earlier commits were archived"):
        table.rollback(instants[2])
    assert rows_of(table) == state
    check_stored(table)


def test_savepoint_keeps_newer_instants(table: Table) -> None:
    instants = [_commit(table, version) for version in range(6)]
    state = rows_of(table.read(as_of=instants[2]))
    table.savepoint(instants[2])
    table.savepoint(instants[4])
    assert table.archive(keep_commits=1) == ArchiveResult(1, instants[1], 0)
    assert _times(table) == instants[1:]
    assert rows_of(table.read(as_of=instants[2])) == state
    table.delete_savepoint(instants[4])
    table.restore(instants[2])
    assert rows_of(table) == state
    check_stored(table)
    table.delete_savepoint(instants[2])
    assert table.archive(keep_commits=1) == ArchiveResult(1, instants[2], 0)
    with pytest.raises(UnsupportedTableError, match="all earlier commits were archived"):
        table.savepoint()
    last = _commit(table, 9)
    assert table.savepoint() == last
    table.restore(last)
    check_stored(table)


def test_running_write_keeps_its_base(table: Table) -> None:
    first = [_commit(table, version) for version in range(3)]
    other = open_table(table.location)
    results: list[ArchiveResult] = []

    def commit_and_archive(step: Step) -> None:
        if step is Step.WRITTEN:
            for version in (7, 8):
                other.upsert(records(("m", "xy"[version % 2], version, 0.0)))
            results.append(other.archive(keep_commits=1))

    assert table.upsert(records(("new", "new", 1, 1.0)), on_step=commit_and_archive).inserted == 1
    assert [result.earliest_active for result in results] == [first[-1]]
    check_stored(table)


def test_files_of_undone_commits_never_count(table: Table) -> None:
    """Once what undid them is archived, they would pass for files of archived commits."""
    wrong = table.upsert(records(("wrong", "x", 1, 1.0))).instant or ""
    (path,) = Path(table.location, "x").glob("*.parquet")
    content = path.read_bytes()
    table.rollback(wrong)
    for version in range(3):
        _commit(table, version)
    rows = rows_of(table)
    path.write_bytes(content)
    assert table.archive(keep_commits=1).files_deleted == 1
    assert "rollback" not in {instant.action for instant in table.timeline()}
    assert not path.exists()
    assert rows_of(table) == rows
    check_stored(table)


@pytest.mark.invariant("P13")
def test_files_of_no_commit_never_count(table: Table) -> None:
    """What a task of another engine left whose write nobody knows of any more."""
    instants = [_commit(table, version) for version in range(2)]
    source = next(Path(table.location, "p0").glob("*.parquet"))
    stray = source.with_name(f"stray-0_0-0-0_{int(instants[0]) + 1}.parquet")
    shutil.copy(source, stray)
    rows = rows_of(table)
    for version in (2, 3):
        _commit(table, version)
    assert {row["id"] for row in rows} <= {row["id"] for row in rows_of(table)}
    assert table.archive(keep_commits=1).files_deleted == 1
    assert not stray.exists()
    check_stored(table)


@pytest.mark.parametrize("version", [6, 9])
def test_stale_index_requires_bootstrap_after_archive(version: int, tmp_path: Path) -> None:
    index = tmp_path / "index"
    table = create_table(
        tmp_path / "t", record_key="id", partition_by="city", ordering="ts", index=f"lmdb://{index}", shards=3
    )
    if version == 9:
        turn_into_version_9(table)
    for number in range(2):
        _commit(table, number)
    shutil.copytree(index, tmp_path / "index-old")
    for number in range(2, 6):
        _commit(table, number)
        if number == 4:
            shutil.copytree(index, tmp_path / "index-newer")
    table.archive(keep_commits=2)
    rows = rows_of(table)
    old = open_table(tmp_path / "t", index=f"lmdb://{index}-old")
    for call in (old.sync_index, lambda: old.lookup(["a"]), lambda: old.delete(["a"])):
        with pytest.raises(IndexNotReadyError, match=r"were archived before the index.*rli index bootstrap"):
            call()
    assert old.bootstrap_index(shards=3) == len(rows)
    check_stored(old)
    old.close()
    newer = open_table(tmp_path / "t", index=f"lmdb://{index}-newer")
    assert len(newer.sync_index().applied) == 1
    check_stored(newer)
    newer.close()
    table.close()


@pytest.mark.invariant("P13")
def test_reader_misses_nothing_during_archive(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    instants = [_commit(table, version) for version in range(6)]
    rows = rows_of(table)
    timeline = opened_table(table).snapshot().timeline
    list_files = type(timeline.storage).list_files
    other = open_table(table.location)
    listed: list[str] = []

    def archive_while_listing(storage: object, path: str = "", **options: bool) -> object:
        """What a listing may show that began before an archive and ended after it: the first commits and the last."""
        if path != timeline.layout.folder or listed:
            return list_files(storage, path, **options)  # type: ignore[arg-type]
        listed.append(path)
        before = list_files(storage, path, **options)  # type: ignore[arg-type]
        other.archive(keep_commits=2)
        after = {file.path for file in list_files(storage, path, **options)}  # type: ignore[arg-type]
        return [file for file in before if file.path in after or file.name.startswith(instants[0])]

    monkeypatch.setattr(type(timeline.storage), "list_files", archive_while_listing)
    assert rows_of(table) == rows
    assert listed


@pytest.mark.parametrize("reached", ["archived", "pending states removed", "some instants removed"])
def test_killed_archive_is_finished_next(reached: str, table: Table, tmp_path: Path) -> None:
    for version in range(5):
        _commit(table, version)
    before = Path(shutil.copytree(table.location, tmp_path / "before"))
    table.archive(keep_commits=2)
    layout = opened_table(table).definition.timeline_layout
    # The table as the archive found it, with what it had done when it was killed.
    shutil.rmtree(before / layout.archive_folder, ignore_errors=True)
    shutil.copytree(Path(table.location, layout.archive_folder), before / layout.archive_folder)
    left = {path.name for path in Path(table.location, layout.folder).iterdir()}
    gone = [path for path in sorted((before / layout.folder).iterdir()) if path.name not in left]
    pending = [path for path in gone if path.name.endswith((".requested", "inflight"))]
    completed = [path for path in gone if path not in pending]
    steps = {"archived": [], "pending states removed": pending, "some instants removed": [*pending, *completed[:2]]}
    for path in steps[reached]:
        path.unlink()
    rows, archived = rows_of(table), check_archived(table)
    # An index serves its table at one place.
    shutil.rmtree(table.location)
    shutil.move(before, table.location)
    again = open_table(table.location)
    assert rows_of(again) == rows
    check_stored(again)
    again.archive(keep_commits=2)
    assert {path.name for path in Path(again.location, layout.folder).iterdir()} == left
    assert rows_of(again) == rows
    assert check_archived(again) == archived
    check_stored(again)


def test_replacement_stays_until_files_are_cleaned(trips: Table) -> None:
    """Without it, what it replaced would be data again. The replacement is made by hand, as other engines do it."""
    trips.upsert(records(("a", "x", 1, 1.0), ("b", "x", 1, 1.0)))
    (old,) = Path(trips.location, "x").glob("*.parquet")
    file_id = old.name.partition("_")[0]
    time = f"{int(trips.timeline()[-1].time) + 1}"
    shutil.copy(old, old.with_name(f"new-0_0-0-0_{time}.parquet"))
    stat = {"fileId": "new-0", "path": f"x/new-0_0-0-0_{time}.parquet", "numWrites": 2}
    replacement = {"partitionToWriteStats": {"x": [stat]}, "partitionToReplaceFileIds": {"x": [file_id]}}
    Path(trips.location, ".hoodie", f"{time}.replacecommit").write_text(json.dumps(replacement))
    for version in (2, 3, 4):
        _commit(trips, version)
    rows = rows_of(trips)
    assert trips.archive(keep_commits=1).earliest_active == time
    assert rows_of(trips) == rows
    assert trips.clean(keep_commits=1).files_deleted
    assert not old.exists()
    assert trips.archive(keep_commits=1).earliest_active == _times(trips)[-1]
    assert rows_of(trips) == rows
    assert (time, "replacecommit") in check_archived(trips)
    assert trips.verify_index().agrees


def test_who_lost_the_lease_archives_nothing(table: Table) -> None:
    """The successor comes between the question who has the lease and the step that publishes."""
    instants = [_commit(table, version) for version in range(4)]
    state = rows_of(table.read(as_of=instants[1]))
    other = open_table(table.location)
    definition = opened_table(table).definition
    with pytest.raises(LeaseLostError, match="nothing was archived"):
        archive(definition, 1, Fence(definition, lambda: assert_restored(other, instants[1])))
    assert rows_of(table) == state
    assert check_archived(table) == []
    assert _times(table) == instants[:2]
    check_stored(table)


def assert_restored(table: Table, instant: str) -> None:
    assert table.restore(instant).restored_to == instant


def test_paused_archive_removes_nothing_newer(table: Table) -> None:
    """The successor finishes it, and commits; then it goes on."""
    instants = [_commit(table, version) for version in range(4)]
    other = open_table(table.location)
    later: list[str] = []

    def succeed(point: str) -> None:
        if point.startswith(("after publish .hoodie/archived", "after publish .hoodie/timeline/history")):
            later.extend(_commit(other, version) for version in (4, 5))
            other.restore(later[0])

    definition = replace(opened_table(table).definition, storage=PointedStorage(table.location, at_point=succeed))
    assert archive(definition, 1, Fence(definition, lambda: None)).instants_archived == 3
    assert _times(table) == [instants[3], later[0]]
    assert check_archived(table) == [(time, "commit") for time in instants[:3]]
    check_stored(table)


def test_dry_run_foretells_planned_cleans(table: Table) -> None:
    """Another engine has planned a clean, and others have committed since: the archive carries it out first."""
    for version in range(3):
        _commit(table, version)
    assert table.clean(keep_commits=1).instant
    _commit(table, 3)

    def die(point: str) -> None:
        if point.startswith("before delete") and point.endswith(".parquet"):
            raise InterruptedError(point)

    dying = Table(replace(opened_table(table).definition, storage=PointedStorage(table.location, at_point=die)))
    with pytest.raises(InterruptedError):
        dying.clean(keep_commits=1)
    for mark in opened_table(table).definition.storage.list_files(paths.SERVICES):
        # Other engines leave none.
        opened_table(table).definition.storage.delete_files([mark.path])
    for version in (4, 5):
        _commit(table, version)
    foretold = table.archive(keep_commits=1, dry_run=True)
    assert foretold == replace(table.archive(keep_commits=1), dry_run=True)
    assert foretold.instants_archived == 6
    check_stored(table)


@pytest.mark.invariant("P13")
def test_archive_takes_no_foreign_name(table: Table) -> None:
    """Another engine gives the name to a file of its own, just before the archive does."""
    for version in range(4):
        _commit(table, version)
    rows, instants = rows_of(table), _times(table)
    folder = opened_table(table).definition.timeline_layout.archive_folder
    foreign: list[Path] = []

    def take(point: str) -> None:
        if point.startswith(f"before publish {folder}"):
            foreign.append(Path(table.location, point.removeprefix("before publish ")))
            foreign[0].write_bytes(b"of another engine")

    definition = replace(opened_table(table).definition, storage=PointedStorage(table.location, at_point=take))
    journals = opened_table(table).definition.storage.list_folders(paths.JOURNAL)
    with pytest.raises(ConflictError, match=r"another engine archived.*nothing was archived"):
        archive(definition, 1, Fence(definition, lambda: None))
    assert _times(table) == instants
    assert opened_table(table).definition.storage.list_folders(paths.JOURNAL) == journals
    foreign[0].unlink()
    assert table.archive(keep_commits=1).instants_archived == 3
    assert rows_of(table) == rows
    check_stored(table)


def test_an_archive_stops_no_write(tmp_path: Path) -> None:
    """The last commit deleted keys that the table does not hold: the size of a record is told by an older one."""
    table = create_table(tmp_path / "t", record_key="id", partition_by="city", ordering="ts", index="global-simple:")
    table.upsert(records(("a", "x", 1, 1.0)))
    for number in range(4):
        table.delete(["nobody"], ordering=[number])
    archived: list[int] = []
    step = Once(Step.REQUESTED, lambda: archived.append(open_table(table.location).archive(1).instants_archived))
    assert table.upsert(records(("b", "x", 1, 1.0)), on_step=step).inserted == 1
    assert archived[0] > 1
    check_stored(table)
