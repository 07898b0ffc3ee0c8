"""A read shows a whole state of the table, or says that it cannot, while others delete files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rli import CorruptTableError, InstantNotFoundError, Table, create_table, open_table
from rli.hudi.timeline.timeline import Timeline
from rli.table.table import opened_table
from rli.view.definition import TableDefinition
from rli.view.file_system_view import FileSystemView
from tests.support.tables import commit_version, records, rows_of


def _commit_and_clean(table: Table) -> None:
    for version in (4, 5):
        commit_version(table, version)
    assert table.clean(keep_commits=1).files_deleted


def _cluster_and_clean(table: Table) -> None:
    assert table.cluster().files_replaced
    commit_version(table, 4)
    assert table.clean(keep_commits=1).files_deleted


def _roll_back(table: Table) -> None:
    latest = table.timeline()[-1]
    table.rollback(latest.time)


@pytest.fixture
def trips(tmp_path: Path, memory_url: str) -> Table:
    """A table in which each commit opens file groups of its own."""
    return create_table(
        tmp_path / "trips", record_key="id", partition_by="city", ordering="ts", index=memory_url, small_file_size=0
    )


@pytest.fixture
def instants(trips: Table) -> list[str]:
    return [commit_version(trips, version) for version in range(3)]


@pytest.fixture
def between(trips: Table, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Table], None]], None]:
    """Lets others work between the moment when a reader reads the timeline and that when it lists files."""
    list_all = FileSystemView.list_all

    def arrange(work: Callable[[Table], None]) -> None:
        waiting = [work]

        def delayed(slices: FileSystemView) -> None:
            if waiting:
                waiting.pop()(open_table(trips.location))
            list_all(slices)

        monkeypatch.setattr(FileSystemView, "list_all", delayed)

    return arrange


@pytest.mark.invariant("P16")
@pytest.mark.parametrize("work", [_commit_and_clean, _cluster_and_clean, _roll_back])
def test_the_present_state_is_whole(
    work: Callable[[Table], None],
    trips: Table,
    instants: list[str],
    between: Callable[[Callable[[Table], None]], None],
) -> None:
    assert instants
    between(work)
    found = rows_of(trips.read())
    assert found == rows_of(trips)
    assert {row["id"] for row in found} >= {"a", "m", "n0", "n1"}


@pytest.mark.invariant("P16")
def test_past_state_is_whole_or_refused(
    trips: Table, instants: list[str], between: Callable[[Callable[[Table], None]], None]
) -> None:
    between(_commit_and_clean)
    with pytest.raises(InstantNotFoundError, match="were cleaned"):
        trips.read(as_of=instants[-1])


@pytest.mark.invariant("P44")
@pytest.mark.parametrize("is_past", [False, True])
@pytest.mark.parametrize("work", [_commit_and_clean, _cluster_and_clean, _roll_back])
def test_held_state_reports_removed_files(
    *, work: Callable[[Table], None], is_past: bool, trips: Table, instants: list[str]
) -> None:
    state = opened_table(trips).snapshot(instants[-1] if is_past else None)
    work(trips)
    with pytest.raises(InstantNotFoundError, match="others have changed the table and removed a file"):
        state.read()


@pytest.mark.invariant("P44")
@pytest.mark.parametrize("is_past", [False, True])
def test_a_held_state_names_damage(*, is_past: bool, trips: Table, instants: list[str]) -> None:
    state = opened_table(trips).snapshot(instants[-1] if is_past else None)
    [file, *_] = state.scan().files()
    Path(file).unlink()
    trips.upsert(records(("elsewhere", "z", 1, 0.0)))
    with pytest.raises(CorruptTableError, match="a base file is missing"):
        state.read()


@pytest.mark.parametrize("behind", [1, 2])
def test_reader_beside_rollback_sees_later_state(
    behind: int, trips: Table, instants: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    load, loaded = TableDefinition.listed_timeline, list[Timeline]()

    def with_a_rollback_behind(definition: TableDefinition) -> Timeline:
        timeline = load(definition)
        loaded.append(timeline)
        if len(loaded) == behind:
            open_table(trips.location).rollback(instants[-1])
        return timeline

    monkeypatch.setattr(TableDefinition, "listed_timeline", with_a_rollback_behind)
    told = rows_of(trips)
    monkeypatch.undo()
    assert told == rows_of(trips)
    assert trips.timeline()[-1].action == "rollback"
