"""A write that was in conflict twice gets a turn: the others let it go first, unless it dies or takes too long (P45)."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Event as Flag

import pytest

from rli import CommitResult, ConflictError, LeaseBusyError, LeasePlace, Step, Table, create_table, open_table
from rli.commit.lease_breaking import break_lease
from rli.commit.recovery import exclusive
from rli.commit.turns import TURN, end_turn, exclusive_in_turn, own_turn
from rli.coordination.liveness import Holding
from rli.coordination.shared_records import shared_records
from rli.processes import ProcessId
from rli.storage import Storage
from rli.table.table import opened_table
from rli.telemetry.waits import current_waits
from rli.view import paths
from tests.concurrency.checker import check
from tests.concurrency.clients import Client, clients, do, history_of
from tests.concurrency.history import Committed, Delete, Event, Insert, Operation, Upsert
from tests.support.children import start_child, stopping
from tests.support.docker import Service
from tests.support.redis import dropped_afterwards, redis_url
from tests.support.soak import cases, in_ci
from tests.support.tables import by_key, check_stored, records, rows_of
from tests.support.waiting import eventually

pytestmark = pytest.mark.invariant("P45")

KEYS = ("a", "b", "c")
LONG_SECONDS = 300.0
SHORT_SECONDS = 2.0
WAITED_SECONDS = 5.0

NewTable = Callable[..., Table]


@pytest.fixture(params=in_ci(["store", "table"], of=["store", "table", "elsewhere"]))
def new_table(request: pytest.FixtureRequest, tmp_path: Path) -> NewTable:
    """Makes an empty table; its lease is in each place that it can be in."""
    place = {"store": LeasePlace.INDEX, "table": LeasePlace.TABLE, "elsewhere": f"lmdb://{tmp_path}/leases"}
    return lambda seconds: table_at(tmp_path, f"lmdb://{tmp_path}/i", seconds, lease=place[request.param])


def table_at(folder: Path, index: str, lease_seconds: float, lease: LeasePlace | str = LeasePlace.INDEX) -> Table:
    return create_table(
        folder / "t",
        record_key="id",
        partition_by="city",
        ordering="ts",
        index=index,
        lease=lease,
        lease_seconds=lease_seconds,
    )


def filled(table: Table) -> Table:
    table.upsert(records(*((key, "x", 0, 0.0) for key in KEYS)))
    return table


def turn_of(table: Table) -> bytes | None:
    return shared_records(opened_table(table).definition, opened_table(table).index).read_control(TURN)


def put_turn(table: Table, content: bytes) -> None:
    """As another process would."""
    stored = shared_records(opened_table(table).definition, opened_table(table).index)
    assert stored.compare_and_set(TURN, None, content)


def events_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [getattr(record, "rli_event", "") for record in caplog.records]


def is_waiting_for_turn() -> bool:
    return any("turn" in wait.describe() for wait in current_waits(0.0))


class Rival:
    """Commits while a write is at work in each of its attempts: at once, and in a thread once the write has its turn."""

    def __init__(self, table: Table) -> None:
        self._table = open_table(table.location)
        self._threads = ThreadPoolExecutor(1)
        self.commits: list[CommitResult] = []
        self.last: CommitResult | None = None

    def __call__(self, step: Step) -> None:
        if step is not Step.TAGGED:
            return
        if turn_of(self._table) is None:
            self.commits.append(self._write())
        else:
            self._later = self._threads.submit(self._write)
            eventually(is_waiting_for_turn, "the rival waits")

    def _write(self) -> CommitResult:
        number = len(self.commits) + 1
        return self._table.upsert(records(("a", "x", number, float(number))))

    def finish(self) -> CommitResult:
        """What it committed after the turn."""
        return self._later.result()


def test_third_attempt_has_no_conflict(new_table: NewTable) -> None:
    table = filled(new_table(LONG_SECONDS))
    rival = Rival(table)
    result = table.upsert(records(("a", "x", 9, 9.0), ("new", "y", 1, 1.0)), attempts=3, on_step=rival)
    assert (result.attempts, result.conflicts) == (3, 2)
    assert (result.inserted, result.updated) == (1, 1)
    # The rival goes on at once, finds a conflict, and is told that its record came too late.
    assert rival.finish().unchanged == 1
    assert turn_of(table) is None
    assert by_key(rows_of(table))["a"]["v"] == 9.0
    check_stored(table)


def test_two_attempts_take_no_turn(new_table: NewTable) -> None:
    table = filled(new_table(LONG_SECONDS))
    with pytest.raises(ConflictError):
        table.upsert(records(("a", "x", 9, 9.0)), attempts=2, on_step=Rival(table))
    assert turn_of(table) is None
    check_stored(table)


def test_services_wait_for_no_turn(new_table: NewTable) -> None:
    table = filled(new_table(LONG_SECONDS))
    other, rival, cleaned = open_table(table.location), Rival(table), list[object]()

    def clean(step: Step) -> None:
        rival(step)
        if step is Step.WRITTEN and turn_of(table) is not None:
            cleaned.append(other.clean(keep_commits=1, timeout=LONG_SECONDS / 2))

    assert table.upsert(records(("a", "x", 9, 9.0)), attempts=3, on_step=clean).attempts == 3
    assert len(cleaned) == 1
    rival.finish()
    check_stored(table)


def test_slow_write_blocks_nobody_forever(new_table: NewTable) -> None:
    """It is in conflict again, as if there were no turns; only the others' time counts."""
    table = filled(new_table(SHORT_SECONDS))
    rival = Rival(table)

    def slow(step: Step) -> None:
        rival(step)
        if step is Step.WRITTEN and turn_of(table) is not None:
            rival.finish()

    with pytest.raises(ConflictError):
        table.upsert(records(("a", "x", 9, 9.0)), attempts=3, on_step=slow)
    assert turn_of(table) is None
    assert by_key(rows_of(table))["a"]["v"] == 3.0
    check_stored(table)


def test_breaking_the_lease_ends_a_turn(new_table: NewTable) -> None:
    table = filled(new_table(LONG_SECONDS))
    rival = Rival(table)

    def break_it(step: Step) -> None:
        rival(step)
        if step is Step.WRITTEN and turn_of(table) is not None:
            break_lease(opened_table(table).definition, opened_table(table).index)
            rival.finish()

    with pytest.raises(ConflictError):
        table.upsert(records(("a", "x", 9, 9.0)), attempts=3, on_step=break_it)
    check_stored(table)


def write_with_turn(location: str, signal_number: int, outcome: Connection | None) -> None:
    """A child's work: it gets a turn, and then the signal."""
    table, other, numbers = open_table(location), open_table(location), count(1)

    def step(reached: Step) -> None:
        if reached is Step.TAGGED and turn_of(table) is None:
            other.upsert(records(("b", "x", next(numbers), 1.0)))
        elif reached is Step.WRITTEN and turn_of(table) is not None:
            os.kill(os.getpid(), signal_number)

    result = table.upsert(records(("b", "x", 9, 7.0), ("new", "y", 1, 1.0)), on_step=step)
    if outcome is not None:
        outcome.send(str(result.inserted))


@pytest.mark.crash
def test_a_dead_writer_has_no_turn(new_table: NewTable) -> None:
    table = filled(new_table(LONG_SECONDS))
    child = start_child(write_with_turn, table.location, signal.SIGKILL, None)
    child.join()
    assert child.exitcode == -signal.SIGKILL
    assert turn_of(table) is not None
    result = table.upsert(records(("a", "x", 9, 9.0), ("new", "x", 9, 9.0)))
    assert (result.inserted, result.attempts) == (1, 1)
    assert turn_of(table) is None
    check_stored(table)


@pytest.mark.crash
def test_a_paused_writer_loses_its_turn(new_table: NewTable) -> None:
    table = filled(new_table(SHORT_SECONDS))
    with stopping(write_with_turn, table.location, signal.SIGSTOP) as paused:
        result = table.upsert(records(("b", "x", 8, 8.0), ("new", "x", 9, 9.0)))
        assert (result.inserted, result.attempts) == (1, 1)
    assert paused.outcome == "0"
    assert by_key(rows_of(table))["b"]["v"] == 7.0
    check_stored(table)


def test_waiting_costs_no_turn(tmp_path: Path) -> None:
    """As beside many writers: the second attempt waits for the lease as long as a turn lasts."""
    table = filled(table_at(tmp_path, f"lmdb://{tmp_path}/i", WAITED_SECONDS))
    rival = Rival(table)
    with ThreadPoolExecutor(1) as threads:

        def step(reached: Step) -> None:
            rival(reached)
            if reached is Step.MANIFESTED and len(rival.commits) == 2 and turn_of(table) is None:
                is_held = Flag()
                threads.submit(hold_lease_for_long, table, is_held)
                assert is_held.wait(LONG_SECONDS)

        result = table.upsert(records(("a", "x", 9, 9.0)), attempts=3, on_step=step)
    assert (result.attempts, result.conflicts) == (3, 2)
    rival.finish()
    check_stored(table)


def hold_lease_for_long(table: Table, is_held: Flag) -> None:
    """Until another thread has waited for as long as a turn lasts."""
    with exclusive(opened_table(table).definition, opened_table(table).index, "a long service"):
        is_held.set()
        eventually(lambda: any("the lease" in wait.describe() for wait in current_waits(WAITED_SECONDS)), "a long wait")


def test_damaged_turn_stops_no_write(new_table: NewTable, caplog: pytest.LogCaptureFixture) -> None:
    table = filled(new_table(LONG_SECONDS))
    put_turn(table, b"{")
    assert table.upsert(records(("a", "x", 1, 1.0))).updated == 1
    assert "turn.damaged" in events_of(caplog)
    assert turn_of(table) is None


def test_damaged_turn_prevents_no_turn(new_table: NewTable) -> None:
    table = filled(new_table(LONG_SECONDS))
    put_turn(table, b"{")
    with own_turn(opened_table(table).definition, opened_table(table).index, patience=LONG_SECONDS) as turn:
        stored = turn_of(table)
        assert stored is not None
        assert Holding.from_json(stored).writer == turn
    assert turn_of(table) is None


def turn_of_another_process() -> bytes:
    return Holding("another", ProcessId.current(), time.time() + LONG_SECONDS, LONG_SECONDS).to_json()


def test_patience_ends_wait_for_own_turn(new_table: NewTable, caplog: pytest.LogCaptureFixture) -> None:
    table = filled(new_table(LONG_SECONDS))
    put_turn(table, others := turn_of_another_process())
    began = time.monotonic()
    with own_turn(opened_table(table).definition, opened_table(table).index, patience=1.0):
        assert time.monotonic() - began < LONG_SECONDS
        assert turn_of(table) == others
    assert "turn.missed" in events_of(caplog)
    assert turn_of(table) == others


def test_turns_and_lease_share_patience(tmp_path: Path) -> None:
    """The wait for the lease after that for a turn does not begin anew."""
    table = filled(table_at(tmp_path, f"lmdb://{tmp_path}/i", LONG_SECONDS))
    definition, index = opened_table(table).definition, opened_table(table).index
    put_turn(table, turn_of_another_process())
    has_ended = Flag()

    def end_turn_with_lease() -> None:
        eventually(lambda: any("turn" in wait.describe() for wait in current_waits(0.5)), "the write waits")
        with exclusive(definition, index, "a service"):
            end_turn(definition, index)
            assert has_ended.wait(LONG_SECONDS)

    with ThreadPoolExecutor(1) as threads:
        service = threads.submit(end_turn_with_lease)
        try:
            with (
                pytest.raises(LeaseBusyError, match=r"holds the lease.* waited=[0-3]\.?\d* s"),
                exclusive_in_turn(definition, index, "a write", None, patience=4.0),
            ):
                pass
        finally:
            has_ended.set()
        service.result()


class _NoTurnRemoved(Storage):
    """A storage that cannot remove the record of a turn."""

    def create(self, path: str, content: bytes) -> bool:
        if path.startswith(f"{paths.RECORDS}/{TURN}.") and not content:
            raise OSError("the storage does not answer")
        return super().create(path, content)


def test_write_survives_failed_turn_removal(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = filled(table_at(tmp_path, f"lmdb://{tmp_path}/i", LONG_SECONDS, lease=LeasePlace.TABLE))
    put_turn(table, Holding.unknown("a dead write").to_json())
    with Table(replace(opened_table(table).definition, storage=_NoTurnRemoved(table.location))) as failing:
        assert failing.upsert(records(("a", "x", 1, 1.0))).updated == 1
    assert "turn.left_behind" in events_of(caplog)
    assert table.upsert(records(("a", "x", 2, 2.0))).updated == 1
    assert turn_of(table) is None


def require_small_writes_succeed(table: Table) -> None:
    """Beside processes that commit on the same keys all the time."""
    ended = Flag()
    with clients(table.location, 2) as greedy, ThreadPoolExecutor(2) as threads:
        events = [greedy[0].do(Upsert(tuple((key, "x", 0, 0.0) for key in KEYS)))]
        committing = [threads.submit(keep_committing, client, number, ended) for number, client in enumerate(greedy)]
        try:
            events += [
                small_write(table, operation) for number in range(cases(2)) for operation in small_writes(number)
            ]
        finally:
            ended.set()
        events += [event for found in committing for event in found.result()]
    table.sync_index()
    assert check(history_of(table, events)) == []
    check_stored(table)


def keep_committing(client: Client, process: int, ended: Flag) -> list[Event]:
    events: list[Event] = []
    while not ended.is_set():
        number = len(events) + 1
        rows = tuple((key, "x", number, 10_000.0 * (process + 1) + number + at / 10) for at, key in enumerate(KEYS))
        events.append(client.do(Upsert(rows), attempts=100))
    return events


def small_writes(number: int) -> Iterator[Operation]:
    yield Upsert((("a", "y", 10 * number, 1000.0 + number), (f"new {number}", "x", 1, 2000.0 + number)))
    yield Insert((("a", "x", 1, 3000.0 + number), ("d", "x", 1, 4000.0 + number)))
    yield Delete(("c", "d"))


def small_write(table: Table, operation: Operation) -> Event:
    """One that would always be in conflict: in each attempt it waits until another writer commits, or waits for it."""

    def step(reached: Step) -> None:
        if reached is Step.TAGGED and turn_of(table) is None:
            latest = opened_table(table).definition.load_timeline().latest_write
            eventually(lambda: opened_table(table).definition.load_timeline().latest_write != latest, "another commit")

    called = time.monotonic()
    outcome = do(table, operation, attempts=3, on_step=step)
    assert isinstance(outcome, Committed)
    return Event(operation, outcome, called, time.monotonic(), process=2)


@pytest.mark.slow
def test_small_writes_succeed_beside_greedy_ones(new_table: NewTable) -> None:
    require_small_writes_succeed(new_table(LONG_SECONDS))


@pytest.mark.slow
@pytest.mark.docker
def test_small_writes_succeed_on_redis(tmp_path: Path, redis_server: Service) -> None:
    with dropped_afterwards(redis_url(redis_server)) as url, table_at(tmp_path, url, LONG_SECONDS) as table:
        require_small_writes_succeed(table)
