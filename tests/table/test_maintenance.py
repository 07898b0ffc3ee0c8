"""Writers keep a table small by themselves: what a commit costs does not grow with the number of commits."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Barrier

import pytest

from rli import CorruptTableError, Maintenance, SettingsError, Step, Table, create_table, open_table
from rli.coordination.lease import LEASE, HeldLease
from rli.coordination.shared_records import shared_records
from rli.storage import Storage
from rli.storage.storage import StoredFile
from rli.table.table import opened_table
from rli.view import paths
from tests.crash.writes import pointed
from tests.support.tables import check_archived, check_stored, records, rows_of, turn_into_version_9

OFTEN = Maintenance(
    clean_max_commits=2,
    cleaner_commits_retained=3,
    keep_min_commits=5,
    keep_max_commits=8,
    clustering_inline_max_commits=4,
)


@dataclass(frozen=True)
class CountingStorage(Storage):
    """Counts what is listed and read."""

    counted: Counter[str] = field(default_factory=Counter, compare=False)

    def list_files(self, path: str = "", *, recursive: bool = False) -> list[StoredFile]:
        found = super().list_files(path, recursive=recursive)
        self.counted["listings"] += 1
        self.counted["listed"] += len(found)
        return found

    def read_bytes(self, path: str) -> bytes | None:
        self.counted["reads"] += 1
        return super().read_bytes(path)


@pytest.fixture(params=[6, 9])
def table(request: pytest.FixtureRequest, tmp_path: Path, memory_url: str) -> Table:
    """A table whose writers maintain it often, and put nothing into small files."""
    made = create_table(
        tmp_path / "t",
        record_key="id",
        partition_by="city",
        ordering="ts",
        index=memory_url,
        small_file_size=0,
        maintenance=OFTEN,
    )
    if request.param == 9:
        turn_into_version_9(made)
    return made


def commit(table: Table, number: int) -> str:
    """A new record, in a file group of its own, and a new version of one of four."""
    return table.upsert(records((f"n{number}", "x", 1, 1.0), (f"k{number % 4}", "x", number, 1.0))).instant or ""


def files_of(table: Table) -> list[str]:
    return [file.name for file in opened_table(table).definition.storage.list_files("x")]


def test_commit_and_lookup_costs_stay_flat(table: Table) -> None:
    counting = CountingStorage(table.location)
    counted = Table(replace(opened_table(table).definition, storage=counting))
    counted._opened._index = opened_table(table).index  # noqa: SLF001  (an index in memory is known to its process alone)
    costs: list[Counter[str]] = []
    for number in range(64):
        counting.counted.clear()
        commit(counted, number)
        counted.lookup(["k1", f"n{number}"])
        costs.append(Counter(counting.counted))
    early, late = (sum(costs[start : start + 16], Counter()) for start in (16, 48))
    for what in ("listings", "listed", "reads"):
        assert late[what] <= 1.3 * early[what], (what, early, late)
    assert len(opened_table(table).snapshot().timeline.completed_writes) <= OFTEN.keep_max_commits + 2
    assert len(files_of(table)) < 64
    archived = check_archived(table)
    assert archived == sorted(set(archived))
    check_stored(table)
    assert {row["id"] for row in rows_of(table)} == {f"n{n}" for n in range(64)} | {f"k{n}" for n in range(4)}


@pytest.mark.invariant("P24")
def test_kept_states_read_as_before(table: Table) -> None:
    states: list[tuple[str, list[dict[str, object]]]] = []
    saved = ""
    for number in range(30):
        instant = commit(table, number)
        states.append((instant, rows_of(table)))
        if number == 20:
            saved = table.savepoint(instant)
    for instant, rows in states[-OFTEN.cleaner_commits_retained :]:
        assert rows_of(table.read(as_of=instant)) == rows
    assert rows_of(table.read(as_of=saved)) == dict(states)[saved]
    assert table.restore(saved).restored_to == saved
    assert rows_of(table) == dict(states)[saved]


def test_rollback_includes_following_clustering(table: Table) -> None:
    number, instant, before = 0, "", rows_of(table)
    while opened_table(table).snapshot().timeline.last_replacement is None:
        before = rows_of(table)
        instant = commit(table, number)
        number += 1
    assert opened_table(table).snapshot().timeline.latest_write.time != instant  # type: ignore[union-attr]
    table.rollback(instant)
    assert rows_of(table) == before
    assert table.lookup([f"n{number - 1}"])["file_id"].to_pylist() == [None]
    check_stored(table)


def test_next_write_names_damaged_settings(table: Table) -> None:
    commit(table, 0)
    opened_table(table).definition.storage.write_bytes(paths.SETTINGS, b"{")
    with pytest.raises(CorruptTableError, match=f"file={paths.SETTINGS}"):
        commit(table, 1)


def test_failed_maintenance_costs_no_commit(table: Table, caplog: pytest.LogCaptureFixture) -> None:
    def fail(point: str) -> None:
        if point.startswith(f"before draft {paths.SERVICES}"):
            raise OSError("no room")

    failing = pointed(table, fail)
    with caplog.at_level(logging.WARNING, logger="rli"):
        instants = [commit(failing, number) for number in range(8)]
    assert "no room" in caplog.text
    assert all(instants)
    assert {row["id"] for row in rows_of(table)} == {f"n{n}" for n in range(8)} | {f"k{n}" for n in range(4)}
    assert [instant for instant in table.timeline() if instant.action == "clean"] == []
    check_stored(table)


def test_maintenance_that_is_off_does_nothing(table: Table) -> None:
    other = open_table(table.location)
    other.set_maintenance(Maintenance.off())
    # This one has opened the table before.
    for number in range(12):
        commit(table, number)
    assert [instant.action for instant in table.timeline()] == ["commit"] * 12
    other.close()


def test_handle_with_own_index_sets_maintenance(table: Table, memory_url: str) -> None:
    commit(table, 1)
    stored = table.settings.index_url
    elsewhere = open_table(table.location, index=f"{memory_url}-elsewhere")
    elsewhere.set_maintenance(Maintenance.off())
    again = open_table(table.location)
    assert again.settings.index_url == stored
    assert again.settings.maintenance.is_off
    assert elsewhere.settings.index_url == f"{memory_url}-elsewhere"


def test_old_table_is_not_maintained_unasked(table: Table) -> None:
    path = Path(table.location, paths.SETTINGS)
    settings = json.loads(path.read_bytes())
    del settings["maintenance"]
    path.write_text(json.dumps(settings))
    assert open_table(table.location).settings.maintenance.is_off


def test_archive_is_due_despite_cleans(tmp_path: Path, memory_url: str) -> None:
    often = Maintenance(clean_max_commits=1, cleaner_commits_retained=1, keep_min_commits=2, keep_max_commits=4)
    table = create_table(tmp_path / "often", record_key="id", partition_by="city", index=memory_url, maintenance=often)
    for number in range(9):
        commit(table, number)
    assert sum(instant.is_write for instant in table.timeline()) <= 5


def test_foreign_table_is_not_maintained(table: Table, memory_url: str) -> None:
    Path(table.location, paths.SETTINGS).unlink()
    adopted = open_table(table.location)
    adopted.bootstrap_index(f"{memory_url}-adopted")
    assert adopted.settings.maintenance.is_off


@pytest.mark.parametrize(
    "wrong", [{"cleaner_commits_retained": 60}, {"keep_max_commits": 60}, {"clean_max_commits": 0}]
)
def test_contradictory_numbers_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(SettingsError):
        Maintenance.of(**wrong)


def test_commit_does_not_wait_for_maintenance(table: Table, caplog: pytest.LogCaptureFixture) -> None:
    other = HeldLease(
        shared_records(opened_table(table).definition, opened_table(table).index), LEASE, "a long service"
    )

    def take_lease(step: Step) -> None:
        if step is Step.FINISHED:
            assert other.take(over=None)

    commit(table, 0)
    with caplog.at_level(logging.INFO, logger="rli"):
        second = table.upsert(records(("n1", "x", 1, 1.0)), on_step=take_lease)
    assert second.inserted == 1
    assert "left to a later commit" in caplog.text
    assert other.release()
    assert not any(instant.action == "clean" for instant in table.timeline())
    for number in range(2, 8):
        commit(table, number)
    assert any(instant.action == "clean" for instant in table.timeline())
    check_stored(table)


@dataclass(frozen=True)
class MeetingStorage(Storage):
    """Lets a deletion of a base file wait for another one to begin."""

    meeting: Barrier = field(default_factory=lambda: Barrier(2, timeout=60), compare=False)

    def delete_files(self, paths: Iterable[str]) -> None:
        for path in paths:
            if path.endswith(".parquet"):
                self.meeting.wait()
            super().delete_files([path])


def test_clean_deletes_files_in_parallel(tmp_path: Path, memory_url: str) -> None:
    made = create_table(tmp_path / "m", record_key="id", partition_by="city", index=memory_url, maintenance=False)
    for number in range(5):
        made.upsert(records(("a", "x", number, 1.0)))
    meeting = Table(replace(opened_table(made).definition, storage=MeetingStorage(made.location)))
    meeting._opened._index = opened_table(made).index  # noqa: SLF001  (an index in memory is known to its process alone)
    assert meeting.clean(keep_commits=2).files_deleted == 2
