"""A process that is stopped past the expiry of all it holds, at each step, while another one commits.

When it goes on it is fenced off: its write fails, or is retried on the new snapshot. Nothing is lost or there twice.
"""

from __future__ import annotations

import time
from itertools import cycle
from pathlib import Path

import pytest

from rli import LeasePlace, Step, Table, create_table
from rli.coordination.liveness import Holding
from rli.coordination.shared_records import shared_records
from rli.coordination.writers import writer_record
from rli.table.table import opened_table
from rli.view import paths
from tests.concurrency.checker import check
from tests.concurrency.clients import Point, clients, history_of
from tests.concurrency.history import Committed, Delete, Event, Read, Refused, Upsert
from tests.support.leased_tables import leased_by_the_table
from tests.support.tables import check_stored

pytestmark = [pytest.mark.crash, pytest.mark.slow]

LEASE_SECONDS = 0.3
_DEADLINE_SECONDS = 60.0

BASE = Upsert((("a", "x", 1, 0.1), ("b", "x", 1, 0.2), ("c", "y", 1, 0.3)))
PAUSED = Upsert((("a", "x", 5, 1.1), ("new", "y", 5, 1.2), ("b", "y", 5, 1.3)))
RIVAL = Upsert((("a", "x", 6, 2.1), ("new", "z", 4, 2.2), ("c", "y", 6, 2.3)))

POINTS: tuple[Step | Point, ...] = (
    Step.REQUESTED,
    Step.TAGGED,
    Step.WRITTEN,
    Step.MANIFESTED,
    Step.LEASED,
    Step.FILE_PROMOTED,
    Step.PROMOTED,
    Point.BEFORE_PUBLISHING,
    Step.PUBLISHED,
    Step.REGISTERED,
    Step.CHANGES_APPLIED,
)

EARLY = (Step.REQUESTED, Step.TAGGED)


@pytest.fixture(params=list(LeasePlace))
def lease(request: pytest.FixtureRequest) -> LeasePlace:
    """Where the writers meet."""
    return LeasePlace(request.param)


@pytest.fixture
def indexes(lease: LeasePlace, tmp_path: Path) -> list[str | None]:
    """Of each client: one for all, or one for each where only the table is shared."""
    return [None] if lease is LeasePlace.INDEX else [None, f"lmdb://{tmp_path}/other"]


@pytest.fixture
def table(tmp_path: Path, lease: LeasePlace) -> Table:
    """A table whose writers have to give signs of life all the time."""
    if lease is LeasePlace.TABLE:
        return leased_by_the_table(tmp_path, lease_seconds=LEASE_SECONDS)[0]
    return create_table(
        tmp_path / "t",
        record_key="id",
        partition_by="city",
        ordering="ts",
        index=f"lmdb://{tmp_path}/i",
        shards=3,
        lease_seconds=LEASE_SECONDS,
        metadata=["files", "column_stats", "record_index"],
    )


def instant_under_way(table: Table) -> str:
    [folder] = opened_table(table).definition.storage.list_folders(paths.WORK)
    return folder.rpartition("/")[2]


def await_takeover(table: Table) -> None:
    """Let others clean up until one of them has taken the stopped writer for dead."""
    name = writer_record(instant_under_way(table))
    deadline = time.monotonic() + _DEADLINE_SECONDS
    while True:
        record = shared_records(opened_table(table).definition, opened_table(table).index).read_control(name)
        if record is None or Holding.from_json(record).is_placeholder:
            return
        assert time.monotonic() < deadline, f"nobody has taken over: record={name}"
        table.sync_index()
        time.sleep(LEASE_SECONDS / 10)


@pytest.mark.invariant("P4", "P9", "P10")
@pytest.mark.parametrize(("point", "attempts"), list(zip(POINTS, cycle((1, 4)), strict=False)))
def test_writer_stopped_too_long_is_fenced(
    table: Table, indexes: list[str | None], point: Step | Point, attempts: int
) -> None:
    with clients(table.location, 2, indexes=indexes) as (paused, rival):
        events = [rival.do(BASE)]
        with paused.stopped(PAUSED, point, attempts):
            await_takeover(table)
            events += [rival.do(RIVAL), rival.do(Read())]
        ours = paused.finish()
        events += [ours, paused.do(Read()), rival.do(Delete(("b",)))]
    require_fenced(point, attempts, ours)
    table.sync_index()
    assert check(history_of(table, events)) == []
    check_stored(table)


@pytest.mark.invariant("P3", "P4")
@pytest.mark.parametrize(
    ("point", "attempts"),
    [
        (Step.LEASED, 1),
        (Step.FILE_PROMOTED, 4),
        (Point.BEFORE_PUBLISHING, 1),
        (Point.BEFORE_PUBLISHING, 4),
        (Step.PUBLISHED, 1),
    ],
)
def test_lease_successor_fences_predecessor(
    table: Table, indexes: list[str | None], point: Step | Point, attempts: int
) -> None:
    """The rival has begun before, so that it finds the stopped writer only when it wants the lease itself."""
    with clients(table.location, 2, indexes=indexes) as (paused, rival):
        events = [rival.do(BASE)]
        rival.hold(RIVAL, Step.WRITTEN)
        with paused.stopped(PAUSED, point, attempts):
            events += [rival.finish(), rival.do(Read())]
        ours = paused.finish()
        events += [ours, paused.do(Read())]
    require_fenced(point, attempts, ours)
    table.sync_index()
    assert check(history_of(table, events)) == []
    check_stored(table)


def require_fenced(point: Step | Point, attempts: int, ours: Event) -> None:
    is_published = point in {Step.PUBLISHED, Step.REGISTERED, Step.CHANGES_APPLIED}
    if is_published or attempts > 1:
        assert isinstance(ours.outcome, Committed), ours
    else:
        # Before it asks for the lease, it may also see what the other has committed.
        refusals = [Refused("LeaseLostError"), *([Refused("ConflictError")] if point in EARLY else [])]
        assert ours.outcome in refusals, ours


def test_stopped_write_without_rivals_goes_on(table: Table) -> None:
    """Expiry alone costs nobody anything."""
    with clients(table.location, 1) as (client,):
        events = [client.do(BASE)]
        with client.stopped(PAUSED, Step.PROMOTED, attempts=1):
            record = shared_records(opened_table(table).definition, opened_table(table).index).read_control(
                writer_record(instant_under_way(table))
            )
            assert record is not None
            while not Holding.from_json(record).is_over(time.time()):
                time.sleep(LEASE_SECONDS)
        events.append(client.finish())
    assert isinstance(events[-1].outcome, Committed)
    table.sync_index()
    assert check(history_of(table, events)) == []
    check_stored(table)
