"""What it costs that a commit is on the disk before it is acknowledged."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Final

import pyarrow as pa

import rli
from benchmarks.changing import turns_of, with_turn
from benchmarks.keys import uuid_keys
from benchmarks.measuring import Outcome, race
from rli import Durability, Maintenance

_PARTITIONS: Final = 4
_GOAL: Final = 1.10


def run(folder: Path, *, quick: bool) -> list[Outcome]:
    """Compare upserts of several sizes into a table that waits for the disk and into one that does not."""
    rounds = {1: 10, 1_000: 10} if quick else {1: 100, 1_000: 60, 50_000: 15}
    return [_compare(folder / str(rows), rows, times) for rows, times in rounds.items()]


def _compare(folder: Path, rows: int, rounds: int) -> Outcome:
    batches = [_batch(rows, seed) for seed in range(2)]
    tables = [_table(folder / durability, durability, batches) for durability in (Durability.DISK, Durability.OS)]
    waiting, not_waiting = (_upserting(table, batches) for table in tables)
    pair = race(waiting, not_waiting, rounds=rounds)
    return Outcome(
        f"upsert of {rows:,} rows, durability=disk",
        "the same upsert with durability=os",
        pair.time_ratio,
        _GOAL,
        "lower",
        f"{_PARTITIONS} partitions, known records; {rounds} rounds in turn; the disk is that of temporary files",
    )


def _upserting(table: rli.Table, batches: list[pa.Table]) -> Callable[[], object]:
    turns = cycle([turns_of(batch) for batch in batches])
    return lambda: table.upsert(next(next(turns)))


def _table(path: Path, durability: Durability, batches: list[pa.Table]) -> rli.Table:
    table = rli.create_table(
        path, record_key="id", partition_by="part", durability=durability, maintenance=Maintenance.off()
    )
    for batch in batches:
        table.upsert(with_turn(batch))
    return table


def _batch(rows: int, seed: int) -> pa.Table:
    keys = uuid_keys(rows, seed=seed)
    numbers = pa.array(range(rows), pa.int64())
    return pa.table({"id": keys, "part": [f"p{number % _PARTITIONS}" for number in range(rows)], "number": numbers})
