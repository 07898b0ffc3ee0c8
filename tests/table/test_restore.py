"""Savepoints keep states of a table, and restores go back to them."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from rli import (
    ConflictError,
    InstantNotFoundError,
    LeaseLostError,
    Table,
    UnsupportedTableError,
    create_table,
    open_table,
)
from rli.commit.recovery import exclusive
from rli.model import Step
from rli.publication.fence import Fence
from rli.publication.instants import TableInstant
from rli.services.restore import RESTORE, RestoreResult, restore_plan
from rli.table.table import opened_table
from tests.support.faults import PointedStorage
from tests.support.indexes import record_index
from tests.support.tables import (
    Row,
    check_stored,
    fingerprint,
    forget_the_journal,
    records,
    rows_of,
    turn_into_version_9,
)

KEYS = ["a", "b", "m", "n0", "n1", "n2", "n3", "n4"]


def _commit(table: Table, version: int) -> str:
    """Updates ``a``, moves ``m`` to and fro, adds a record and removes the one before."""
    rows = [("a", "x", version, float(version)), ("m", "xy"[version % 2], version, 0.0), (f"n{version}", "z", 1, 0.0)]
    table.delete([f"n{version - 2}"])
    return table.upsert(records(*rows)).instant or ""


def _commits(table: Table, count: int) -> tuple[list[str], list[list[Row]]]:
    instants, states = [], []
    for version in range(count):
        instants.append(_commit(table, version))
        states.append(rows_of(table))
    return instants, states


def _cities(table: Table) -> dict[str, str]:
    found = table.lookup(KEYS)
    places = zip(KEYS, found["partition_path"].to_pylist(), strict=True)
    return {key: city for key, city in places if city is not None}


def _require_state(table: Table, rows: list[Row]) -> None:
    assert rows_of(table) == rows
    assert _cities(table) == {row["id"]: row["city"] for row in rows}
    check_stored(table)


def test_table_continues_from_restored_savepoint(table: Table) -> None:
    instants, states = _commits(table, 5)
    later = [
        instant.time
        for instant in opened_table(table).snapshot().timeline.completed_writes
        if instant.time > instants[1]
    ]
    assert table.savepoint(instants[1], "before it went wrong") == instants[1]
    result = table.restore(instants[1])
    assert (result.restored_to, result.undone) == (instants[1], tuple(reversed(later)))
    _require_state(table, states[1])
    assert [i.time for i in table.timeline() if i.action == "restore"] == [result.instant]
    # Look-ups report the commits that had placed the records.
    placed = dict(zip(KEYS, table.lookup(KEYS)["instant_time"].to_pylist(), strict=True))
    assert placed["m"] == placed["n1"] == instants[1]
    _commit(table, 4)
    check_stored(table)
    table.restore(instants[1])
    _require_state(table, states[1])
    with pytest.raises(UnsupportedTableError, match=f"a savepoint keeps the commit: instant={instants[1]}"):
        table.rollback(instants[1])
    table.delete_savepoint(instants[1])
    table.restore(instants[0])
    _require_state(table, states[0])


def test_any_commit_can_be_restored(table: Table) -> None:
    instants, states = _commits(table, 4)
    before = fingerprint(table)
    assert table.restore(instants[3]) == RestoreResult(None, instants[3], ())
    assert fingerprint(table) == before
    for version in (2, 0):
        table.restore(instants[version])
        _require_state(table, states[version])
        assert rows_of(table.read(as_of=instants[version])) == states[version]


def test_savepoint_protects_files_from_clean(table: Table) -> None:
    instants, states = _commits(table, 5)
    table.savepoint(instants[1])
    journals = {path.name for path in Path(table.location, ".hoodie/.rli/journal").iterdir()}
    assert table.clean(keep_commits=1).files_deleted
    kept = {path.name for path in Path(table.location, ".hoodie/.rli/journal").iterdir()}
    assert kept == {name for name in journals if name >= instants[1]}
    assert rows_of(table.read(as_of=instants[1])) == states[1]
    table.restore(instants[1])
    _require_state(table, states[1])


def test_savepoints_and_restores_need_uncleaned_state(table: Table) -> None:
    instants, _ = _commits(table, 5)
    table.clean(keep_commits=1)
    before = fingerprint(table)
    for call in (table.savepoint, table.restore):
        with pytest.raises(InstantNotFoundError, match=f"were cleaned: instant={instants[1]}"):
            call(instants[1])
        with pytest.raises(InstantNotFoundError, match="no completed commit of this time: instant=20200101000000000"):
            call("20200101000000000")
    assert fingerprint(table) == before


def test_savepoint_is_made_and_removed_once(table: Table) -> None:
    with pytest.raises(InstantNotFoundError, match="there is no commit to keep"):
        table.savepoint()
    instants, _ = _commits(table, 2)
    assert table.savepoint() == instants[1]
    before = fingerprint(table)
    assert table.savepoint(instants[1], "once more") == instants[1]
    assert fingerprint(table) == before
    table.delete_savepoint(instants[1])
    assert "savepoint" not in {instant.action for instant in table.timeline()}
    with pytest.raises(InstantNotFoundError, match=f"no savepoint keeps this commit: instant={instants[1]}"):
        table.delete_savepoint(instants[1])


def test_later_savepoints_are_not_undone(table: Table) -> None:
    instants, states = _commits(table, 3)
    table.savepoint(instants[2])
    before = fingerprint(table)
    with pytest.raises(UnsupportedTableError, match=f"a savepoint keeps the commit: instant={instants[2]}"):
        table.restore(instants[0])
    assert fingerprint(table) == before
    table.delete_savepoint(instants[2])
    table.restore(instants[0])
    _require_state(table, states[0])


def test_begun_savepoint_blocks_nobody(table: Table) -> None:
    instants, states = _commits(table, 2)
    TableInstant(opened_table(table).definition, instants[0], "savepoint").begin()
    _commit(table, 2)
    assert _cities(table)
    table.savepoint(instants[0])
    table.restore(instants[0])
    _require_state(table, states[0])


def test_index_restores_from_journals_alone(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither base files nor the entries of other keys are read: the work is that of the commits undone."""
    instants, states = _commits(table, 4)

    def read(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr("rli.view.snapshot.Snapshot.record_keys", read)
    monkeypatch.setattr(type(record_index(table).store), "scan", read)
    table.restore(instants[1])
    monkeypatch.undo()
    _require_state(table, states[1])


def test_commits_without_journals_are_undone_too(table: Table) -> None:
    instants, states = _commits(table, 4)
    forget_the_journal(table, instants[2])
    table.restore(instants[1])
    _require_state(table, states[1])


@pytest.mark.parametrize("version", [6, 9])
def test_index_of_any_age_follows_restore(version: int, tmp_path: Path) -> None:
    """Copies of the index that saw none, some or all of the undone commits, and what came after."""
    index = tmp_path / "index"
    table = create_table(
        tmp_path / "t", record_key="id", partition_by="city", ordering="ts", index=f"lmdb://{index}", shards=3
    )
    if version == 9:
        turn_into_version_9(table)
    first, _ = _commits(table, 2)
    for number in (2, 3, 4):
        shutil.copytree(index, tmp_path / f"index-{number}")
        _commit(table, number)
    table.restore(first[1])
    shutil.copytree(index, tmp_path / "index-restored")
    _commit(table, 4)
    rows = rows_of(table)
    for copy in ("2", "3", "4", "restored"):
        other = open_table(tmp_path / "t", index=f"lmdb://{index}-{copy}")
        other.sync_index()
        _require_state(other, rows)
        other.close()
    _require_state(table, rows)
    table.close()


@pytest.mark.parametrize("step", [Step.REQUESTED, Step.WRITTEN])
def test_running_write_conflicts_with_restore(table: Table, step: Step) -> None:
    instants, states = _commits(table, 3)
    other = open_table(table.location)

    def restore(reported: Step) -> None:
        if reported is step:
            other.restore(instants[0])

    with pytest.raises(ConflictError):
        table.upsert(records(("n2", "z", 9, 9.0)), attempts=1, on_step=restore)
    _require_state(table, states[0])
    # A write that builds on nothing of it is committed.
    assert table.upsert(records(("free", "new", 1, 1.0))).inserted == 1
    check_stored(table)


def test_caller_repeats_writes_after_restore(table: Table) -> None:
    instants, states = _commits(table, 3)
    other = open_table(table.location)
    restored: list[RestoreResult] = []

    def restore(reported: Step) -> None:
        if reported is Step.WRITTEN and not restored:
            restored.append(other.restore(instants[0]))

    result = table.upsert(records(("n2", "z", 9, 9.0), ("a", "x", 0, -1.0)), on_step=restore)
    assert restored
    assert (result.inserted, result.updated) == (1, 1)
    expected = {row["id"]: row for row in states[0]}
    expected |= {"n2": {"id": "n2", "city": "z", "ts": 9, "v": 9.0}, "a": {"id": "a", "city": "x", "ts": 0, "v": -1.0}}
    _require_state(table, [expected[key] for key in sorted(expected)])


def _announce(table: Table, instant: str, fence: Fence) -> TableInstant:
    snapshot = opened_table(table).snapshot()
    plan = restore_plan(snapshot, instant)
    assert plan is not None
    return RESTORE.announce(plan, snapshot.timeline, fence)


def _announce_restore(table: Table, instant: str) -> None:
    """What a process leaves that dies when it has planned a restore."""
    with exclusive(opened_table(table).definition, opened_table(table).index, "restore that dies") as lease:
        _announce(table, instant, Fence(opened_table(table).definition, lease.require_held))


@pytest.mark.invariant("P12")
def test_planned_restore_precedes_running_write(table: Table) -> None:
    instants, states = _commits(table, 3)

    def announce(reported: Step) -> None:
        if reported is Step.WRITTEN and not any(i.action == "restore" for i in table.timeline()):
            _announce_restore(table, instants[0])

    result = table.upsert(records(("n2", "z", 9, 9.0)), on_step=announce)
    assert result.inserted == 1
    _require_state(table, [*states[0], {"id": "n2", "city": "z", "ts": 9, "v": 9.0}])


def test_repeated_restore_finishes_planned_restore(table: Table) -> None:
    instants, states = _commits(table, 3)
    _announce_restore(table, instants[0])
    (planned,) = [instant.time for instant in table.timeline() if instant.action == "restore"]
    assert table.restore(instants[0]).instant == planned
    _require_state(table, states[0])


def test_foreign_commits_survive_restore(table: Table) -> None:
    instants, states = _commits(table, 3)
    _announce_restore(table, instants[0])
    mark = next(Path(table.location, ".hoodie/.rli/undoing").iterdir())
    plan = mark.read_bytes()
    mark.unlink()  # so that this write, which stands for another engine's, does not finish the restore
    _commit(table, 3)
    rows = rows_of(table)
    mark.write_bytes(plan)
    table.sync_index()
    _require_state(table, rows)
    table.restore(instants[0])
    _require_state(table, states[0])


def test_who_lost_the_lease_restores_nothing(table: Table) -> None:
    """The successor comes between the question who has the lease and the step that announces the restore."""
    instants, _ = _commits(table, 3)
    other = open_table(table.location)

    def succeed() -> None:
        _commit(other, 3)

    with pytest.raises(LeaseLostError, match="took the lease over"):
        _announce(table, instants[0], Fence(opened_table(table).definition, succeed))
    assert [row["id"] for row in rows_of(table)] == ["a", "m", "n2", "n3"]
    check_stored(table)


def test_paused_restore_undoes_nothing_newer(table: Table) -> None:
    """The successor finishes it, and commits; then it goes on."""
    instants, states = _commits(table, 3)
    other = open_table(table.location)
    later: list[str] = []

    def succeed(point: str) -> None:
        if point.startswith("after publish") and point.endswith(".restore.requested"):
            later.append(other.upsert(records(("n2", "z", 9, 9.0))).instant or "")

    definition = replace(opened_table(table).definition, storage=PointedStorage(table.location, at_point=succeed))
    fence = Fence(definition, lambda: None)
    restore = _announce(table, instants[0], fence)
    done = RESTORE.finish(restore, fence)
    assert done is not None
    assert (done.instant, done.restored_to) == (restore.time, instants[0])
    assert [i.time for i in opened_table(table).snapshot().timeline.completed_writes][-1:] == later
    _require_state(table, [*states[0], {"id": "n2", "city": "z", "ts": 9, "v": 9.0}])
