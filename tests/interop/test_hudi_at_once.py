"""Hudi and two processes of rli write one table at the same moment, under the lock of Hudi's lock file."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

from rli import ConflictError, LeaseLostError, Step, Table, create_table, open_table
from tests.support.children import pipe, start_child
from tests.support.histories import SCHEMA, Layout, Row, trip
from tests.support.hudi import HudiEngine, HudiError
from tests.support.hudi_options import newest_only, write_options
from tests.support.meta_columns import without_meta_columns
from tests.support.rows import sorted_rows
from tests.support.soak import cases

pytestmark = [pytest.mark.hudi, pytest.mark.spark, pytest.mark.slow, pytest.mark.invariant("P55")]

SEED = int(os.environ.get("RLI_HISTORY_SEED", str(random.SystemRandom().randrange(1 << 32))))
BY_CITY: Final = Layout(partition_by=("city",))
SHARED_CITIES: Final = ("Oslo", "Rome", "Lima")
KEYS_OF_A_CITY: Final = 8
BATCHES_BEFORE_DEATH: Final = 2
WRITES_OF_HUDI: Final = cases(4)
KILLED_AT: Final = (Step.REQUESTED, Step.WRITTEN, Step.LEASED, Step.PROMOTED, Step.PUBLISHED)
LOCKED: Final = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.clean.failed.writes.policy": "LAZY",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
    "hoodie.write.lock.client.num_retries": "200",
    "hoodie.write.lock.client.wait_time_ms_between_retry": "60",
    "hoodie.metadata.enable": "false",
    "hoodie.keep.min.commits": "1000",
    "hoodie.keep.max.commits": "1100",
}


class Outcome(Enum):
    """Of a write."""

    COMMITTED = "committed"
    REFUSED = "refused"


@dataclass(frozen=True)
class Written:
    """The outcome of a writer's batch.

    Attributes:
        rows: of the batch.
        outcome: what the writer said in the end; None if it was killed.
        instant: of the commit, of a writer of rli.
    """

    rows: list[Row]
    outcome: Outcome | None = None
    instant: str | None = None


@dataclass(frozen=True)
class Writer:
    """A process of rli.

    Attributes:
        name: of the writer, and of its own partition.
        seed: of its batches.
        killed_at: where it dies, in one of its first writes; None for never.
    """

    name: str
    seed: int
    killed_at: Step | None = None


def batch(writer: str, number: int, source: random.Random) -> list[Row]:
    """Updates of records that others update, too, or of the writer's own; and a record that nobody else writes."""
    # Writers of Hudi take long, so that others come in between: some of its batches have no rival.
    is_shared = number % 2 == 1 if writer == "hudi" else source.random() < 0.15
    city = source.choice(SHARED_CITIES) if is_shared else writer
    keys = source.sample(range(KEYS_OF_A_CITY), 3)
    now = time.time_ns()
    return [trip(f"{city} {key}", city=city, ts=now) for key in keys] + [
        trip(f"{writer} new {number}", city=city, ts=now)
    ]


def as_table(rows: Iterable[Row]) -> pa.Table:
    return pa.Table.from_pylist([*rows], SCHEMA)


def write_with_rli(location: str, writer: Writer, end: Path, sender: Connection) -> None:
    """Write until the file of the end is there, or to the death; sends each batch before it is written, and after."""
    table, source, number = open_table(location), random.Random(writer.seed), 0

    def die(step: Step) -> None:
        if step is writer.killed_at and number >= BATCHES_BEFORE_DEATH:
            os.kill(os.getpid(), signal.SIGKILL)

    for number in count():
        if end.exists() and writer.killed_at is None:
            break
        rows = batch(writer.name, number, source)
        sender.send(Written(rows))
        try:
            result = table.upsert(as_table(rows), on_step=die)
        except (ConflictError, LeaseLostError):
            sender.send(Written(rows, Outcome.REFUSED))
        else:
            sender.send(Written(rows, Outcome.COMMITTED, result.instant))
        time.sleep(source.uniform(0.1, 0.6))
    sender.close()


def batches_of(receiver: Connection) -> list[Written]:
    """What a process has sent until its end: each batch once."""
    sent: dict[int, Written] = {}
    try:
        while True:
            written = receiver.recv()
            sent[written.rows[0]["ts"]] = written
    except EOFError:
        return [*sent.values()]


def write_with_hudi(engine: HudiEngine, table: Table, seed: int) -> list[Written]:
    source, options, done = random.Random(seed), {**write_options(engine, BY_CITY), **LOCKED}, list[Written]()
    for number in range(WRITES_OF_HUDI):
        rows = batch("hudi", number, source)
        try:
            engine.write(table.location, as_table(rows), options)
        except HudiError as error:
            if "HoodieWriteConflictException" not in str(error):
                raise
            done.append(Written(rows, Outcome.REFUSED))
        else:
            done.append(Written(rows, Outcome.COMMITTED))
    return done


def write_at_once(engine: HudiEngine, table: Table, folder: Path, seed: int) -> list[Written]:
    """All batches of all writers; the first process of rli is killed on its way, and another one takes its place."""
    end, source = folder / "end", random.Random(seed)

    def run(name: str, killed_at: Step | None = None) -> list[Written]:
        writer = Writer(name, source.randrange(1 << 32), killed_at)
        receiver, sender = pipe()
        child = start_child(write_with_rli, table.location, writer, end, sender)
        sender.close()
        batches = batches_of(receiver)
        child.join()
        assert child.exitcode == (0 if killed_at is None else -signal.SIGKILL)
        return batches

    def run_with_a_death() -> list[Written]:
        return run("killed", source.choice(KILLED_AT)) + run("third")

    with ThreadPoolExecutor() as threads:
        works = [threads.submit(run_with_a_death), threads.submit(run, "second", None)]
        try:
            theirs = write_with_hudi(engine, table, seed)
        finally:
            end.touch()
        return [*theirs, *(written for work in works for written in work.result())]


@newest_only
def test_nothing_is_lost_or_doubled(engine: HudiEngine, tmp_path: Path) -> None:
    print(f"RLI_HISTORY_SEED={SEED}")  # noqa: T201  (shown when the test fails)
    table = create_table(
        tmp_path / "trips",
        record_key="id",
        partition_by="city",
        ordering="ts",
        index=f"lmdb://{tmp_path / 'index'}",
        lock="filesystem",
        maintenance=False,
    )
    cities = (*SHARED_CITIES, "hudi", "killed", "second", "third")
    first = [trip(f"{city} {key}", city=city) for city in cities for key in range(KEYS_OF_A_CITY)]
    table.upsert(as_table(first))
    batches = write_at_once(engine, table, tmp_path, SEED)

    found = table.read()
    held = {row["id"] for row in found.to_pylist()}
    # The batch of the process that was killed stands as a whole or not at all; its own new record tells.
    standing = [
        one
        for one in batches
        if one.outcome is Outcome.COMMITTED or (one.outcome is None and one.rows[-1]["id"] in held)
    ]
    acknowledged = {one.instant for one in standing if one.instant is not None}
    assert any(one.outcome is Outcome.COMMITTED and one.instant is None for one in batches), "Hudi committed nothing"
    newest: dict[str, Row] = {}
    for row in sorted([*first, *(row for one in standing for row in one.rows)], key=lambda row: row["ts"]):
        newest[row["id"]] = row
    assert sorted_rows(found) == sorted_rows(newest.values())
    assert sorted_rows(without_meta_columns(engine.read(table.location))) == sorted_rows(newest.values())
    instants = [instant.time for instant in table.timeline() if instant.is_completed and instant.is_write]
    assert len(instants) == 1 + len(standing)
    assert acknowledged < {*instants}
    report = table.verify_index()
    assert report.agrees
    assert report.records == len(newest)
    table.close()
