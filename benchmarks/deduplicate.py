"""What an insert of mostly known records costs, beside an upsert of the same records."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

import rli
from benchmarks.keys import uuid_keys
from benchmarks.measuring import Outcome, race
from rli import Maintenance

_PARTITIONS: Final = 8
_NEW_PERCENT: Final = 1
_GOAL: Final = 10.0


def run(folder: Path, *, quick: bool) -> list[Outcome]:
    """Insert and upsert batches of which 99 % are known, in turn, each into a table of its own."""
    stored, batch, rounds = (20_000, 2_000, 3) if quick else (2_000_000, 100_000, 7)
    known = uuid_keys(stored, seed=0)
    inserting, upserting = (_table(folder / verb, known) for verb in ("insert", "upsert"))
    batches = [_batch(known, batch, number) for number in range(rounds + 1)]
    inserts, upserts = iter(batches), iter(batches)
    pair = race(
        lambda: inserting.insert(next(inserts)),
        lambda: upserting.upsert(next(upserts)),
        rounds=rounds,
    )
    return [
        Outcome(
            f"insert of {batch:,} records, 99 % known",
            "an upsert of the same records",
            pair.speed_ratio,
            _GOAL,
            "higher",
            f"a table of {stored:,} records in {_PARTITIONS} partitions; {rounds} rounds in turn",
        )
    ]


def _table(path: Path, keys: pa.Array) -> rli.Table:
    table = rli.create_table(path, record_key="id", partition_by="part", maintenance=Maintenance.off())
    table.upsert(_records(keys))
    return table


def _batch(known: pa.Array, rows: int, number: int) -> pa.Table:
    new = rows * _NEW_PERCENT // 100
    start = number * rows % (len(known) - rows)
    return _records(pa.concat_arrays([known.slice(start, rows - new), uuid_keys(new, seed=number + 1)]))


def _records(keys: pa.Array) -> pa.Table:
    rows = np.arange(len(keys))
    parts = pa.array(rows % _PARTITIONS).cast(pa.string())
    return pa.table({"id": keys, "part": parts, "number": rows, "text": pa.array(rows * 7919).cast(pa.string())})
