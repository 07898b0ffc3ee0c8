"""Threads of one process share a table, beside another writer: the history is serialisable, and no look-up fails (P18)."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import pytest

from rli import Table, open_table
from rli.index.contract import SyncOptions
from rli.table.table import opened_table
from tests.concurrency.checker import check
from tests.concurrency.clients import do, history_of
from tests.concurrency.history import Committed, Event
from tests.concurrency.test_histories import CLIENTS, OPERATIONS, ROUNDS, SEED, new_table, operations
from tests.support.docker import Service
from tests.support.redis import dropped_afterwards, redis_url
from tests.support.tables import check_stored, records

SHARING = CLIENTS


@pytest.fixture(autouse=True)
def _threads_that_take_turns_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def work(table: Table, seed: int, number: int) -> list[Event]:
    """What one thread does with a table."""
    events: list[Event] = []
    for operation in operations(seed, number):
        called = time.monotonic()
        outcome = do(table, operation, attempts=4)
        events.append(Event(operation, outcome, called, time.monotonic(), number))
    return events


def require_serialisable(table: Table, seed: int) -> None:
    print(f"RLI_HISTORY_SEED={seed}")  # noqa: T201  (shown when the test fails)
    # The last one stands for another process: what it commits, the others find in the store.
    with open_table(table.location) as elsewhere, ThreadPoolExecutor(SHARING + 1) as threads:
        users = [table] * SHARING + [elsewhere]
        works = [threads.submit(work, user, seed, number) for number, user in enumerate(users)]
        events = [event for done in works for event in done.result()]
    anomalies = check(history_of(table, events))
    assert anomalies == [], "\n".join(map(str, [*anomalies, *sorted(events, key=lambda event: event.called)]))
    assert sum(isinstance(event.outcome, Committed) for event in events) > OPERATIONS / 2
    check_stored(table)


@pytest.mark.invariant("P18")
@pytest.mark.parametrize("number", range(ROUNDS))
@pytest.mark.parametrize("store", ["lmdb", "memory"])
def test_a_history_of_threads_is_serialisable(tmp_path: Path, store: str, number: int) -> None:
    url = f"lmdb://{tmp_path}/i" if store == "lmdb" else f"memory:{uuid4().hex}"
    with new_table(tmp_path, url, number) as table:
        require_serialisable(table, SEED + number)
        table.drop_index()


@pytest.mark.docker
def test_redis_thread_history_is_serialisable(tmp_path: Path, redis_server: Service) -> None:
    with dropped_afterwards(redis_url(redis_server)) as url, new_table(tmp_path, url, 0) as table:
        require_serialisable(table, SEED)


@pytest.mark.invariant("P18")
def test_sync_ignores_commits_of_other_thread(tmp_path: Path) -> None:
    with new_table(tmp_path, f"lmdb://{tmp_path}/i", 0) as table, open_table(table.location) as elsewhere:
        table.upsert(records(("a", "x", 1, 1.0)))

        def let_others_work() -> None:
            elsewhere.upsert(records(("b", "x", 1, 2.0)))
            with ThreadPoolExecutor(1) as thread:
                thread.submit(table.lookup, ["b"]).result()

        synced = opened_table(table).index.sync(
            opened_table(table).definition.reloaded(), SyncOptions(on_registered=let_others_work)
        )
        assert synced.sequence == len(synced.timeline.completed_writes) == 1
