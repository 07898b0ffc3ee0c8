"""Reads and upserts of a table against pyarrow reading and writing the same Parquet files."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

import rli
from benchmarks.changing import TURN, turns_of, with_turn
from benchmarks.keys import uuid_keys
from benchmarks.measuring import Outcome, Unit, race

_PARTITIONS = 8


def run(folder: Path, *, quick: bool) -> list[Outcome]:
    """Measure reading a whole table, and an upsert that rewrites every file of it."""
    records = 100_000 if quick else 1_000_000
    keys = uuid_keys(records, seed=8)
    parts = pa.array([f"p{n % _PARTITIONS}" for n in range(records)])
    rows = with_turn(pa.table({"id": keys, "part": parts, "value": pa.array(np.arange(records)), "note": keys}))
    changed = turns_of(rows.drop_columns(TURN).take(pa.array(np.arange(0, records, 10))))
    with rli.create_table(
        folder / "table", record_key="id", partition_by="part", index=f"lmdb://{folder / 'index'}"
    ) as table:
        table.upsert(rows)
        files = _live_files(table)
        reading = race(table.read, lambda: ds.dataset(files).to_table(columns=rows.column_names))
        upserting = race(lambda: table.upsert(next(changed)), lambda: _rewrite(files, folder / "rewritten"))
    about = f"{records:,} records of five columns in {_PARTITIONS} base files"
    return [
        Outcome("table.read", "pyarrow reading the same files", reading.speed_ratio, None, "higher", about, Unit.SHARE),
        Outcome(
            "table.upsert of a tenth of the keys",
            "pyarrow reading and writing the same files",
            upserting.speed_ratio,
            None,
            "higher",
            f"{about}; ours includes look-ups, merge, bloom filters, journal, commit and index",
            Unit.SHARE,
        ),
    ]


def _live_files(table: rli.Table) -> list[Path]:
    """The base files that are the table now, none of which an upsert removes."""
    return [Path(file) for file in table.scan().files()]


def _rewrite(files: list[Path], folder: Path) -> None:
    """Read and write the files, as many at once as there are cores."""
    folder.mkdir(exist_ok=True)
    with ThreadPoolExecutor(pa.cpu_count()) as threads:
        for _ in threads.map(
            lambda file: pq.write_table(pq.read_table(file), folder / file.name, compression="zstd"), files
        ):
            pass
