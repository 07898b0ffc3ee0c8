"""The first load of a new Spark session, as a short job meets it, beside Delta Lake and files of Parquet."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

import rli
import rli_spark
from benchmarks.keys import uuid_keys
from benchmarks.measuring import Outcome, processor_seconds, run_apart
from benchmarks.peers.products import PRODUCTS
from benchmarks.peers.workload import PARTITIONS
from benchmarks.sessions import spark_session

_DELTA: Final = "Delta Lake 3.3.2"
_ROW_GROUPS: Final = 8
_MEMORY: Final = "1g"
"""Heap of a driver whose user sets none."""

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
        Outcome(first, f"{_DELTA} loading the same rows", beside("delta"), _GOAL_OF_DELTA, "lower", about),
        Outcome(first, "Spark writing them as Parquet", beside("parquet"), _GOAL_OF_PARQUET, "lower", about),
        Outcome(
            first, "the second", _median(one.loads[0] / one.loads[1] for one in ours), _GOAL_OF_SECOND, "lower", about
        ),
    ]


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
