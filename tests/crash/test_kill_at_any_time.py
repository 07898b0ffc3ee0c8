"""A process that writes one batch after the other, with all table services in between, is killed at random times.

``make soak`` kills it more often. ``RLI_CRASH_SEED`` repeats a run whose seed was printed.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from rli import Table, create_table
from tests.crash.writes import index_url, open_copy, place_index, read_rows
from tests.support.children import pipe, start_child
from tests.support.soak import cases
from tests.support.table_model import Rows, Version, deleted, upserted
from tests.support.tables import check_stored, records

pytestmark = pytest.mark.crash

KILLS = cases(5)
SEED = int(os.environ.get("RLI_CRASH_SEED", str(random.SystemRandom().randrange(1 << 32))))
KEYS = [f"key-{number}" for number in range(40)]
DELETES_EVERY = 4
_DEADLINE_SECONDS = 120.0
SERVICES: Mapping[int, Callable[[Table], object]] = {
    7: Table.cluster,
    11: lambda table: table.clean(keep_commits=2),
    13: lambda table: table.archive(keep_commits=4),
}
"""What is done instead of a write whose number can be divided by this."""


def batch(number: int) -> list[Version]:
    """The n-th batch; the same in every process."""
    source = random.Random(number)
    chosen = source.choices(KEYS, k=12)
    return [(key, source.choice("wxyz"), source.randrange(number, number + 3), number + 0.5) for key in chosen]


def keys_to_delete(number: int) -> list[str]:
    return random.Random(number).sample(KEYS, 5)


def service_of(number: int) -> Callable[[Table], object] | None:
    return next((service for every, service in SERVICES.items() if not number % every), None)


def write(folder: Path, first: int, acknowledge: Connection, *, with_services: bool = True) -> None:
    """A child's work: writes for ever, and tells which are done."""
    table = open_copy(folder)
    number = first
    while True:
        service = service_of(number)
        if service is not None:
            if with_services:
                service(table)
        elif not number % DELETES_EVERY:
            table.delete(keys_to_delete(number))
        else:
            table.upsert(records(*batch(number)))
        acknowledge.send(number)
        number += 1


def expected(rows: Rows, number: int) -> Rows:
    if service_of(number) is not None:
        return rows
    outcome = deleted(rows, keys_to_delete(number)) if not number % DELETES_EVERY else upserted(rows, batch(number))
    return outcome.rows


@pytest.mark.slow
def test_kills_at_any_time(tmp_path: Path) -> None:
    kill_at_any_time(tmp_path, KILLS)


@pytest.mark.slow
def test_kills_at_any_time_with_server(tmp_path: Path, server_url: str) -> None:
    place_index(tmp_path, server_url)
    kill_at_any_time(tmp_path, KILLS // 2)


def kill_at_any_time(tmp_path: Path, kills: int) -> None:
    print(f"RLI_CRASH_SEED={SEED}")  # noqa: T201  (shown when the test fails)
    source = random.Random(SEED)
    create_table(
        tmp_path / "table",
        record_key="id",
        partition_by="city",
        ordering="ts",
        index=index_url(tmp_path),
        shards=3,
        small_file_size=0,
    ).close()
    rows: Rows = {}
    done = 0
    for _ in range(kills):
        receiver, sender = pipe()
        child = start_child(write, tmp_path, done + 1, sender)
        sender.close()
        acknowledged = done
        if not done:
            # However slow the machine, something is done in the end.
            assert receiver.poll(_DEADLINE_SECONDS)
        # One write takes some tenths of a second.
        child.join(source.uniform(0.1, 1.5))
        child.kill()
        child.join()
        while receiver.poll():
            try:
                acknowledged = receiver.recv()
            except EOFError:
                break
        for number in range(done + 1, acknowledged + 1):
            rows = expected(rows, number)
        table = open_copy(tmp_path)
        found = read_rows(table)
        # What was acknowledged is there; of the write under way, all or nothing is.
        in_flight = expected(rows, acknowledged + 1)
        assert found in (rows, in_flight)
        done = acknowledged + (found != rows)
        rows = found
        table.delete(["nobody"])
        # A clean that was killed is finished by the next one.
        table.clean(keep_commits=2)
        assert read_rows(table) == rows
        check_stored(table)
        table.close()
    assert done > 0
    open_copy(tmp_path).drop_index()
