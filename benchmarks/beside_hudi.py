"""A writer of rli beside a writer of Hudi, under a lock that both take: throughput, and how long each side holds the lock."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from pathlib import Path
from threading import Event, Thread
from typing import Final

import numpy as np
import pyarrow as pa

import rli
from benchmarks.measuring import Outcome, processor_seconds
from tests.support.hudi import STAY_ON_VERSION_6, HudiEngine
from tests.support.hudi_locks import FILE_LOCK

_LOCK: Final = ".hoodie/lock"
_LOOK_EVERY: Final = 0.001
"""Seconds."""

_HUDI: Final = {
    **STAY_ON_VERSION_6,
    **FILE_LOCK,
    "hoodie.table.name": "trips",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "writer",
    "hoodie.datasource.write.precombine.field": "version",
    "hoodie.datasource.write.operation": "upsert",
    "hoodie.index.type": "SIMPLE",
    "hoodie.metadata.enable": "false",
    "hoodie.keep.min.commits": "1000",
    "hoodie.keep.max.commits": "1100",
}


@dataclass
class LockTimes:
    """For how long each side has held the lock file, in seconds, as far as a look every millisecond tells.

    Attributes:
        rli: this process.
        hudi: the JVM.
        processor: seconds of processor time of the looks.
    """

    rli: float = 0.0
    hudi: float = 0.0
    processor: float = 0.0
    _over: Event = field(default_factory=Event)

    @contextmanager
    def watching(self, lock: Path) -> Iterator[LockTimes]:
        """Look while a block runs."""
        thread = Thread(target=self._watch, args=(lock,))
        thread.start()
        try:
            yield self
        finally:
            self._over.set()
            thread.join()

    def _watch(self, lock: Path) -> None:
        last = time.monotonic()
        while not self._over.wait(_LOOK_EVERY):
            now, self.processor = time.monotonic(), time.thread_time()
            try:
                content = lock.read_bytes()
            except FileNotFoundError:
                last = now
                continue
            if content:
                self.rli += now - last
            else:
                self.hudi += now - last
            last = now


def run(folder: Path, *, quick: bool) -> list[Outcome]:
    """Each writer alone, then both at once, each on records of its own partition."""
    seconds, rows = (20.0, 2_000) if quick else (120.0, 20_000)
    with ExitStack() as stack:
        engine = stack.enter_context(HudiEngine("1.2.0"))
        table = rli.create_table(
            folder / "trips",
            record_key="id",
            partition_by="writer",
            ordering="version",
            lock="filesystem",
            maintenance=False,
        )
        stack.callback(table.close)
        held = LockTimes()
        ours = _Writer(_by_rli(table), "rli", rows, lambda: time.process_time() - held.processor)
        theirs = _Writer(_by_hudi(engine, table), "hudi", rows, partial(processor_seconds, engine.process))
        # The first upserts find no table, and start what later ones use.
        ours.write()
        theirs.write()
        first = [one.rate(seconds) for one in (ours, theirs)]
        before = ours.commits, theirs.commits
        with held.watching(Path(table.location, _LOCK)):
            beside = _at_once((ours, theirs), seconds)
        by_rli = held.rli / (ours.commits - before[0])
        by_hudi = held.hudi / (theirs.commits - before[1])
        # Hudi gets faster for minutes, so each is measured alone before and after.
        alone = {one.name: then.mean(one.rate(seconds)) for one, then in zip((ours, theirs), first, strict=True)}
    details = f"upserts of {rows:,} records, copy-on-write, FileSystemBasedLockProvider, {seconds:g} s each"
    return [
        *(
            Outcome(
                f"commits of {name} {how}",
                f"{name} alone",
                rate(beside[name]) / rate(alone[name]),
                None,
                "higher",
                details,
            )
            for how, rate in (
                ("beside the other", attrgetter("by_time")),
                ("for a second of its processor time, beside the other", attrgetter("by_processor")),
            )
            for name in ("rli", "hudi")
        ),
        Outcome(
            "time that a commit of rli holds the lock",
            "a commit of Hudi",
            by_rli / by_hudi,
            0.1,
            "lower",
            f"{by_rli:.3f} s and {by_hudi:.3f} s; {details}",
        ),
    ]


@dataclass(frozen=True)
class _Rate:
    """Of commits.

    Attributes:
        by_time: commits a second.
        by_processor: commits for a second of the writer's processor time: other work on the machine changes this less.
    """

    by_time: float
    by_processor: float

    def mean(self, other: _Rate) -> _Rate:
        return _Rate((self.by_time + other.by_time) / 2, (self.by_processor + other.by_processor) / 2)


@dataclass
class _Writer:
    """Upserts the same records again and again, with rising versions.

    Attributes:
        upsert: writes a batch.
        name: of the writer, and of its partition.
        rows: of a batch.
        processor: seconds of processor time that the writer has used so far.
        commits: so far.
    """

    upsert: Callable[[pa.Table], object]
    name: str
    rows: int
    processor: Callable[[], float]
    commits: int = 0

    def write(self) -> None:
        self.commits += 1
        keys = np.arange(self.rows).astype(str).tolist()
        self.upsert(
            pa.table(
                {
                    "id": [f"{self.name} {key}" for key in keys],
                    "writer": [self.name] * self.rows,
                    "version": np.full(self.rows, self.commits),
                }
            )
        )

    def rate(self, seconds: float) -> _Rate:
        """How often it commits within some seconds."""
        began, used, before = time.monotonic(), self.processor(), self.commits
        while time.monotonic() - began < seconds:
            self.write()
        commits = self.commits - before
        return _Rate(commits / (time.monotonic() - began), commits / (self.processor() - used))


def _at_once(writers: tuple[_Writer, ...], seconds: float) -> dict[str, _Rate]:
    rates: dict[str, _Rate] = {}
    threads = [Thread(target=lambda one=one: rates.update({one.name: one.rate(seconds)})) for one in writers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return rates


def _by_rli(table: rli.Table) -> Callable[[pa.Table], object]:
    return table.upsert


def _by_hudi(engine: HudiEngine, table: rli.Table) -> Callable[[pa.Table], object]:
    return lambda rows: engine.write(table.location, rows, _HUDI)
