"""Writers of Hudi and of rli that write one table at the same moment, and what must be left of their batches."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from itertools import count, cycle
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Timer
from types import MappingProxyType
from typing import Final

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

import rli_spark
from rli import CommitResult, ConflictError, LeaseLostError, Step, Table, create_table, open_table
from rli.errors import LeaseBusyError
from rli.hudi.lock_settings import lock_properties
from tests.support.children import pipe, start_child
from tests.support.histories import SCHEMA, Layout, Row, trip
from tests.support.hudi import HUDI_VERSIONS, HudiEngine, HudiError
from tests.support.hudi_locks import FILE_LOCK
from tests.support.hudi_options import write_options
from tests.support.hudi_rs import read_with_hudi_rs
from tests.support.meta_columns import without_meta_columns
from tests.support.rows import sorted_rows
from tests.support.spark import spark_session
from tests.support.tables import turn_into_version_8, turn_into_version_9

BY_CITY: Final = Layout(partition_by=("city",))
SHARED_CITIES: Final = ("Oslo", "Rome", "Lima")
KEYS_OF_A_CITY: Final = 8
BATCHES_BEFORE_DEATH: Final = 2
READ_EVERY: Final = 1.0
"""Seconds."""

KILLED_AT: Final = (Step.REQUESTED, Step.WRITTEN, Step.LEASED, Step.PROMOTED, Step.PUBLISHED)
# Hudi leaves a commit out of the metadata table if it wants to build a partition while others write.
_WITH_METADATA: Final = {"hoodie.metadata.enable": "true", "hoodie.metadata.index.column.stats.enable": "false"}
_WITHOUT_METADATA: Final = {"hoodie.metadata.enable": "false"}
_WITHOUT_SERVICES: Final = {"hoodie.keep.min.commits": "1000", "hoodie.keep.max.commits": "1100"}
_WITH_SERVICES: Final = {
    "hoodie.clean.commits.retained": "6",
    "hoodie.keep.min.commits": "8",
    "hoodie.keep.max.commits": "11",
    "hoodie.metadata.compact.max.delta.commits": "4",
}
_CLUSTERING: Final = {
    "hoodie.clustering.inline": "true",
    "hoodie.clustering.inline.max.commits": "3",
    "hoodie.clustering.plan.strategy.small.file.limit": "1048576",
    "hoodie.clustering.plan.strategy.target.file.max.bytes": "2097152",
}
_COMPACTION: Final = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "3"}
_REFUSALS: Final = ("HoodieWriteConflictException", "HoodieClusteringUpdateException", "HoodieLockException")
"""Errors by which Hudi says that others were first."""


Reader = Callable[[str], pa.Table | None]
"""Reads a table by its location; None if it could not."""


class Outcome(Enum):
    """Of a write."""

    COMMITTED = "committed"
    REFUSED = "refused"


@dataclass(frozen=True)
class Written:
    """The outcome of a writer's batch.

    Attributes:
        rows: of the batch; the last one is of a key that no other batch has.
        outcome: what the writer said in the end; None if it was killed, or failed in a way that leaves the outcome open.
        instant: of the commit, of a writer of rli.
        error: what the writer said if it did not commit.
    """

    rows: list[Row]
    outcome: Outcome | None = None
    instant: str | None = None
    error: str = ""


@dataclass(frozen=True)
class Scene:
    """Which writers write which table.

    Attributes:
        hudi: versions of Hudi's writers.
        index: URL of rli's index; None for one in LMDB beside the table.
        hudi_index: ``hoodie.index.type`` of Hudi's writers.
        metadata: partitions of the metadata table.
        version: of the table.
        lock: of the table.
        has_logs: whether the table is merge-on-read, and both sides compact it.
        has_services: whether both sides cluster or compact, clean and archive.
        has_deaths: whether Hudi's writers are paused, and the only one of them killed, too.
        has_spark: whether one of the processes of rli writes frames of Spark.
        options: more options of Hudi's writers.
    """

    hudi: tuple[str, ...] = HUDI_VERSIONS[:1]
    index: str | None = None
    hudi_index: str = "GLOBAL_SIMPLE"
    metadata: tuple[str, ...] = ()
    version: int = 6
    lock: str = "filesystem"
    has_logs: bool = False
    has_services: bool = False
    has_deaths: bool = False
    has_spark: bool = False
    options: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def create(self, folder: Path) -> Table:
        """The table, without records."""
        table = create_table(
            folder / "trips",
            record_key="id",
            partition_by="city",
            ordering="ts",
            index=self.index or f"lmdb://{folder / 'index'}",
            lock=self.lock,
            table_type="merge_on_read" if self.has_logs else "copy_on_write",
            maintenance=False,
            metadata=[*self.metadata] if self.metadata and self.version == 6 else "none",
        )
        if self.version != 6:
            {8: turn_into_version_8, 9: turn_into_version_9}[self.version](table)
        return table

    @property
    def rewrite(self) -> Callable[[Table], object]:
        """How processes of rli put files of the table together; with buckets, each file has a place of its own."""
        return Table.compact if self.has_logs else _leave if self.hudi_index == "BUCKET" else Table.cluster

    @property
    def readers(self) -> dict[str, Reader]:
        """Readers that need no JVM, each by its name."""
        readers: dict[str, Reader] = {"rli": _read_with_rli}
        # hudi-rs passes over log files of a pending compaction in version 6.
        return readers if self.has_logs else {**readers, "hudi-rs": _read_with_hudi_rs}

    def options_of(self, engine: HudiEngine) -> dict[str, str]:
        """The options of a writer of Hudi."""
        chosen = {**write_options(engine, BY_CITY, index=self.hudi_index), **FILE_LOCK, **lock_properties(self.lock)}
        if self.version != 6:
            chosen |= {"hoodie.write.table.version": str(self.version)}
        if self.has_logs:
            chosen |= {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}
        chosen |= _WITH_METADATA if self.metadata else _WITHOUT_METADATA
        if "record_index" in self.metadata:
            chosen |= {"hoodie.metadata.record.index.enable": "true"}
        if not self.has_services:
            return {**chosen, **_WITHOUT_SERVICES, **self.options}
        rewrites = _COMPACTION if self.has_logs else {} if self.hudi_index == "BUCKET" else _CLUSTERING
        return {**chosen, **_WITH_SERVICES, **rewrites, **self.options}


def _read_with_hudi_rs(location: str) -> pa.Table | None:
    """The rows, or None: hudi-rs fails if it meets a file that Hudi is about to write, or one that a clean has removed."""
    try:
        return read_with_hudi_rs(location)
    except Exception as error:
        # The package does not export the class.
        if type(error).__name__ != "HudiCoreError":
            raise
        return None


def _leave(table: Table) -> None:
    """Do nothing."""


def _read_with_rli(location: str) -> pa.Table:
    with open_table(location) as table:
        return table.read(["id", "ts"])


@dataclass(frozen=True)
class RliWriter:
    """A process of rli.

    Attributes:
        name: of the writer, and of its own partition.
        seed: of its batches.
        killed_at: where it dies, in one of its first writes; None for never.
        has_services: whether it also cleans, archives and clusters.
        most_seconds: the longest pause between two batches.
        by_spark: whether it writes frames of Spark.
        rewrite: how it puts files of the table together.
    """

    name: str
    seed: int
    killed_at: Step | None = None
    has_services: bool = False
    most_seconds: float = 0.6
    by_spark: bool = False
    rewrite: Callable[[Table], object] = Table.cluster


def batch(writer: str, number: int, source: random.Random) -> list[Row]:
    """Updates of records that others update, too, or of the writer's own; and a record that nobody else writes."""
    # Writers of Hudi take long, so that others come in between: some of its batches have no rival.
    is_shared = number % 2 == 1 if writer.startswith("hudi") else source.random() < 0.15
    city = source.choice(SHARED_CITIES) if is_shared else writer
    keys = source.sample(range(KEYS_OF_A_CITY), 3)
    now = time.time_ns()
    return [trip(f"{city} {key}", city=city, ts=now) for key in keys] + [
        trip(f"{writer} new {number} {now}", city=city, ts=now)
    ]


def as_table(rows: Iterable[Row]) -> pa.Table:
    return pa.Table.from_pylist([*rows], SCHEMA)


def write_with_rli(location: str, writer: RliWriter, end: Path, sender: Connection) -> None:
    """Write until the file of the end is there, or to the death; sends each batch before it is written, and after."""
    table, source, number = open_table(location), random.Random(writer.seed), 0
    upsert = _upsert_by_spark(table) if writer.by_spark else table.upsert

    def die(step: Step) -> None:
        if step is writer.killed_at and number >= BATCHES_BEFORE_DEATH:
            os.kill(os.getpid(), signal.SIGKILL)

    for number in count():
        if end.exists() and writer.killed_at is None:
            break
        rows = batch(writer.name, number, source)
        sender.send(Written(rows))
        try:
            result = upsert(as_table(rows), on_step=die)
        except (ConflictError, LeaseLostError, LeaseBusyError) as error:
            sender.send(Written(rows, Outcome.REFUSED, error=f"{type(error).__name__}: {error}"))
        else:
            sender.send(Written(rows, Outcome.COMMITTED, result.instant))
        if writer.has_services and source.random() < 0.2:
            _serve(table, source, writer.rewrite)
        time.sleep(source.uniform(0.1, writer.most_seconds))
    sender.close()


def _upsert_by_spark(table: Table) -> Callable[..., CommitResult]:
    spark = spark_session()

    def upsert(rows: pa.Table, on_step: Callable[[Step], None]) -> CommitResult:
        values = [tuple(row.values()) for row in rows.to_pylist()]
        return rli_spark.upsert(spark.createDataFrame(values, from_arrow_schema(rows.schema)), table, on_step=on_step)

    return upsert


def _serve(table: Table, source: random.Random, rewrite: Callable[[Table], object]) -> None:
    try:
        match source.choice(["clean", "archive", "rewrite", "compact"]):
            case "clean":
                table.clean(keep_commits=5)
            case "archive":
                table.archive(keep_commits=8)
            case "rewrite":
                rewrite(table)
            case _ if table.metadata.status().partitions:
                table.metadata.compact()
    except (ConflictError, LeaseLostError, LeaseBusyError):
        return


def batches_of(receiver: Connection) -> list[Written]:
    """What a process has sent until its end: each batch once."""
    sent: dict[int, Written] = {}
    try:
        while True:
            written = receiver.recv()
            sent[written.rows[0]["ts"]] = written
    except EOFError:
        return [*sent.values()]


@dataclass(frozen=True)
class Seen:
    """What a reader saw of a table while others wrote it.

    Attributes:
        reader: its name.
        versions: key → ordering value of each record.
    """

    reader: str
    versions: Mapping[str, int]

    def require_whole(self, batches: Iterable[Written]) -> None:
        """Raise ``AssertionError`` if it saw a part of a batch."""
        for one in batches:
            own, ts = one.rows[-1]["id"], one.rows[-1]["ts"]
            if own in self.versions:
                older = [row["id"] for row in one.rows if self.versions.get(row["id"], 0) < ts]
                assert older == [], f"{self.reader} saw a part of a batch"
            else:
                part = [row["id"] for row in one.rows if self.versions.get(row["id"]) == ts]
                assert part == [], f"{self.reader} saw a part of a batch"


def read_until(end: Path, location: str, readers: Mapping[str, Reader]) -> list[Seen]:
    """Read a table with one reader after the other, until the file of the end is there."""
    seen = list[Seen]()
    for name in cycle(readers):
        if end.exists():
            return seen
        found = readers[name](location)
        if found is not None:
            seen.append(Seen(name, dict(zip(found["id"].to_pylist(), found["ts"].to_pylist(), strict=True))))
            assert len(seen[-1].versions) == len(found), f"{name} saw a key twice"
        time.sleep(READ_EVERY)
    return seen


class HudiWriter:
    """A writer of Hudi, which may be killed in a write, and is then replaced.

    Args:
        name: of the writer, and of its own partition.
        engine: the first one; the caller closes it.
        scene: of the table.
        table: the table.
        source: of its batches, and of its deaths.
    """

    def __init__(self, name: str, engine: HudiEngine, scene: Scene, table: Table, source: random.Random) -> None:
        self._name = name
        self._engine = engine
        self._scene = scene
        self._table = table
        self._source = source
        self.written: list[Written] = []

    def write(self, number: int) -> None:
        """Write one batch."""
        rows = batch(self._name, number, self._source)
        # With others at work, nobody could tell whose lock is left.
        may_die = self._scene.has_deaths and len(self._scene.hudi) == 1
        is_killed = may_die and number > BATCHES_BEFORE_DEATH and self._source.random() < 0.12
        with self._disturbed(is_killed=is_killed):
            try:
                self._engine.write(self._table.location, as_table(rows), self._scene.options_of(self._engine))
            except HudiError as error:
                self.written.append(_failed(rows, str(error)))
            else:
                self.written.append(Written(rows, Outcome.COMMITTED))
        if is_killed:
            # A death may come when the write was over.
            self._engine.kill()
            self._remove_lock()
            self._engine = HudiEngine(self._engine.version)

    def _remove_lock(self) -> None:
        """Remove the lock of the killed engine, as an operator does: it does not expire, as a commit may take long."""
        lock = Path(self._table.location, ".hoodie/lock")
        with suppress(FileNotFoundError):
            # The file of a process of rli has a content.
            if not lock.read_bytes():
                lock.unlink()

    @contextmanager
    def _disturbed(self, *, is_killed: bool) -> Iterator[None]:
        """Kill the engine, or pause it for a while, at a random moment of a write."""
        engine, source, timers = self._engine, self._source, list[Timer]()
        if is_killed:
            timers.append(Timer(source.uniform(0.5, 6), engine.kill))
        elif self._scene.has_deaths and source.random() < 0.2:
            begin = source.uniform(0.5, 6)
            timers += [Timer(begin, engine.pause), Timer(begin + source.uniform(1, 10), engine.resume)]
        for timer in timers:
            timer.start()
        try:
            yield
        finally:
            for timer in timers:
                timer.join()

    def close(self, first: HudiEngine) -> None:
        """End the engine, unless it is the first one."""
        if self._engine is not first:
            self._engine.close()


def _failed(rows: list[Row], error: str) -> Written:
    is_refused = any(name in error for name in _REFUSALS)
    return Written(rows, Outcome.REFUSED if is_refused else None, error=error)


@dataclass
class Run:
    """All writers of a scene at work, for a while or for some writes.

    Attributes:
        scene: the scene.
        table: its table.
        folder: for the file that ends the processes of rli.
        source: of all choices.
        writes: of each writer of Hudi.
        seconds: after which no writer of Hudi begins another write.
        seen: gets what readers saw meanwhile.
    """

    scene: Scene
    table: Table
    folder: Path
    source: random.Random
    writes: int
    seconds: float = float("inf")
    seen: list[Seen] = field(default_factory=list)

    def go(self, engines: Iterable[HudiEngine]) -> list[Written]:
        """All batches of all writers, in no order; one process of rli is killed on its way, and another one takes its place."""
        end = self.folder / "end"
        with ThreadPoolExecutor() as threads:
            reading = threads.submit(read_until, end, self.table.location, self.scene.readers)
            works = [threads.submit(self._with_deaths, end), threads.submit(self._of_process, "second", end, None)]
            hudi = [
                threads.submit(self._of_hudi, f"hudi{number}", engine, random.Random(self.source.random()))
                for number, engine in enumerate(engines)
            ]
            try:
                theirs = [written for work in hudi for written in work.result()]
            finally:
                end.touch()
            self.seen += reading.result()
            return [*theirs, *(written for work in works for written in work.result())]

    def _with_deaths(self, end: Path) -> list[Written]:
        written = self._of_process("killed", end, self.source.choice(KILLED_AT))
        while self.scene.has_deaths and not end.exists():
            written += self._of_process("killed", end, self.source.choice(KILLED_AT))
        return [*written, *self._of_process("third", end, None)]

    def _of_process(self, name: str, end: Path, killed_at: Step | None) -> list[Written]:
        # Writers of Hudi are slow, and are to have their turns.
        most_seconds = 12.0 if self.scene.has_deaths else 0.6
        by_spark = self.scene.has_spark and killed_at is None
        writer = RliWriter(
            name,
            self.source.randrange(1 << 32),
            killed_at,
            self.scene.has_services,
            most_seconds,
            by_spark,
            self.scene.rewrite,
        )
        receiver, sender = pipe()
        child = start_child(write_with_rli, self.table.location, writer, end, sender)
        sender.close()
        batches = batches_of(receiver)
        child.join()
        assert child.exitcode == (0 if killed_at is None else -signal.SIGKILL)
        return batches

    def _of_hudi(self, name: str, engine: HudiEngine, source: random.Random) -> list[Written]:
        writer, until = HudiWriter(name, engine, self.scene, self.table, source), float("inf")
        try:
            for number in range(self.writes):
                if time.monotonic() >= until:
                    break
                writer.write(number)
                # The first write takes long: a JVM has its classes to load.
                until = min(until, time.monotonic() + self.seconds)
        finally:
            writer.close(engine)
        return writer.written


def first_rows(hudi: int) -> list[Row]:
    """The records that the table holds before the writers begin."""
    cities = (*SHARED_CITIES, "killed", "second", "third", *(f"hudi{number}" for number in range(hudi)))
    return [trip(f"{city} {key}", city=city) for city in cities for key in range(KEYS_OF_A_CITY)]


def require_serial(table: Table, first: list[Row], batches: list[Written], reader: HudiEngine) -> list[Written]:
    """Each batch stands as a whole and once, or not at all, as its writer said; returns those that stand.

    Raises:
        AssertionError: a commit is lost, doubled or mixed, or metadata table, index and readers do not agree.
    """
    found = table.read()
    held = Counter(row["id"] for row in found.to_pylist())
    own = {id(one): one.rows[-1]["id"] for one in batches}
    lost = [one for one in batches if one.outcome is Outcome.COMMITTED and own[id(one)] not in held]
    assert lost == [], "acknowledged commits are lost"
    undead = [one for one in batches if one.outcome is Outcome.REFUSED and own[id(one)] in held]
    assert undead == [], "refused writes are in the table"
    # The batch of a writer that was killed stands as a whole or not at all; its own new record tells.
    standing = [one for one in batches if own[id(one)] in held]
    newest: dict[str, Row] = {}
    for row in sorted([*first, *(row for one in standing for row in one.rows)], key=lambda row: row["ts"]):
        newest[row["id"]] = row
    assert sorted_rows(found) == sorted_rows(newest.values())
    for options in ({}, {"hoodie.metadata.enable": "false"}):
        assert sorted_rows(without_meta_columns(reader.read(table.location, options))) == sorted_rows(newest.values())
    acknowledged = Counter(one.instant for one in standing if one.instant is not None)
    assert max(acknowledged.values(), default=1) == 1
    report = table.verify_index()
    assert report.agrees, report
    assert report.records == len(newest)
    if table.metadata.status().partitions:
        assert table.metadata.verify() == ()
    return standing
