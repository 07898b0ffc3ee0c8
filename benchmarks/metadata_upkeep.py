"""Commits that keep Hudi's metadata table, beside the same commits of a table without one: CPU time of all processes."""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import rli
import rli_spark
from benchmarks.commits import many_commits
from benchmarks.keys import uuid_keys
from benchmarks.measuring import Outcome, processor_seconds
from benchmarks.sessions import spark_session
from tests.support.tables import turn_into_version_9

METADATA: Final = ("files", "column_stats", "partition_stats", "record_index")

_SIZES: Final = {
    True: ((0, 20_000), (100_000, 10_000)),
    False: ((0, 200_000), (0, 2_000_000), (20_000_000, 200_000)),
}
"""In the quick form and in the full one: records of the tables at first, and of an upsert."""

_PARTITIONS: Final = 8
_ROUNDS: Final = 5
_ROW_GROUPS: Final = 8
_LOADED_AT_A_TIME: Final = 5_000_000
_GOAL: Final = 1.3

_Write = Callable[[rli.Table, Path], object]


def run(folder: Path, *, quick: bool) -> list[Outcome]:
    """Upsert batches in plain Python and in Spark, and commit again and again."""
    sizes, commits = _SIZES[quick], (20, 60) if quick else (100, 1_000, 3_000)
    spark = spark_session()
    writes: dict[str, _Write] = {
        "plain Python": lambda table, batch: table.upsert(pq.read_table(batch)),
        "Spark": lambda table, batch: rli_spark.upsert(spark.read.parquet(str(batch)), table),
    }
    upserts = [outcome for loaded, rows in sizes for outcome in upkeep(folder, writes, loaded, rows)]
    return [*upserts, *many_commits(folder / "many", commits, metadata=METADATA)]


def upkeep(folder: Path, writes: Mapping[str, _Write], loaded: int, rows: int) -> list[Outcome]:
    """Upserts of known and new records, as many of each, in a table with a metadata table and in one without.

    Args:
        folder: for the tables.
        writes: what upserts a Parquet file, by name.
        loaded: records of the tables at first.
        rows: records of an upsert.
    """
    folder /= f"{loaded}-{rows}"
    folder.mkdir()
    kept, without = (_table(folder / name, loaded) for name in ("kept", "without"))
    kept.metadata.enable(METADATA)
    batches = _batches(folder, rows, (_ROUNDS + 1) * len(writes))
    outcomes = []
    for name, write in writes.items():
        ratios = [_in_turns(write, kept, without, batch) for batch in islice(batches, _ROUNDS + 1)]
        # The first upserts start what later ones use.
        outcomes += [
            Outcome(
                f"{measure} of an upsert of {rows:,} records in {name} that keeps the metadata table",
                f"the same upsert of a table without one, {loaded:,} records at first",
                statistics.median(ratio),
                _GOAL,
                "lower",
                f"{', '.join(METADATA)}; half of the records are new; {_PARTITIONS} partitions, table version 9, index in LMDB",
            )
            for measure, ratio in zip(("CPU", "time"), zip(*ratios[1:], strict=True), strict=True)
        ]
    if kept.metadata.verify():
        raise ValueError("the metadata table does not say what the table says")
    return outcomes


def _table(path: Path, loaded: int) -> rli.Table:
    table = rli.create_table(path, record_key="id", partition_by="part", ordering="version", maintenance=False)
    turn_into_version_9(table)
    for first in range(0, loaded, _LOADED_AT_A_TIME):
        rows = min(_LOADED_AT_A_TIME, loaded - first)
        table.insert(_rows(uuid_keys(rows, seed=100 + first), np.arange(rows), -1))
    return table


def _batches(folder: Path, rows: int, count: int) -> Iterator[Path]:
    """Files, each with the last half of the records of the one before and as many new ones."""
    half = rows // 2
    keys = uuid_keys(half * (count + 1), seed=1)
    for number in range(count):
        batch = _rows(keys.slice(number * half, rows), np.arange(number * half, number * half + rows), number)
        path = folder / f"{number}.parquet"
        pq.write_table(batch, path, row_group_size=-(-rows // _ROW_GROUPS))
        yield path


def _rows(keys: pa.Array, numbers: np.ndarray, version: int) -> pa.Table:
    """Records with their keys; the number of each tells its partition."""
    return pa.table(
        {
            "id": keys,
            "part": pa.array(numbers % _PARTITIONS).cast(pa.string()),
            "version": pa.repeat(version, len(keys)),
            **{f"value_{column}": np.random.default_rng(column).random(len(keys)) for column in range(6)},
        }
    )


def _in_turns(write: _Write, kept: rli.Table, without: rli.Table, batch: Path) -> tuple[float, float]:
    """CPU time and time of the first table's upsert over those of the second one's."""
    taken = []
    for table in (without, kept):
        gc.collect()
        started = processor_seconds(os.getpid()), time.perf_counter()
        write(table, batch)
        taken.append((processor_seconds(os.getpid()) - started[0], time.perf_counter() - started[1]))
    (cpu, seconds), (cpu_kept, seconds_kept) = taken
    return cpu_kept / cpu, seconds_kept / seconds
