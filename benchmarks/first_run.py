"""The first load of a new Spark session, and a job of one load from spark-submit to its end, beside other engines."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

import rli
import rli_spark
from benchmarks.keys import uuid_keys
from benchmarks.measuring import Outcome, processor_seconds, run_apart
from benchmarks.peers.hudi import COPY_ON_WRITE, OPTIONS
from benchmarks.peers.products import PRODUCTS
from benchmarks.peers.workload import PARTITIONS
from benchmarks.sessions import LOCAL, spark_session
from tests.support.spark_cluster import environment_of_children
from tests.support.spark_packages import jar_of

JOB: Final = "first run"
"""A job of one load."""

_JOB: Final = Path(__file__).with_name("short_job.py")
_DELTA: Final = "Delta Lake 3.3.2"
_ROW_GROUPS: Final = 8
_MEMORY: Final = "1g"
"""Heap of a driver whose user sets none."""

_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.driver.host": "localhost",
    "spark.driver.bindAddress": "127.0.0.1",
    # As rli compresses its base files.
    "spark.sql.parquet.compression.codec": "zstd",
}
"""Of jobs."""

_GOAL_OF_DELTA, _GOAL_OF_PARQUET, _GOAL_OF_SECOND = 1.0, 1.3, 2.0


@dataclass(frozen=True, slots=True)
class _Session:
    """Times of one session.

    Attributes:
        start: seconds of processor time of its processes until it was ready.
        loads: the same of its first and of its second load.
        elapsed: seconds of the first load.
    """

    start: float
    loads: tuple[float, float]
    elapsed: float


def run(folder: Path, *, quick: bool) -> list[Outcome]:
    """Load the same rows twice into a new table, in a new session each time: by rli, as Delta Lake, and as Parquet."""
    rows, rounds = (50_000, 1) if quick else (600_000, 3)
    source = folder / "load.parquet"
    _write_rows(source, rows)
    products = {"rli": _load_by_rli, "delta": _load_by_spark, "parquet": _load_by_spark}
    sessions: dict[str, list[_Session]] = {name: [] for name in products}
    for number in range(rounds):
        for name, load in products.items():
            sessions[name].append(run_apart(_measure, name, load, source, folder / f"{name}-{number}"))
    ours = sessions["rli"]
    about = (
        f"{rows:,} rows in {PARTITIONS} partitions, local[2], a heap of {_MEMORY}; processor time of all processes; rli took "
        f"{_median(session.start for session in ours):.1f} s of it to start, {_median(session.loads[0] for session in ours):.1f} s "
        f"for the first load ({_median(session.elapsed for session in ours):.1f} s elapsed), "
        f"{_median(session.loads[1] for session in ours):.1f} s for the second"
    )

    def beside(name: str) -> float:
        pairs = zip(ours, sessions[name], strict=True)
        return _median(session.loads[0] / other.loads[0] for session, other in pairs)

    first = "first load of a Spark session"
    return [
        *_jobs(source, folder, rows, rounds),
        Outcome(first, f"{_DELTA} loading the same rows", beside("delta"), _GOAL_OF_DELTA, "lower", about),
        Outcome(first, "Spark writing them as Parquet", beside("parquet"), _GOAL_OF_PARQUET, "lower", about),
        Outcome(
            first, "the second", _median(one.loads[0] / one.loads[1] for one in ours), _GOAL_OF_SECOND, "lower", about
        ),
    ]


@dataclass(frozen=True, slots=True)
class _Engine:
    """An engine as a job uses it.

    Attributes:
        format: as Spark names it.
        product: of ``PRODUCTS``.
        packages: that it needs beside its own.
        table: as the job names it, with ``{folder}`` for its folder.
        options: of its writer.
    """

    format: str
    product: str
    packages: Sequence[str] = ()
    table: str = "{folder}/table"
    options: Mapping[str, str] = field(default_factory=dict[str, str])


_HUDI: Final = {
    **OPTIONS,
    **COPY_ON_WRITE["RECORD_INDEX"],
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.datasource.write.precombine.field": "version",
    "hoodie.datasource.write.operation": "bulk_insert",
}
_ENGINES: Final = {
    "rli": _Engine("rli", "rli"),
    "Hudi 1.2.0, RECORD_INDEX": _Engine("hudi", "Hudi 1.2.0", options=_HUDI),
    f"{_DELTA}, MERGE": _Engine("delta", _DELTA, ("io.delta:delta-storage:3.3.2",)),
    "Iceberg 1.10.0, MERGE": _Engine("iceberg", "Iceberg 1.10.0", table="peers.loaded"),
}
"""By the name that they have in other benchmarks."""


class _Cost(NamedTuple):
    """Seconds of a job, and of its processor time."""

    seconds: float
    processor: float


def _jobs(source: Path, folder: Path, rows: int, rounds: int) -> Iterator[Outcome]:
    """How many times as fast as those of other engines a job of rli is."""
    for engine in _ENGINES.values():
        # A package is fetched before.
        _jars_of(engine)
    costs: dict[str, list[_Cost]] = {name: [] for name in _ENGINES}
    for number in range(rounds):
        for name, engine in _ENGINES.items():
            costs[name].append(_submit(engine, source, folder / f"job-{engine.format}-{number}"))
    ours = costs.pop("rli")
    for name, theirs in costs.items():
        for what, one in (("", 0), (", processor time", 1)):
            mine, other = (_median(cost[one] for cost in some) for some in (ours, theirs))
            yield Outcome(
                f"{JOB}{what}: times as fast",
                name,
                _median(cost[one] / own[one] for own, cost in zip(ours, theirs, strict=True)),
                None,
                "higher",
                f"a job that loads {rows:,} rows in {PARTITIONS} partitions, from spark-submit to its end, {LOCAL}, a heap of {_MEMORY}; "
                f"medians of {rounds}; {mine:.1f} s against {other:.1f} s",
            )


def _submit(engine: _Engine, source: Path, folder: Path) -> _Cost:
    """Run a job of one load."""
    folder.mkdir()
    settings = {name: value.format(folder=folder) for name, value in PRODUCTS[engine.product].settings.items()}
    settings |= _SETTINGS
    arguments = [engine.format, str(source), engine.table.format(folder=folder), json.dumps(dict(engine.options))]
    command = [
        str(Path(sys.executable).with_name("spark-submit")),
        *("--master", LOCAL, "--driver-memory", _MEMORY, "--driver-class-path", ":".join(_jars_of(engine))),
        *(word for name, value in settings.items() for word in ("--conf", f"{name}={value}")),
        *(str(_JOB), *arguments),
    ]
    began, used = time.perf_counter(), _used()
    environment = environment_of_children()
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise RuntimeError(f"a job failed: format={engine.format}: {done.stderr[-2000:]}")
    return _Cost(time.perf_counter() - began, _used() - used)


def _used() -> float:
    """Seconds of processor time of the processes that have ended."""
    usage = getrusage(RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _jars_of(engine: _Engine) -> list[str]:
    package = PRODUCTS[engine.product].package
    return [] if package is None else [str(jar_of(one)) for one in (package, *engine.packages)]


def _median(values: Iterable[float]) -> float:
    return statistics.median(values)


def _measure(name: str, load: Callable[[DataFrame, str, Path], None], source: Path, folder: Path) -> _Session:
    """In a process of its own, whose processor time began with the imports of this module."""
    product = PRODUCTS[_DELTA] if name == "delta" else PRODUCTS["rli"]
    packages = {"spark.jars.packages": product.package} if product.package else {}
    spark = spark_session({**product.settings, **packages}, memory=_MEMORY)
    start = processor_seconds(os.getpid())
    began, used, elapsed = time.perf_counter(), [start], []
    for number in range(2):
        load(spark.read.parquet(str(source)), name, folder / str(number))
        used.append(processor_seconds(os.getpid()))
        elapsed.append(time.perf_counter() - began)
    return _Session(start, (used[1] - used[0], used[2] - used[1]), elapsed[0])


def _load_by_rli(rows: DataFrame, _: str, folder: Path) -> None:
    with rli.create_table(folder, record_key="id", partition_by="part", ordering="version") as table:
        rli_spark.upsert(rows, table)


def _load_by_spark(rows: DataFrame, name: str, folder: Path) -> None:
    rows.write.partitionBy("part").format(name).save(str(folder))


def _write_rows(path: Path, rows: int) -> None:
    numbers = np.arange(rows)
    table = pa.table(
        {
            "id": uuid_keys(rows, seed=1),
            "part": pa.array(numbers % PARTITIONS).cast(pa.string()),
            "amount": pa.array(np.random.default_rng(1).random(rows)),
            "version": pa.array(np.ones(rows, np.int64)),
        }
    )
    # In parts, as a job writes it: Spark reads no row group with more than one task.
    pq.write_table(table, path, row_group_size=-(-rows // _ROW_GROUPS))
