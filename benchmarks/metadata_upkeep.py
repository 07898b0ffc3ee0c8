"""Commits that keep Hudi's metadata table, beside the same commits of a table without one: CPU time of all processes."""

from __future__ import annotations

import gc
import os
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import rli
import rli_spark
from benchmarks.commits import many_commits
from benchmarks.keys import uuid_keys
from benchmarks.measuring import Outcome
from benchmarks.sessions import spark_session
from tests.support.tables import turn_into_version_9

METADATA: Final = ("files", "column_stats", "partition_stats", "record_index")

_PARTITIONS: Final = 8
_ROUNDS: Final = 5
_ROW_GROUPS: Final = 8
_GOAL: Final = 1.3

_Write = Callable[[rli.Table, Path], object]


def run(folder: Path, *, quick: bool) -> list[Outcome]:
    """Upsert batches in plain Python and in Spark, and commit again and again."""
    sizes, commits = ((20_000,), (20, 60)) if quick else ((200_000, 2_000_000), (100, 1_000, 3_000))
    spark = spark_session()
    writes: dict[str, _Write] = {
        "plain Python": lambda table, batch: table.upsert(pq.read_table(batch)),
        "Spark": lambda table, batch: rli_spark.upsert(spark.read.parquet(str(batch)), table),
    }
    upserts = [
        _upserts(folder / f"{name}-{rows}", name, write, rows) for rows in sizes for name, write in writes.items()
    ]
    return [*upserts, *many_commits(folder / "many", commits, metadata=METADATA)]


def _upserts(folder: Path, name: str, write: _Write, rows: int) -> Outcome:
    """Upserts of known and new records, as many of each, in a table with a metadata table and in one without."""
    folder.mkdir()
    kept, without = _table(folder / "kept"), _table(folder / "without")
    kept.metadata.enable(METADATA)
    ratios = [_in_turns(write, kept, without, batch) for batch in _batches(folder, rows)]
    if kept.metadata.verify():
        raise ValueError("the metadata table does not say what the table says")
    return Outcome(
        f"CPU of an upsert of {rows:,} records in {name} that keeps the metadata table",
        "the same upsert of a table without one",
        # The first upserts find no table, and start what later ones use.
        statistics.median(ratios[1:]),
        _GOAL,
        "lower",
        f"{', '.join(METADATA)}; half of the records are new; {_PARTITIONS} partitions, table version 9, index in LMDB",
    )


def _table(path: Path) -> rli.Table:
    table = rli.create_table(path, record_key="id", partition_by="part", ordering="version", maintenance=False)
    turn_into_version_9(table)
    return table


def _batches(folder: Path, rows: int) -> Iterator[Path]:
    """Files, each with the last half of the records of the one before and as many new ones."""
    half = rows // 2
    keys = uuid_keys(half * (_ROUNDS + 2), seed=1)
    for number in range(_ROUNDS + 1):
        at = np.arange(number * half, number * half + rows)
        batch = pa.table(
            {
                "id": keys.slice(number * half, rows),
                "part": pa.array(at % _PARTITIONS).cast(pa.string()),
                "version": pa.repeat(number, rows),
                **{f"value_{column}": np.random.default_rng(column).random(rows) for column in range(6)},
            }
        )
        path = folder / f"{number}.parquet"
        pq.write_table(batch, path, row_group_size=-(-rows // _ROW_GROUPS))
        yield path


def _in_turns(write: _Write, kept: rli.Table, without: rli.Table, batch: Path) -> float:
    """CPU time of the first table's upsert over that of the second one's."""
    taken = []
    for table in (without, kept):
        gc.collect()
        started = _cpu_of_processes()
        write(table, batch)
        taken.append(_cpu_of_processes() - started)
    return taken[1] / taken[0]


def _cpu_of_processes() -> float:
    """Seconds of CPU that this process and all below it have taken."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            # It has ended.
            continue
        pid = int(folder.name)
        parents[pid] = int(fields[1])
        # Of its own, and of those below it that have ended.
        ticks[pid] = sum(map(int, fields[11:15]))
    below = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in below} - below:
        below |= more
    return sum(ticks[pid] for pid in below) / os.sysconf("SC_CLK_TCK")
