"""Memory of an upsert: it grows with the batch, not with the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

import rli
from benchmarks.keys import uuid_keys
from benchmarks.measuring import Outcome, cost_apart

_BATCH = 50_000
_PARTITIONS = 4
_GROWTH = 8
_LOADED = 50_000


def run(folder: Path, *, quick: bool) -> list[Outcome]:
    """Compare the peak memory of one upsert into a small and into an eight times larger table."""
    # Of file groups that are full in both tables: memory grows with their size, up to the target.
    small, file_size = (100_000, 1 << 20) if quick else (400_000, 4 << 20)
    peaks = [_peak_of_upsert(folder / f"table-{records}", records, file_size) for records in (small, small * _GROWTH)]
    return [
        Outcome(
            "upsert's peak memory, 8 times larger table",
            "the same upsert into the small table",
            peaks[1] / peaks[0],
            1.5,
            "lower",
            f"{_BATCH:,} records into {small:,} and {small * _GROWTH:,}, base files of {file_size >> 20} MiB; memory over memory",
        )
    ]


def _peak_of_upsert(path: Path, records: int, file_size: int) -> int:
    """Peak bytes of memory of a process of its own that upserts one batch."""
    table = rli.create_table(
        path,
        record_key="id",
        partition_by="part",
        index=f"lmdb://{path}-index",
        target_file_size=file_size,
    )
    for start in range(0, records, _LOADED):
        table.upsert(_records(start, min(_LOADED, records - start)))
    table.close()
    return cost_apart(_one_upsert, path).peak_memory


@contextmanager
def _one_upsert(path: Path) -> Iterator[Callable[[], object]]:
    batch = _records(seed=0, count=_BATCH)
    yield lambda: rli.open_table(path).upsert(batch)


def _records(seed: int, count: int) -> pa.Table:
    keys = uuid_keys(count, seed=1_000 + seed)
    parts = pa.array([f"p{n % _PARTITIONS}" for n in range(count)])
    return pa.table({"id": keys, "part": parts, "value": pa.array(range(count)), "note": keys})
