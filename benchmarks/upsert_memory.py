"""Memory of an upsert: it grows with the batch, not with the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

import rli
from benchmarks.changing import with_turn
from benchmarks.keys import uuid_keys
from benchmarks.measuring import Outcome, cost_apart

_BATCH = 50_000
_PARTITIONS = 4
_GROWTH = 8
_LOADED = 50_000


def run(folder: Path, *, quick: bool) -> list[Outcome]:
    """Compare the memory of one upsert, of keys from all over the table, into a small and an eight times larger one."""
    # Of file groups that are full in both tables: memory grows with their size, up to the target.
    small, file_size = (100_000, 1 << 20) if quick else (400_000, 4 << 20)
    memory = [
        _memory_of_upsert(folder / f"table-{records}", records, file_size) for records in (small, small * _GROWTH)
    ]
    return [
        Outcome(
            "memory of an upsert, 8 times larger table",
            "the same upsert into the small table",
            memory[1] / memory[0],
            1.5,
            "lower",
            f"{_BATCH:,} records into {small:,} and {small * _GROWTH:,}, base files of {file_size >> 20} MiB; memory over memory",
        )
    ]


def _memory_of_upsert(path: Path, records: int, file_size: int) -> int:
    """Bytes of memory that upserting one batch takes in a process of its own."""
    table = rli.create_table(
        path,
        record_key="id",
        partition_by="part",
        index=f"lmdb://{path}-index",
        target_file_size=file_size,
    )
    for start in range(0, records, _LOADED):
        table.upsert(with_turn(_records(start)))
    table.close()
    return cost_apart(_one_upsert, path, records).memory


@contextmanager
def _one_upsert(path: Path, records: int) -> Iterator[Callable[[], object]]:
    starts = range(0, records, _LOADED)
    batch = pa.concat_tables([_records(start).slice(0, _BATCH // len(starts)) for start in starts])
    changed = with_turn(batch, 1)
    yield lambda: rli.open_table(path).upsert(changed)


def _records(start: int) -> pa.Table:
    keys = uuid_keys(_LOADED, seed=1_000 + start)
    parts = pa.array([f"p{n % _PARTITIONS}" for n in range(_LOADED)])
    return pa.table({"id": keys, "part": parts, "value": pa.array(range(_LOADED)), "note": keys})
