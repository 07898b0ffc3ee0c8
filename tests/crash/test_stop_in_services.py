"""A table service that is stopped past its lease at each change that it makes, while others work on the table.

When it goes on it changes nothing, or it was announced and the others have carried it out (docs/protocol.md, P21). So
what they were told stays true, and every service still works.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

import pytest

from rli import InstantNotFoundError, LeasePlace, RliError, Table
from rli.table.table import opened_table
from rli.view import paths
from tests.crash.conftest import Copies, write_template
from tests.crash.writes import BATCH, open_copy, pointed
from tests.support.children import Paused, stopping
from tests.support.faults import stop_this_process
from tests.support.soak import EVERY_POINT
from tests.support.tables import check_archived, check_stored, records, rows_of

pytestmark = [pytest.mark.crash, pytest.mark.slow]

_LEASE_SECONDS: Final = 1.0
_SAVED: Final = 1
"""Position of the commit that savepoints keep."""

_PLACES: Final = {6: (LeasePlace.TABLE, 100 << 20), 9: (LeasePlace.INDEX, 0)}
"""By the table's version, where its lease is, and below how many bytes a base file is filled."""

_DONE: Final = "done"
_LOST: Final = "LeaseLostError"

Service = Callable[[Table], None]


@dataclass(frozen=True)
class Changes:
    """Counts the changes of the table's files that a service makes, and stops the process before one of them."""

    names: list[str]
    stop_at: int | None = None

    def __call__(self, point: str) -> None:
        # Signs of life come from a thread, and are no part of the service.
        if threading.current_thread() is not threading.main_thread() or paths.RECORDS in point:
            return
        if point.startswith("before") and ".hoodie" in point:
            self.names.append(point)
            if len(self.names) == self.stop_at:
                stop_this_process()


def clean(table: Table) -> None:
    table.clean(keep_commits=1)


def archive(table: Table) -> None:
    table.archive(keep_commits=1)


def save(table: Table) -> None:
    table.savepoint(instants(table)[_SAVED])


def forget(table: Table) -> None:
    table.delete_savepoint(instants(table)[_SAVED])


def roll_back(table: Table) -> None:
    table.rollback(instants(table)[-1])


def restore(table: Table) -> None:
    table.restore(instants(table)[1])


def enable(table: Table) -> None:
    table.metadata.enable(["files"])


def compacted(table: Table) -> None:
    enable(table)
    table.upsert(records(("a", "x", 5, 5.0)))
    table.metadata.compact()
    table.upsert(records(("a", "x", 6, 6.0)))


def cluster(table: Table) -> None:
    table.cluster()


def instants(table: Table) -> list[str]:
    return [instant.time for instant in opened_table(table).snapshot().timeline.completed_writes]


def serve(folder: Path, service: Service, number: int, answers: Connection) -> None:
    """A child's work: a service that stops at a change."""
    try:
        service(pointed(open_copy(folder), Changes([], number)))
        answers.send(_DONE)
    except RliError as error:
        answers.send(type(error).__name__)


def paused(folder: Path, service: Service, number: int) -> AbstractContextManager[Paused]:
    """Start a service and wait until it has stopped; its outcome is "done" or the name of its error."""
    return stopping(serve, folder, service, number)


@pytest.fixture(scope="module", params=[6, 9])
def several(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table of four commits whose writers have to give signs of life all the time."""
    folder = tmp_path_factory.mktemp("several")
    lease, small = _PLACES[request.param]
    write_template(folder, request.param, lease, lease_seconds=_LEASE_SECONDS, small_file_size=small)
    with open_copy(folder) as table:
        table.upsert(records(*BATCH))
        table.upsert(records(("a", "x", 4, 4.0), ("d", "new", 4, 4.0)))
    return folder


@pytest.fixture
def copies(several: Path, tmp_path: Path) -> Copies:
    return Copies(several, tmp_path)


def stopped_at_each_change(
    copies: Copies, service: Service, before: Service = lambda _: None, *, every: int = 13
) -> Iterator[tuple[Path, int, str]]:
    """A table for each change of a service, the number of the change, and its name."""
    changes = Changes([])
    folder = copies.make()
    with open_copy(folder) as table:
        before(table)
        service(pointed(table, changes))
        layout = opened_table(table).definition.properties.layout_version
    numbers = range(1, len(changes.names) + 1)
    # The tables of the two layouts take turns.
    for number in numbers if EVERY_POINT else numbers[layout::every] or numbers[-1:]:
        folder = copies.make()
        with open_copy(folder) as table:
            before(table)
        yield folder, number, changes.names[number - 1]


def require_alive(table: Table) -> None:
    """Every service works, and nothing is left of one that did not end."""
    table.sync_index()
    rows = rows_of(table)
    written = table.upsert(records(("alive", "x", 1, 1.0))).instant or ""
    table.rollback(written)
    assert rows_of(table) == rows
    last = table.upsert(records(("alive", "x", 1, 1.0))).instant or ""
    table.savepoint(last)
    table.clean(keep_commits=1)
    table.archive(keep_commits=1)
    table.restore(last)
    table.delete_savepoint(last)
    archived = check_archived(table)
    assert archived == sorted(set(archived))
    assert [instant for instant in table.timeline() if not instant.is_completed] == []
    assert opened_table(table).definition.storage.list_files(paths.PREPARED) == []
    check_stored(table)


@pytest.mark.invariant("P21")
def test_savepoint_survives_stopped_clean(copies: Copies) -> None:
    for folder, number, change in stopped_at_each_change(copies, clean):
        with open_copy(folder) as table:
            saved = instants(table)[_SAVED]
            rows = rows_of(table.read(as_of=saved))
            with paused(folder, clean, number) as stopped:
                try:
                    save(table)
                    is_saved = True
                except InstantNotFoundError:
                    is_saved = False
            assert stopped.outcome in {_DONE, _LOST}, change
            if is_saved:
                assert stopped.outcome == _LOST, change
                assert rows_of(table.read(as_of=saved)) == rows, change
                assert table.restore(saved).restored_to == saved, change
                table.delete_savepoint(saved)
            require_alive(table)


def test_clean_spares_stopped_savepoint_files(copies: Copies) -> None:
    for folder, number, change in stopped_at_each_change(copies, save):
        with open_copy(folder) as table:
            saved = instants(table)[_SAVED]
            rows = rows_of(table.read(as_of=saved))
            with paused(folder, save, number) as stopped:
                clean(table)
            savepoints = [instant.time for instant in opened_table(table).snapshot().timeline.savepoints]
            assert stopped.outcome == (_DONE if savepoints else _LOST), change
            if savepoints:
                assert rows_of(table.read(as_of=saved)) == rows, change
                table.delete_savepoint(saved)
            require_alive(table)


def test_stopped_deletion_spares_later_savepoint(copies: Copies) -> None:
    for folder, number, change in stopped_at_each_change(copies, forget, before=save):
        with open_copy(folder) as table:
            saved = instants(table)[_SAVED]
            with paused(folder, forget, number):
                save(table)
                clean(table)
            assert [instant.time for instant in opened_table(table).snapshot().timeline.savepoints] == [saved], change
            table.delete_savepoint(saved)
            require_alive(table)


@pytest.mark.invariant("P21")
@pytest.mark.parametrize("service", [clean, archive])
def test_service_finished_by_others_leaves_nothing(copies: Copies, service: Service) -> None:
    for folder, number, change in stopped_at_each_change(copies, service):
        with open_copy(folder) as table:
            with paused(folder, service, number) as stopped:
                for version in (10, 11, 12):
                    table.upsert(records(("a", "x", version, 1.0), ("d", "new", version, 1.0)))
                    clean(table)
                    archive(table)
                rows = rows_of(table)
            assert stopped.outcome in {_DONE, _LOST}, change
            assert rows_of(table) == rows, change
            require_alive(table)


@pytest.mark.parametrize("service", [roll_back, restore])
def test_what_was_announced_is_undone_once(copies: Copies, service: Service) -> None:
    """And what others commit behind it stays."""
    for folder, number, change in stopped_at_each_change(copies, service):
        with open_copy(folder) as table:
            before = rows_of(table)
            with paused(folder, service, number) as stopped:
                table.upsert(records(("later", "x", 1, 1.0)))
            assert stopped.outcome in {_DONE, _LOST, "InstantNotFoundError"}, change
            rest = [row for row in rows_of(table) if row["id"] != "later"]
            assert len(rest) < len(rows_of(table)), change
            assert (rest == before) == (stopped.outcome != _DONE), change
            require_alive(table)


def test_writes_beside_a_stopped_clustering_stay(copies: Copies) -> None:
    for folder, number, change in stopped_at_each_change(copies, cluster):
        with open_copy(folder) as table:
            expected = rows_of(table)
            with paused(folder, cluster, number) as stopped:
                table.upsert(records(("later", "x", 1, 1.0)))
                table.delete(["later"])
                clean(table)
            assert stopped.outcome in {_DONE, _LOST, "ConflictError"}, change
            assert rows_of(table) == expected, change
            require_alive(table)


@pytest.mark.invariant("P53")
def test_partitions_beside_a_stopped_birth_stay(copies: Copies) -> None:
    for folder, number, change in stopped_at_each_change(copies, enable, every=47):
        with open_copy(folder) as table:
            with paused(folder, enable, number) as stopped:
                table.upsert(records(("later", "x", 1, 1.0)))
                rows = rows_of(table)
                enable(table)
            assert stopped.outcome in {_DONE, _LOST}, change
            assert table.metadata.verify() == (), change
            assert [found.partition for found in table.metadata.status().partitions] == ["files"], change
            assert rows_of(table) == rows, change
            require_alive(table)


@pytest.mark.invariant("P54")
def test_metadata_beside_a_stopped_archive_stays(copies: Copies) -> None:
    for folder, number, change in stopped_at_each_change(copies, archive, before=compacted, every=47):
        with open_copy(folder) as table:
            with paused(folder, archive, number) as stopped:
                table.upsert(records(("later", "x", 1, 1.0)))
                table.metadata.compact()
                archive(table)
                rows = rows_of(table)
            assert stopped.outcome in {_DONE, _LOST}, change
            assert table.metadata.verify() == (), change
            assert rows_of(table) == rows, change
            require_alive(table)
            assert table.metadata.verify() == (), change
