"""Writers of Hudi and of rli that write one table at the same moment, and what must be left of their batches."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count, cycle
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
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
from tests.support.at_once_checks import Outcome, Seen, Written
from tests.support.children import pipe, resume_after, start_child
from tests.support.histories import SCHEMA, Layout, Row, trip
from tests.support.hudi import HUDI_VERSIONS, HudiEngine, HudiError
from tests.support.hudi_locks import FILE_LOCK
from tests.support.hudi_options import write_options
from tests.support.hudi_rs import read_with_hudi_rs
from tests.support.spark import spark_session
from tests.support.tables import change_properties, turn_into_version_8, turn_into_version_9

BY_CITY: Final = Layout(partition_by=("city",))
SHARED_CITIES: Final = ("Oslo", "Rome", "Lima")
KEYS_OF_A_CITY: Final = 8
BATCHES_BEFORE_DEATH: Final = 2
DEATHS_OF_HUDI: Final = 0.12
"""Of the writes of Hudi after its first death: it comes in the write after its first commit, or at the latest in its third write."""

READ_EVERY: Final = 1.0
"""Seconds."""

SERVICES_OF_WRITES: Final = 0.1
"""Of all writes of rli. After more, hardly a write of Hudi would commit: one of rli's rewrites comes in between."""

_ERROR_SHOWN: Final = 400
PAUSES_OF_STEPS: Final = 0.03
"""Of all steps of writes of rli."""

READS_OF_HUDI: Final = 0.25
"""Of Hudi's writers, in which it reads after the write."""

KILLED_AT: Final = (Step.REQUESTED, Step.WRITTEN, Step.LEASED, Step.PROMOTED, Step.PUBLISHED)
# Hudi leaves a commit out of the metadata table if it wants to build a partition while others write.
_WITH_METADATA: Final = {"hoodie.metadata.enable": "true", "hoodie.metadata.index.column.stats.enable": "false"}
_WITHOUT_METADATA: Final = {"hoodie.metadata.enable": "false"}
_WITHOUT_SERVICES: Final = {"hoodie.keep.min.commits": "1000", "hoodie.keep.max.commits": "1100"}
# A clean counts commits from their beginning, and a write of Hudi lasts for many commits of rli. If fewer were retained, the clean
# after the write would remove at once what the write has replaced, and no index could compare the two.
_WITH_SERVICES: Final = {
    "hoodie.cleaner.commits.retained": "60",
    "hoodie.keep.min.commits": "64",
    "hoodie.keep.max.commits": "72",
}
_CLUSTERING: Final = {
    "hoodie.clustering.inline": "true",
    "hoodie.clustering.inline.max.commits": "3",
    "hoodie.clustering.plan.strategy.small.file.limit": "1048576",
    "hoodie.clustering.plan.strategy.target.file.max.bytes": "2097152",
}
_COMPACTION: Final = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "3"}
_SCHEMA_FAULT: Final = "ArrayIndexOutOfBoundsException"
"""Of a session of Hudi 1.2.0 that began with a compaction of the metadata table: each of its writes fails, and the next session heals it."""

_PLANNED: Final = "HoodieClusteringUpdateException"
"""Says that a clustering is pending: its writer has died, or could not read the table."""

_MOST_TIMES: Final = 5
"""As long as a scene, Hudi tries to commit for the first time."""

_REFUSALS: Final = ("HoodieWriteConflictException", _PLANNED, "HoodieLockException")
"""Errors by which Hudi says that others were first."""


@dataclass(frozen=True)
class Place:
    """Where a table lies.

    Attributes:
        location: of the table, for rli.
        hudi_location: for Hudi.
        storage_options: of rli.
        hudi_options: more options of Hudi's writers.
        properties: more properties of the table.
        class_path: what Hudi needs to reach the place.
        longest_pause: of a process of rli, in seconds.
    """

    location: str
    hudi_location: str
    storage_options: Mapping[str, str] = field(default_factory=dict)
    hudi_options: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    class_path: tuple[Path, ...] = ()
    longest_pause: float = 10.0

    def open(self) -> Table:
        """The table, opened once more."""
        return open_table(self.location, storage_options=self.storage_options)


Reader = Callable[[Place], pa.Table | None]
"""Reads a table at its place; None if it could not."""


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
        place: of the table; None for a folder on this machine.
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
    place: Place | None = None

    def create(self, folder: Path) -> Table:
        """The table, without records."""
        place = self.place_in(folder)
        index = self.index or f"lmdb://{folder / 'index'}"
        # A metadata table has the version of its table from its beginning.
        is_turned = self.version != 6 and index == "record-index:"
        table = create_table(
            place.location,
            record_key="id",
            partition_by="city",
            ordering="ts",
            index="simple:" if is_turned else index,
            lock=self.lock,
            table_type="merge_on_read" if self.has_logs else "copy_on_write",
            maintenance=False,
            metadata=[*self.metadata] if self.metadata and self.version == 6 else "none",
            storage_options=place.storage_options,
        )
        change_properties(table, place.properties)
        if self.version != 6:
            {8: turn_into_version_8, 9: turn_into_version_9}[self.version](table)
        if is_turned:
            table.bootstrap_index(index)
        return table

    def place_in(self, folder: Path) -> Place:
        """Where the table lies if a folder of this machine is at hand."""
        return self.place or Place(str(folder / "trips"), str(folder / "trips"))

    def start(self, version: str) -> HudiEngine:
        """A Hudi that reaches the table."""
        return HudiEngine(version, *(self.place.class_path if self.place else ()))

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
        if self.place:
            chosen |= {**self.place.properties, **self.place.hudi_options}
        if self.version != 6:
            chosen |= {"hoodie.write.table.version": str(self.version)}
        if self.has_logs:
            chosen |= {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}
        chosen |= _WITH_METADATA if self.metadata else _WITHOUT_METADATA
        if "record_index" in self.metadata:
            chosen |= {"hoodie.metadata.record.index.enable": "true"}
        if not self.has_services:
            return {**chosen, **_WITHOUT_SERVICES, **self.options}
        # Two writers of Hudi take each other's clusterings for dead, and store records twice.
        clusters = self.hudi_index != "BUCKET" and engine.version == self.hudi[0]
        rewrites = _COMPACTION if self.has_logs else _CLUSTERING if clusters else {}
        return {**chosen, **_WITH_SERVICES, **rewrites, **self.options}


def _read_with_hudi_rs(place: Place) -> pa.Table | None:
    """The rows, or None: hudi-rs fails if it meets a file that Hudi is about to write, or one that a clean has removed."""
    try:
        return read_with_hudi_rs(place.location, storage_options=place.storage_options)
    except Exception as error:
        # The package does not export the class.
        if type(error).__name__ != "HudiCoreError":
            raise
        return None


def _leave(table: Table) -> None:
    """Do nothing."""


def _read_with_rli(place: Place) -> pa.Table:
    with place.open() as table:
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
        longest_pause: in the middle of a write, in seconds; 0 for none.
    """

    name: str
    seed: int
    killed_at: Step | None = None
    has_services: bool = False
    most_seconds: float = 0.6
    by_spark: bool = False
    rewrite: Callable[[Table], object] = Table.cluster
    longest_pause: float = 0.0


@dataclass(frozen=True)
class Note:
    """What a process of rli does besides a write.

    Attributes:
        name: of it.
        seconds: for which the process has stopped itself.
    """

    name: str
    seconds: float = 0.0


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


def write_with_rli(place: Place, writer: RliWriter, end: Path, sender: Connection) -> None:
    """Write until the file of the end is there, or to the death; sends each batch before it is written, and after."""
    table, source, number = place.open(), random.Random(writer.seed), 0
    upsert = _upsert_by_spark(table) if writer.by_spark else table.upsert

    def disturb(step: Step) -> None:
        if step is writer.killed_at and number >= BATCHES_BEFORE_DEATH:
            os.kill(os.getpid(), signal.SIGKILL)
        if writer.longest_pause and source.random() < PAUSES_OF_STEPS:
            sender.send(Note("paused", source.choice([1.0, 3.0, writer.longest_pause])))
            os.kill(os.getpid(), signal.SIGSTOP)

    for number in count():
        if end.exists() and writer.killed_at is None:
            break
        rows = batch(writer.name, number, source)
        sender.send(Written(rows))
        try:
            result = upsert(as_table(rows), on_step=disturb)
        except (ConflictError, LeaseLostError, LeaseBusyError) as error:
            sender.send(Written(rows, Outcome.REFUSED, error=f"{type(error).__name__}: {error}"))
        else:
            sender.send(Written(rows, Outcome.COMMITTED, result.instant, result.conflicts))
        if writer.has_services and source.random() < SERVICES_OF_WRITES:
            sender.send(Note(_serve(table, source, writer.rewrite)))
        time.sleep(source.uniform(0.1, writer.most_seconds))
    sender.close()


def _upsert_by_spark(table: Table) -> Callable[..., CommitResult]:
    spark = spark_session()

    def upsert(rows: pa.Table, on_step: Callable[[Step], None]) -> CommitResult:
        values = [tuple(row.values()) for row in rows.to_pylist()]
        return rli_spark.upsert(spark.createDataFrame(values, from_arrow_schema(rows.schema)), table, on_step=on_step)

    return upsert


def _serve(table: Table, source: random.Random, rewrite: Callable[[Table], object]) -> str:
    """Run a service; the name of the note about it."""
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
        return "service refused"
    return "service"


def heard_of(child: BaseProcess, receiver: Connection, told: Counter[str]) -> list[Written]:
    """What a process has sent until its end: each batch once; lets the process go on where it has stopped itself.

    Args:
        child: the process.
        receiver: from it.
        told: counts its notes.
    """
    sent: dict[int, Written] = {}
    try:
        while True:
            match receiver.recv():
                case Written() as written:
                    sent[written.rows[0]["ts"]] = written
                case Note(name, seconds):
                    told[name] += 1
                    if seconds:
                        resume_after(child, seconds)
    except EOFError:
        return [*sent.values()]


def read_until(end: Path, place: Place, readers: Mapping[str, Reader]) -> list[Seen]:
    """Read a table with one reader after the other, until the file of the end is there."""
    seen = list[Seen]()
    for name in cycle(readers):
        if end.exists():
            return seen
        found = readers[name](place)
        if found is not None:
            seen.append(Seen.of(name, found))
        time.sleep(READ_EVERY)
    return seen


class HudiWriter:
    """A writer of Hudi, which may be killed in a write, and is then replaced.

    Args:
        name: of the writer, and of its own partition.
        engine: the first one; the caller closes it.
        scene: of the table.
        place: of the table.
        source: of its batches, and of its deaths.
    """

    def __init__(self, name: str, engine: HudiEngine, scene: Scene, place: Place, source: random.Random) -> None:
        self._name = name
        self._first = self._engine = engine
        self._scene = scene
        self._place = place
        self._source = source
        self.written: list[Written] = []
        self.seen: list[Seen] = []
        self.told: Counter[str] = Counter()
        self._lasted = 6.0
        # With others at work, nobody could tell whose lock is left.
        self._may_die = scene.has_deaths and len(scene.hudi) == 1

    @property
    def has_begun(self) -> bool:
        """Whether one of its batches is in the table for certain, and it has died once if it is to die."""
        return self._has_committed and (self.told["killed"] > 0 or not self._may_die)

    @property
    def _has_committed(self) -> bool:
        return any(one.outcome is Outcome.COMMITTED for one in self.written)

    def write(self, number: int) -> None:
        """Write one batch."""
        rows, began = batch(self._name, number, self._source), time.monotonic()
        is_killed = self._may_die and self._dies(number)
        with self._disturbed(is_killed=is_killed):
            try:
                self._engine.write(self._place.hudi_location, as_table(rows), self._scene.options_of(self._engine))
            except HudiError as error:
                self.written.append(_failed(rows, str(error)))
            else:
                self.written.append(Written(rows, Outcome.COMMITTED))
        self._lasted = time.monotonic() - began
        if is_killed:
            # A death may come when the write was over.
            self._engine.kill()
            self._remove_lock()
            self._begin_session()
        elif _SCHEMA_FAULT in self.written[-1].error:
            self.told["schema faults"] += 1
            self._begin_session()
        elif _PLANNED in self.written[-1].error and self._may_die:
            self.told["clusterings by hand"] += 1
            self._run_clustering()
        elif self._source.random() < READS_OF_HUDI:
            self._read()

    def _dies(self, number: int) -> bool:
        if self.told["killed"]:
            return self._source.random() < DEATHS_OF_HUDI
        return self._has_committed or number >= BATCHES_BEFORE_DEATH

    def _begin_session(self) -> None:
        self.close()
        self._engine = self._scene.start(self._engine.version)

    def _run_clustering(self) -> None:
        """Run a pending clustering, as an operator does: nobody else would, and both engines leave its file groups alone."""
        options = ",".join(f"{name}={value}" for name, value in self._scene.options_of(self._engine).items())
        call = f"call run_clustering(path => '{self._place.hudi_location}', op => 'execute', options => '{options}')"
        try:
            self._engine.sql(call)
        except HudiError:
            self.told["clusterings failed"] += 1

    def _read(self) -> None:
        try:
            found = self._engine.read(self._place.hudi_location)
        except HudiError as error:
            # A clean or a rewrite has removed a file between the look at the timeline and the read.
            if "FileNotFound" not in str(error):
                raise
            self.told["failed reads"] += 1
        else:
            self.seen.append(Seen.of(f"Hudi {self._engine.version}", found))

    def _remove_lock(self) -> None:
        """Remove the lock file of the killed engine, as an operator does: it does not expire, as a commit may take long."""
        if self._scene.lock != "filesystem":
            return
        lock = Path(self._place.location, ".hoodie/lock")
        with suppress(FileNotFoundError):
            # The file of a process of rli has a content.
            if not lock.read_bytes():
                lock.unlink()

    @contextmanager
    def _disturbed(self, *, is_killed: bool) -> Iterator[None]:
        """Kill the engine, or pause it for a while, at a random moment of a write."""
        engine, source, timers = self._engine, self._source, list[Timer]()
        if is_killed:
            self.told["killed"] += 1
            timers.append(Timer(source.uniform(0.5, self._lasted), engine.kill))
        elif self._scene.has_deaths and source.random() < 0.2:
            self.told["paused"] += 1
            begin = source.uniform(0.5, self._lasted)
            timers += [Timer(begin, engine.pause), Timer(begin + source.uniform(1, 10), engine.resume)]
        for timer in timers:
            timer.start()
        try:
            yield
        finally:
            for timer in timers:
                timer.join()

    def close(self) -> None:
        """End the engine, unless it is the first one, which the caller closes."""
        if self._engine is not self._first:
            self._engine.close()


def _failed(rows: list[Row], error: str) -> Written:
    is_refused = any(name in error for name in _REFUSALS)
    return Written(rows, Outcome.REFUSED if is_refused else None, error=error)


@dataclass
class Run:
    """All writers of a scene at work, for a while or for some writes.

    Attributes:
        scene: the scene.
        place: of its table.
        folder: for the file that ends the processes of rli.
        source: of all choices.
        writes: of each writer of Hudi.
        seconds: from its first commit and its first death, after which a writer of Hudi begins no other write.
        seen: gets what readers saw meanwhile.
        told: gets how often each side was killed, paused, and so on.
        lasted: gets for how many seconds writers were at work.
    """

    scene: Scene
    place: Place
    folder: Path
    source: random.Random
    writes: int
    seconds: float = float("inf")
    seen: list[Seen] = field(default_factory=list)
    told: dict[str, Counter[str]] = field(default_factory=lambda: {"hudi": Counter(), "rli": Counter()})
    lasted: float = 0.0

    def go(self, engines: Iterable[HudiEngine]) -> list[Written]:
        """All batches of all writers, in no order; one process of rli is killed on its way, and another one takes its place."""
        end, began = self.folder / "end", time.monotonic()
        with ThreadPoolExecutor() as threads:
            reading = threads.submit(read_until, end, self.place, self.scene.readers)
            works = [threads.submit(self._with_deaths, end), threads.submit(self._of_process, "second", end, None)]
            hudi = [
                threads.submit(self._of_hudi, f"hudi{number}", engine, random.Random(self.source.random()))
                for number, engine in enumerate(engines)
            ]
            try:
                theirs = [written for work in hudi for written in work.result()]
            finally:
                end.touch()
            self.lasted = time.monotonic() - began
            self.seen += reading.result()
            return [*theirs, *(written for work in works for written in work.result())]

    def summary(self, batches: Collection[Written]) -> str:
        """How many writes each side made, and what befell them."""
        for one in batches:
            told = self.told["hudi" if one.own.startswith("hudi") else "rli"]
            told[one.outcome.value if one.outcome else "open"] += 1
            told["conflicts"] += one.conflicts
        reads = Counter(seen.reader for seen in self.seen)
        counts = (f"{name}: {dict(counts)}" for name, counts in {**self.told, "reads": reads}.items())
        errors = Counter(" ".join(one.error.split())[:_ERROR_SHOWN] for one in batches if one.error)
        return "\n".join(
            ["; ".join([f"{self.lasted:.0f} s", *counts]), *(f"{n} x {error}" for error, n in errors.items())]
        )

    def _with_deaths(self, end: Path) -> list[Written]:
        written = self._of_process("killed", end, self.source.choice(KILLED_AT))
        while self.scene.has_deaths and not end.exists():
            written += self._of_process("killed", end, self.source.choice(KILLED_AT))
        return [*written, *self._of_process("third", end, None)]

    def _of_process(self, name: str, end: Path, killed_at: Step | None) -> list[Written]:
        writer = RliWriter(
            name,
            self.source.randrange(1 << 32),
            killed_at,
            self.scene.has_services,
            # Writers of Hudi are slow, and are to have their turns.
            most_seconds=12.0 if self.scene.has_deaths else 0.6,
            by_spark=self.scene.has_spark and killed_at is None,
            rewrite=self.scene.rewrite,
            longest_pause=self.place.longest_pause if self.scene.has_deaths else 0.0,
        )
        receiver, sender = pipe()
        child = start_child(write_with_rli, self.place, writer, end, sender)
        sender.close()
        batches = heard_of(child, receiver, self.told["rli"])
        child.join()
        assert child.exitcode == (0 if killed_at is None else -signal.SIGKILL)
        self.told["rli"]["killed"] += killed_at is not None
        return batches

    def _of_hudi(self, name: str, engine: HudiEngine, source: random.Random) -> list[Written]:
        writer = HudiWriter(name, engine, self.scene, self.place, source)
        until = time.monotonic() + _MOST_TIMES * self.seconds
        try:
            for number in range(self.writes):
                if time.monotonic() >= until:
                    break
                writer.write(number)
                # The first writes take long: a JVM has its classes to load.
                if writer.has_begun:
                    until = min(until, time.monotonic() + self.seconds)
        finally:
            writer.close()
        self.seen += writer.seen
        self.told["hudi"] += writer.told
        return writer.written


def first_rows(hudi: int) -> list[Row]:
    """The records that the table holds before the writers begin."""
    cities = (*SHARED_CITIES, "killed", "second", "third", *(f"hudi{number}" for number in range(hudi)))
    return [trip(f"{city} {key}", city=city) for city in cities for key in range(KEYS_OF_A_CITY)]
