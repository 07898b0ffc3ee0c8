"""The ceiling on operations holds for all processes together."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from rli.errors import StoreUnavailableError
from rli.store.contract import Store
from rli.store.registry import open_store
from rli.testing.batches import entries_of, get_all, key_batch, random_keys, scanned
from rli.testing.processes import run_in_processes
from rli_hbase.ceiling import Ceiling
from rli_hbase.client import Client
from rli_hbase.url import HbaseSettings
from tests.support.docker import Service
from tests.support.hbase import hbase_url, new_table, timed_get

pytestmark = pytest.mark.docker

OPS_PER_SECOND = 400
BATCH = 50


@pytest.fixture
def store(hbase: Service) -> Iterator[Store]:
    url = hbase_url(hbase, new_table(), batch=BATCH, ops_per_second=OPS_PER_SECOND)
    with open_store(url, create=True) as store:
        yield store
        store.drop()


@pytest.fixture
def client(store: Store) -> Iterator[Client]:
    client = Client(HbaseSettings.from_url(store.url))
    yield client
    client.close()


class Clock:
    """A clock that moves only when somebody waits; it begins at HBase's own time, or so many seconds ahead of it."""

    def __init__(self, ahead: float = 0) -> None:
        self.start = self.seconds = round(time.time()) + ahead

    def now(self) -> float:
        return self.seconds

    def pause(self, seconds: float) -> None:
        self.seconds += seconds


class QueueIsLongError(Exception):
    """A process would wait for others before it takes a turn."""


def test_turns_of_processes_do_not_overlap(client: Client) -> None:
    clock = Clock()
    ceilings = [Ceiling(client, b"c:turn", 100, now=clock.now, pause=clock.pause) for _ in range(2)]
    begun = []
    for number, operations in enumerate([10, 30, 1, 100, 5]):
        ceilings[number % 2].wait_for_turn(operations)
        begun.append(round(clock.seconds - clock.start, 3))
    assert begun == [0, 0.1, 0.4, 0.41, 1.41]


def test_unused_time_is_not_saved_up(client: Client) -> None:
    clock = Clock()
    ceiling = Ceiling(client, b"c:turn", 100, now=clock.now, pause=clock.pause)
    ceiling.wait_for_turn(10)
    clock.seconds += 60
    ceiling.wait_for_turn(10)
    assert clock.seconds == clock.start + 60
    ceiling.wait_for_turn(10)
    assert clock.seconds == pytest.approx(clock.start + 60.1, abs=0.001)


def test_turns_of_threads_do_not_overlap(client: Client) -> None:
    # Each has a clock that stands still, so what it waits is when its turn begins.
    waited: list[float] = []
    start = round(time.time())
    ceiling = Ceiling(client, b"c:turn", 100, now=lambda: start, pause=waited.append)
    with ThreadPoolExecutor(4) as threads:
        for future in [threads.submit(ceiling.wait_for_turn, 10) for _ in range(40)]:
            future.result()
    assert sorted(round(each, 3) for each in waited) == [round(number / 10, 6) for number in range(1, 40)]


def test_clock_ahead_blocks_no_other(client: Client) -> None:
    wrong, right = Clock(ahead=365 * 86_400), Clock()
    Ceiling(client, b"c:turn", 100, now=wrong.now, pause=wrong.pause).wait_for_turn(10)
    ceiling = Ceiling(client, b"c:turn", 100, now=right.now, pause=right.pause)
    ceiling.wait_for_turn(10)
    assert right.seconds == right.start
    ceiling.wait_for_turn(10)
    assert right.seconds == pytest.approx(right.start + 0.1, abs=0.001)


def test_clock_year_behind_is_error(client: Client) -> None:
    right, wrong = Clock(), Clock(ahead=-365 * 86_400)
    Ceiling(client, b"c:turn", 100, now=right.now, pause=right.pause).wait_for_turn(10)
    with pytest.raises(StoreUnavailableError, match="clock of this machine is behind"):
        Ceiling(client, b"c:turn", 100, now=wrong.now, pause=wrong.pause).wait_for_turn(10)
    assert wrong.seconds == wrong.start


def test_long_queue_gives_no_turn_twice(client: Client) -> None:
    """Everybody asks at the same moment: who would wait for more than half an hour takes no turn before that."""
    start = round(time.time())
    begun: list[float] = []

    def pause(seconds: float) -> None:
        if seconds in begun:
            raise QueueIsLongError
        begun.append(seconds)

    def ask_for_hours() -> None:
        for _ in range(100):
            Ceiling(client, b"c:turn", 1000, now=lambda: start, pause=pause).wait_for_turn(100_000)

    with pytest.raises(QueueIsLongError):
        ask_for_hours()
    assert begun == sorted(begun)
    assert 1700 < begun[-1] <= 1800


def test_processes_together_keep_ceiling(store: Store) -> None:
    keys = random_keys(400, 16, seed=1)
    times = run_in_processes([partial(timed_get, keys=keys)] * 3, store)
    # The last request begins when the time of all the others is over. Without a ceiling a get takes a tenth of it.
    seconds = (3 * len(keys) - BATCH) / OPS_PER_SECOND
    assert max(end for _, end in times) - min(begin for begin, _ in times) >= seconds


def test_results_under_ceiling_are_right(store: Store) -> None:
    keys = random_keys(120, 16, seed=2)
    store.put(key_batch(keys), entries_of(1, range(120)))
    assert get_all(store, keys) == entries_of(1, range(120)).tolist()
    assert len(scanned(store, [0])) == 120
