"""What a process deletes that has lost the lease: nothing of those who have had it since.

It has read the timeline under the lease, and lists files later. What others have committed in between is on no timeline that
it knows.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event

import pytest

from rli import LeaseLostError, Table, TransactionMismatchError, create_table, open_table
from rli.commit.lease_breaking import break_lease
from rli.commit.recovery import exclusive
from rli.storage import Storage
from rli.storage.storage import StoredFile
from rli.table.table import opened_table
from rli.view import paths
from tests.crash.writes import pointed
from tests.support.tables import check_stored, records

JOB = "job-7"


@dataclass(frozen=True)
class ListedStorage(Storage):
    """A storage that reports a listing before it makes it."""

    before_listing: Callable[[str], None] = field(default=lambda _: None, repr=False, compare=False)

    def list_files(self, path: str = "", *, recursive: bool = False) -> list[StoredFile]:
        self.before_listing(path)
        return super().list_files(path, recursive=recursive)

    def list_folders(self, path: str = "") -> list[str]:
        self.before_listing(path)
        return super().list_folders(path)


class Successor:
    """Takes the lease over before the n-th listing of a folder, and commits.

    Attributes:
        has_come: whether there was such a listing.
    """

    def __init__(self, table: Table, folder: str, number: int) -> None:
        self.has_come = False
        self._table, self._folder, self._left = table, folder, number

    def __call__(self, path: str) -> None:
        if self.has_come or not path.startswith(self._folder):
            return
        self._left -= 1
        if self._left < 0:
            self.has_come = True
            break_lease(opened_table(self._table).definition, opened_table(self._table).index)
            self._table.upsert(records(("a", "x", 1, 1.0)), transaction=(JOB, 2))
            self._table.delete(["gone"], ordering=[9])


def write(table: Table) -> None:
    table.upsert(records(("b", "x", 1, 1.0)), transaction=(JOB, 1), attempts=1)


def archive(table: Table) -> None:
    table.archive(keep_commits=1)


@pytest.mark.invariant("P26", "P42")
@pytest.mark.parametrize(
    ("work", "folder"), [(write, paths.TRANSACTIONS), (archive, paths.TRANSACTIONS), (archive, paths.DELETED_KEYS)]
)
def test_commits_of_a_successor_stay(tmp_path: Path, work: Callable[[Table], None], folder: str) -> None:
    number, has_come = 0, True
    while has_come:
        place = tmp_path / str(number)
        table = create_table(place / "t", record_key="id", partition_by="city", ordering="ts", maintenance=False)
        for version in range(3):
            table.upsert(records(("z", "y", version, 1.0)))
        successor = Successor(open_table(table.location), folder, number)
        storage = ListedStorage(table.location, before_listing=successor)
        # Before it has the lease, a write may also learn of the greater number.
        with suppress(LeaseLostError, TransactionMismatchError):
            work(Table(replace(opened_table(table).definition, storage=storage)))
        has_come = successor.has_come
        if has_come:
            assert table.upsert(records(("a", "x", 1, 1.0)), transaction=(JOB, 2)).repeated
            assert table.upsert(records(("gone", "x", 8, 1.0))).inserted == 0
        check_stored(table)
        number += 1
    assert number > 1


def roll_back(table: Table) -> None:
    table.rollback("last")


def clean(table: Table) -> None:
    table.clean(keep_commits=1)


@pytest.mark.invariant("P4", "P21")
@pytest.mark.parametrize(
    ("folder", "service"), [(paths.UNDOING, roll_back), (paths.SERVICES, clean), (paths.ARCHIVING, archive)]
)
def test_drafts_of_a_successor_stay(tmp_path: Path, folder: str, service: Callable[[Table], None]) -> None:
    """A process is paused before it lists what others left, and goes on when its successor has a draft there."""
    table = create_table(tmp_path / "t", record_key="id", partition_by="city", ordering="ts", maintenance=False)
    for version in range(4):
        table.upsert(records(("a", "x", version, 1.0)))
    paused, goes_on = Event(), Event()

    def pause(listed: str) -> None:
        if listed == folder:
            paused.set()
            assert goes_on.wait(60)

    def enter() -> None:
        storage = ListedStorage(table.location, before_listing=pause)
        definition = replace(opened_table(table).definition, storage=storage)
        with pytest.raises(LeaseLostError), exclusive(definition, opened_table(table).index, "paused"):
            pass

    with ThreadPoolExecutor(1) as thread:
        entered = thread.submit(enter)
        assert paused.wait(60)

        def go_on(point: str) -> None:
            if point.startswith(f"after draft {folder}"):
                goes_on.set()
                entered.result()

        break_lease(opened_table(table).definition, opened_table(table).index)
        try:
            service(pointed(table, go_on))
        finally:
            goes_on.set()
        assert entered.done()
    check_stored(table)


@pytest.mark.invariant("P4")
def test_journals_of_later_savepoint_stay(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", record_key="id", partition_by="city", ordering="ts", maintenance=False)
    first, *_ = [table.upsert(records((f"k{city}", city, 1, 1.0))).instant or "" for city in "xyz"]
    journals = opened_table(table).definition.storage.list_folders(paths.JOURNAL)

    def save(listed: str) -> None:
        if listed == paths.JOURNAL:
            break_lease(opened_table(table).definition, opened_table(table).index)
            table.savepoint(first)

    storage = ListedStorage(table.location, before_listing=save)
    with pytest.raises(LeaseLostError):
        clean(Table(replace(opened_table(table).definition, storage=storage)))
    assert opened_table(table).definition.storage.list_folders(paths.JOURNAL) == journals
    check_stored(table)
