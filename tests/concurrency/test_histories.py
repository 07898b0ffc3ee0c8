"""Several processes write, move, delete, look up and read overlapping keys at once: the history is serialisable.

``make soak`` tries more histories. ``RLI_HISTORY_SEED`` repeats the operations of a run whose seed was printed; how they
interleave is the machine's choice.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Event as Flag

import pytest

from rli import Scope, Table, TableType, create_table, open_table
from rli.commit.exclusive_service import table_service
from rli.index.record.entries.purging import floor_of
from rli.services import purge
from rli.table.table import opened_table
from tests.concurrency.checker import check
from tests.concurrency.clients import Client, Host, clients, history_of
from tests.concurrency.history import (
    PARTITIONS,
    Cluster,
    Committed,
    Delete,
    Drop,
    Event,
    Insert,
    Lookup,
    Operation,
    Overwrite,
    Read,
    Upsert,
    by_partition,
)
from tests.support.docker import Service
from tests.support.indexes import EAGER_PURGES, limit_index, record_index
from tests.support.leased_tables import leased_by_the_table
from tests.support.redis import dropped_afterwards, redis_url
from tests.support.soak import cases
from tests.support.table_types import of_both_types
from tests.support.tables import check_stored, records, turn_into_version_9

ROUNDS = cases(1)
SEED = int(os.environ.get("RLI_HISTORY_SEED", str(random.SystemRandom().randrange(1 << 32))))
CLIENTS = 3
OPERATIONS = 8
# Of several widths, so that a commit reaches the index in several parts.
KEYS = tuple(f"key {'x' * (number % 3)}{number}" for number in range(8))


def operations(seed: int, process: int) -> list[Operation]:
    """What one process does; the same for a seed."""
    source = random.Random(seed * CLIENTS + process)
    return [_operation(source, process * 1000 + number) for number in range(OPERATIONS)]


def _operation(source: random.Random, number: int) -> Operation:
    kind = source.random()
    if kind < 0.2:
        return Cluster() if kind < 0.1 else Read()
    if kind < 0.4:
        return Lookup(tuple(source.sample(KEYS, 6)))
    if kind < 0.5:
        return Delete(tuple(source.sample(KEYS, 3)))
    if kind < 0.55:
        return Drop(tuple(source.sample(PARTITIONS, 1)))
    return _write(source, number)


def _write(source: random.Random, number: int) -> Operation:
    chosen = source.choices(KEYS, k=source.randint(1, 5))
    # The value tells which operation wrote a version, and which of its versions it is.
    batch = tuple(
        (key, source.choice(PARTITIONS), source.randrange(20), number + at / 10) for at, key in enumerate(chosen)
    )
    verb = source.random()
    if verb < 0.2:
        # One without records empties a partition.
        few = batch[: source.randint(0, 2)]
        return Overwrite(few, () if few else (source.choice(PARTITIONS),))
    return Insert(batch) if verb < 0.4 else Upsert(batch)


def run(
    table: Table, seed: int, indexes: Sequence[str | None] = (None,), hosts: Sequence[Host | None] = (None,)
) -> list[Event]:
    """Let all processes do their operations at once."""
    print(f"RLI_HISTORY_SEED={seed}")  # noqa: T201  (shown when the test fails)
    works = [operations(seed, process) for process in range(CLIENTS)]
    options = opened_table(table).definition.storage.options
    with clients(table.location, CLIENTS, indexes=indexes, hosts=hosts, storage_options=options) as started:
        # Each has its next operation waiting for it.
        for client, work in zip(started, works, strict=True):
            for operation in work:
                client.start(operation, attempts=4)
        return [result for client in started for result in results(client)]


def results(client: Client) -> list[Event]:
    return [client.result() for _ in range(OPERATIONS)]


def require_serialisable(
    table: Table, seed: int, indexes: Sequence[str | None] = (None,), hosts: Sequence[Host | None] = (None,)
) -> None:
    require_serialisable_events(table, run(table, seed, indexes, hosts))


def require_serialisable_events(table: Table, events: Sequence[Event]) -> None:
    table.sync_index()
    history = history_of(table, events)
    if table.index.scope is Scope.PARTITION:
        history = replace(history, events=tuple(map(by_partition, history.events)))
    anomalies = check(history)
    assert anomalies == [], "\n".join(map(str, [*anomalies, *sorted(events, key=lambda event: event.called)]))
    # At most the attempts of a few writes are exhausted; a history without commits would say nothing.
    assert sum(isinstance(event.outcome, Committed) for event in events) > OPERATIONS / 2
    check_stored(table)


def new_table(folder: Path, index: str, number: int, table_type: TableType = TableType.COPY_ON_WRITE) -> Table:
    """A table; in every second history each commit opens file groups of its own, which are then clustered."""
    small_file_size = None if number % 2 else 0
    return create_table(
        folder / "t",
        record_key="id",
        partition_by="city",
        ordering="ts",
        index=index,
        shards=3,
        small_file_size=small_file_size,
        table_type=table_type,
    )


@pytest.mark.invariant("P2", "P5")
@pytest.mark.slow
@pytest.mark.parametrize("number", range(cases(2)))
@of_both_types
def test_a_history_is_serialisable(tmp_path: Path, table_type: TableType, number: int) -> None:
    table = new_table(tmp_path, f"lmdb://{tmp_path}/i", number, table_type)
    require_serialisable(table, SEED + number)


@pytest.mark.invariant("P2", "P5")
@pytest.mark.slow
@pytest.mark.parametrize("number", range(ROUNDS))
def test_history_of_log_inserts_is_serialisable(tmp_path: Path, number: int) -> None:
    table = new_table(tmp_path, f"lmdb://{tmp_path}/i", 1, TableType.MERGE_ON_READ)
    table.set_log_inserts(True)
    require_serialisable(table, SEED + number)


@pytest.mark.invariant("P30")
@pytest.mark.slow
def test_a_history_beside_purges_is_serialisable(tmp_path: Path) -> None:
    table = new_table(tmp_path, f"lmdb://{tmp_path}/i", 0)
    limit_index(table, EAGER_PURGES)
    ended = Flag()

    def purge_on() -> None:
        with open_table(table.location) as own:
            limit_index(own, EAGER_PURGES)
            while not ended.is_set():
                if own.index.stats().tombstones:
                    with table_service(opened_table(own).definition.reloaded(), opened_table(own).index, "purge") as (
                        definition,
                        _,
                    ):
                        purge.purge_tombstones(definition, opened_table(own).index, 1)

    with ThreadPoolExecutor(1) as threads:
        purging = threads.submit(purge_on)
        try:
            events = run(table, SEED)
        finally:
            ended.set()
        purging.result()
    require_serialisable_events(table, events)
    # In a history without an old tombstone there was nothing to purge.
    for number in range(2):
        table.upsert(records((f"gone-{number}", "x", 1, 1.0)))
        table.delete([f"gone-{number}"])
    with table_service(opened_table(table).definition.reloaded(), opened_table(table).index, "purge") as (
        definition,
        _,
    ):
        purge.purge_tombstones(definition, opened_table(table).index, 1)
    assert floor_of(record_index(table)) > 0
    assert table.verify_index().agrees


@pytest.mark.slow
@pytest.mark.parametrize("number", range(ROUNDS))
def test_history_with_two_indexes_is_serialisable(tmp_path: Path, number: int) -> None:
    """As on hosts that share the table's file system alone."""
    table, other = leased_by_the_table(tmp_path)
    require_serialisable(table, SEED + number, [None, other.settings.index_url])
    other.sync_index()
    check_stored(other)


@pytest.mark.invariant("P10")
@pytest.mark.slow
@pytest.mark.parametrize("number", range(ROUNDS))
@pytest.mark.parametrize("seconds", [300, 10_000])
def test_history_with_wrong_clocks_is_serialisable(tmp_path: Path, number: int, seconds: float) -> None:
    """Within and beyond what two hosts are allowed to differ by: beyond, living writers are taken for dead."""
    table = new_table(tmp_path, f"lmdb://{tmp_path}/i", number)
    hosts = [Host("in time", 0), Host("ahead", seconds), Host("behind", -seconds)]
    require_serialisable(table, SEED + number, hosts=hosts)


@pytest.mark.invariant("P5", "P36")
@pytest.mark.slow
@pytest.mark.parametrize("number", range(ROUNDS))
@of_both_types
def test_history_under_partition_scope_is_serialisable(tmp_path: Path, table_type: TableType, number: int) -> None:
    table = new_table(tmp_path, f"lmdb://{tmp_path}/i?scope=partition", number, table_type)
    require_serialisable(table, SEED + number)


@pytest.mark.slow
@pytest.mark.docker
@pytest.mark.parametrize("number", range(ROUNDS))
def test_a_history_on_redis_is_serialisable(tmp_path: Path, redis_server: Service, number: int) -> None:
    with dropped_afterwards(redis_url(redis_server)) as url:
        table = new_table(tmp_path, url, number)
        require_serialisable(table, SEED + number)
        table.close()


@pytest.mark.invariant("P36")
@pytest.mark.parametrize("number", range(ROUNDS))
@of_both_types
def test_history_without_store_is_serialisable(tmp_path: Path, table_type: TableType, number: int) -> None:
    with create_table(
        tmp_path / "t",
        record_key="id",
        partition_by="city",
        ordering="ts",
        index="global-simple:",
        small_file_size=0,
        table_type=table_type,
    ) as table:
        turn_into_version_9(table)
        require_serialisable(table, SEED + number)
