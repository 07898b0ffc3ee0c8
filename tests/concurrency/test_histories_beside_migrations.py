"""Processes and threads write, look up and read one table while its index is migrated: the history is serialisable (P37)."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import cycle, product
from pathlib import Path
from threading import Event as Flag
from time import monotonic

import pytest

from rli import Step, Table, create_table, open_table
from tests.concurrency.checker import check
from tests.concurrency.clients import Point, clients, do, history_of
from tests.concurrency.history import Committed, Delete, Event, Lookup, Read, Upsert
from tests.concurrency.test_histories import OPERATIONS, SEED, operations, require_serialisable_events, run
from tests.support.docker import Service
from tests.support.redis import dropped_afterwards, redis_url
from tests.support.soak import cases, in_ci
from tests.support.tables import check_stored, turn_into_version_9

pytestmark = pytest.mark.invariant("P37")

LEASE_SECONDS = 0.3
LEAST_MIGRATIONS = 3


def table_at(folder: Path, index: str, lease_seconds: float | None = None) -> Table:
    """A table whose timeline tells in which order its commits were published, whatever index it has."""
    settings = {} if lease_seconds is None else {"lease_seconds": lease_seconds}
    table = create_table(
        folder / "t",
        record_key="id",
        partition_by="city",
        ordering="ts",
        index=index,
        shards=3,
        small_file_size=0,
        **settings,  # type: ignore[arg-type]
    )
    turn_into_version_9(table)
    return table


@contextmanager
def migrating(table: Table, ways: Sequence[str], *, drop_old: bool) -> Iterator[list[str]]:
    """Migrate the index round and round, until the context is left and each way was gone; what it has been."""
    ended, gone = Flag(), list[str]()

    def go_round() -> None:
        with open_table(table.location) as own:
            for to in cycle(ways):
                if ended.is_set() and len(gone) >= LEAST_MIGRATIONS:
                    return
                gone.append(own.migrate_index(to, shards=3 if "//" in to else None, drop_old=drop_old).index)

    with ThreadPoolExecutor(1) as threads:
        migration = threads.submit(go_round)
        try:
            yield gone
        finally:
            ended.set()
        migration.result()


@pytest.mark.slow
@pytest.mark.parametrize("number", range(cases(1)))
def test_a_history_beside_migrations_is_serialisable(tmp_path: Path, number: int) -> None:
    first, second = f"lmdb://{tmp_path}/i", f"lmdb://{tmp_path}/j"
    table = table_at(tmp_path, first)
    with migrating(table, [second, "global-simple:", first], drop_old=bool(number % 2)) as gone:
        events = run(table, SEED + number)
    assert len(gone) >= LEAST_MIGRATIONS
    require_serialisable_events(table, events)


@pytest.mark.slow
@pytest.mark.docker
def test_history_beside_redis_migrations_is_serialisable(tmp_path: Path, redis_server: Service) -> None:
    with dropped_afterwards(redis_url(redis_server)) as url:
        first = f"lmdb://{tmp_path}/i"
        table = table_at(tmp_path, first)
        with migrating(table, [url, first], drop_old=False):
            events = run(table, SEED)
        require_serialisable_events(table, events)
        table.close()


def test_threads_switch_index_together(tmp_path: Path) -> None:
    table = table_at(tmp_path, f"lmdb://{tmp_path}/i")
    print(f"RLI_HISTORY_SEED={SEED}")  # noqa: T201  (shown when the test fails)

    def work(process: int) -> list[Event]:
        events = []
        for operation in operations(SEED, process):
            called = monotonic()
            outcome = do(table, operation, attempts=8)
            events.append(Event(operation, outcome, called, monotonic(), process))
        return events

    ways = [f"lmdb://{tmp_path}/j", "global-simple:"]
    with migrating(table, ways, drop_old=True), ThreadPoolExecutor(2) as threads:
        events = [event for found in threads.map(work, range(2)) for event in found]
    assert len(events) == 2 * OPERATIONS
    require_serialisable_events(table, events)


BASE = Upsert((("a", "x", 1, 0.1), ("b", "x", 1, 0.2), ("c", "y", 1, 0.3)))
PAUSED = Upsert((("a", "x", 5, 1.1), ("new", "y", 5, 1.2), ("b", "y", 5, 1.3)))
POINTS = (Step.TAGGED, Step.WRITTEN, Step.LEASED, Step.PROMOTED, Point.BEFORE_PUBLISHING, Step.PUBLISHED)
RIVAL = Upsert((("a", "x", 6, 2.1), ("new", "z", 4, 2.2), ("c", "y", 6, 2.3)))


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.parametrize(
    ("point", "drops"), in_ci([*zip(POINTS, cycle([False, True]), strict=False)], of=[*product(POINTS, [False, True])])
)
def test_writer_stopped_across_switch_is_fenced(tmp_path: Path, point: Step | Point, *, drops: bool) -> None:
    """It holds the former index and its lease. When it wakes up it writes again, with the new index."""
    table = table_at(tmp_path, f"lmdb://{tmp_path}/i", LEASE_SECONDS)
    to = random.Random(str(point)).choice([f"lmdb://{tmp_path}/j", "global-simple:"])
    with clients(table.location, 2) as (paused, rival):
        events = [rival.do(BASE)]
        with paused.stopped(PAUSED, point, attempts=1):
            table.migrate_index(to, drop_old=drops)
            events += [rival.do(RIVAL), rival.do(Lookup(("a", "b", "c", "new"))), rival.do(Read())]
        ours = paused.finish()
        events += [ours, paused.do(Lookup(("a", "b", "c", "new"))), rival.do(Delete(("b",)))]
    assert isinstance(ours.outcome, Committed), ours
    assert table.index.url == to
    assert check(history_of(table, events)) == []
    check_stored(table)
