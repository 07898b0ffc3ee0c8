"""A stream of small batches with inline compaction: a merge-on-read table beside a copy-on-write table of the same records."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa

import rli
from benchmarks.keys import uuid_keys
from benchmarks.measuring import Outcome, Unit, seconds, written_bytes
from benchmarks.table_types import batch_of, filled
from rli import Maintenance, TableType

SMALL_BATCH: Final = 100
"""Records of a batch."""

OF_COPY_ON_WRITE: Final = "the same of a copy-on-write table"


def run(folder: Path, *, quick: bool) -> list[Outcome]:
    """500 batches into tables of 200,000 records, with the maintenance that tables have by default."""
    records, batches = (20_000, 40) if quick else (200_000, 500)
    keys = uuid_keys(records, seed=0)
    ours, theirs = costs_by_type(folder, keys, [batch_of(keys, SMALL_BATCH, number) for number in range(batches)])
    about = (
        f"{batches} batches of {SMALL_BATCH} random keys into {records:,} records, compactions and timeline included"
    )
    return compared_streams(OF_COPY_ON_WRITE, ours, theirs, about)


class StreamCost(NamedTuple):
    """What a stream of batches cost.

    Attributes:
        seconds: from its begin to its end.
        processor: seconds of processor time.
        written: bytes given to write calls.
    """

    seconds: float
    processor: float
    written: float

    def of_each(self, batches: int) -> StreamCost:
        """The cost of one of so many batches, compactions shared out."""
        return StreamCost(*(cost / batches for cost in self))


def compared_streams(baseline: str, ours: StreamCost, theirs: StreamCost, about: str) -> list[Outcome]:
    """Time, processor time and bytes of a stream beside those of another one.

    Args:
        baseline: names the other one.
        ours: cost of the stream.
        theirs: cost of the other one.
        about: both of them.
    """
    times = {
        "stream of small batches": (ours.seconds, theirs.seconds),
        "stream of small batches, processor time": (ours.processor, theirs.processor),
    }
    return [
        *(
            Outcome(name, baseline, other / mine, None, "higher", f"{about}; {mine:.2f} s against {other:.2f} s")
            for name, (mine, other) in times.items()
        ),
        Outcome(
            "bytes written by the stream",
            baseline,
            ours.written / theirs.written,
            None,
            "lower",
            f"{about}; {ours.written:,.0f} against {theirs.written:,.0f} bytes",
            Unit.SHARE,
        ),
    ]


def costs_by_type(folder: Path, keys: pa.Array, batches: Sequence[pa.Table]) -> tuple[StreamCost, StreamCost]:
    """What the same batches cost a merge-on-read table, and a copy-on-write table, with the maintenance that tables have by default.

    Args:
        folder: for the tables.
        keys: of their records.
        batches: of the stream.
    """
    tables = [
        filled(folder / table_type, keys, table_type, Maintenance())
        for table_type in (TableType.MERGE_ON_READ, TableType.COPY_ON_WRITE)
    ]
    appending, rewriting = (_cost_of_stream(table, batches) for table in tables)
    if not tables[0].read().sort_by("id").equals(tables[1].read().sort_by("id")):
        raise RuntimeError("the tables hold other records")
    return appending, rewriting


def _cost_of_stream(table: rli.Table, batches: Sequence[pa.Table]) -> StreamCost:
    """What the upserts of some batches cost this process; LMDB maps its files, so its bytes are not told."""
    before, began = written_bytes(os.getpid()), time.process_time()
    taken = seconds(lambda: [table.upsert(batch) for batch in batches])
    return StreamCost(taken, time.process_time() - began, written_bytes(os.getpid()) - before)
