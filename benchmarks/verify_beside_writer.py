"""Verify of a large table while a writer works: that it finds one planted entry, how long it takes, in how much memory.

Run with ``python -m benchmarks.verify_beside_writer FOLDER [RECORDS]``: ten million records by default, on LMDB. It is no
part of ``make bench``: building the table takes minutes.
"""

from __future__ import annotations

import multiprocessing
import resource
import sys
import time
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

import rli
from benchmarks.keys import uuid_keys
from rli.codec import entries
from rli.index.record.stored_index import StoredIndex
from rli.table.table import opened_table

_PROCESSES: Final = multiprocessing.get_context("spawn")
_BATCH: Final = 500_000
_PARTITIONS: Final = 10
_WRITTEN: Final = 1_000


def main(folder: Path, records: int) -> None:
    """Build the table, plant an entry, and compare at rest and beside a writer."""
    table = rli.create_table(
        folder / "table", record_key="id", partition_by="part", index=f"lmdb://{folder}/index", durability="os"
    )
    for start in range(0, records, _BATCH):
        table.upsert(_records(start, 0))
    seconds = _show("at rest", table)
    head = _index(table).log.refresh().head
    _index(table).put(pa.array(["planted"]), entries.pack(head, np.array([0])))
    stop = _PROCESSES.Event()
    writer = _PROCESSES.Process(target=_write, args=(folder / "table", records, stop))
    writer.start()
    try:
        while writer.is_alive() and _index(table).log.refresh().head == head:
            time.sleep(0.1)
        beside = _show("beside a writer", table)
    finally:
        stop.set()
        writer.join()
    print(f"beside over at rest: {beside / seconds:.2f}")


def _index(table: rli.Table) -> StoredIndex:
    index = opened_table(table).index
    assert isinstance(index, StoredIndex)
    return index


def _show(when: str, table: rli.Table) -> float:
    before, log = time.perf_counter(), _index(table).log.refresh().head
    report = table.verify_index()
    seconds = time.perf_counter() - before
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    commits = _index(table).log.refresh().head - log
    print(
        f"{when}: {seconds:.1f} s, peak {memory} MiB, sequences committed meanwhile: {commits}\n  {report}", flush=True
    )
    return seconds


def _write(path: Path, records: int, stop: Event) -> None:
    """Move records from one partition to the next, insert new ones and delete some, until told to stop."""
    turn = 0
    with rli.open_table(path) as table:
        while not stop.is_set():
            turn += 1
            here = turn % _PARTITIONS
            mine = pa.array(range(here, _PARTITIONS * _WRITTEN, _PARTITIONS))
            known = _records(turn * _BATCH % records, 1).take(mine)
            table.upsert(pa.concat_tables([known, _records(records + turn * _BATCH, 1).take(mine)]))
            table.delete(known.column("id").slice(0, 100))


def _records(start: int, shift: int) -> pa.Table:
    keys = uuid_keys(_BATCH, seed=1_000 + start)
    parts = pa.array([f"p{(number + shift) % _PARTITIONS}" for number in range(_BATCH)])
    return pa.table({"id": keys, "part": parts, "value": pa.array(range(_BATCH))})


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 10_000_000)
