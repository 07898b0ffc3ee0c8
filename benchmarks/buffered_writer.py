"""Rows of a service: a buffered writer that takes dicts one by one, against one upsert of the same rows as an Arrow table.

Also the same rows by four threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

import rli
from benchmarks.measuring import Outcome

SCHEMA: Final = pa.schema(
    [("id", pa.string()), ("city", pa.string()), ("ts", pa.int64()), ("fare", pa.float64()), ("note", pa.string())]
)
_PARTITIONS: Final = 8
_THREADS: Final = 4
_GOAL: Final = 50_000.0
"""Rows a second."""

Row = dict[str, Any]


def run(folder: Path, *, quick: bool) -> list[Outcome]:
    """Measure rows a second from one process, dicts to commits."""
    rows = _rows(50_000 if quick else 1_000_000)
    whole = _seconds(folder / "whole", rows, _upserted_whole)
    by_one = _seconds(folder / "one", rows, _written)
    by_threads = _seconds(folder / "threads", rows, _written_by_threads)
    about = f"{len(rows):,} dicts with {len(SCHEMA)} columns, inserted into {_PARTITIONS} partitions"
    rates = ", ".join(
        f"{name}: {len(rows) / seconds:,.0f} rows/s"
        for name, seconds in (("writer", by_one), ("four threads", by_threads), ("one upsert of a table", whole))
    )
    goal = None if quick else 1.0
    return [
        Outcome(
            "buffered writer", "50,000 rows a second", len(rows) / by_one / _GOAL, goal, "higher", f"{about}; {rates}"
        ),
        Outcome(
            "rows of a buffered writer",
            "one upsert of an Arrow table",
            whole / by_one,
            None,
            "higher",
            f"{about}; {rates}",
        ),
        Outcome(
            "rows of four threads",
            "one upsert of an Arrow table",
            whole / by_threads,
            None,
            "higher",
            f"{about}; {rates}",
        ),
    ]


def _rows(count: int) -> list[Row]:
    return [
        {"id": f"k{number:08}", "city": f"c{number % _PARTITIONS}", "ts": number, "fare": number / 2, "note": "n" * 20}
        for number in range(count)
    ]


def _seconds(folder: Path, rows: list[Row], write: Callable[[rli.Table, list[Row]], object]) -> float:
    with rli.create_table(
        folder, record_key="id", partition_by="city", ordering="ts", index=f"lmdb://{folder}-index", maintenance=False
    ) as table:
        begun = time.perf_counter()
        write(table, rows)
        seconds = time.perf_counter() - begun
        if table.read(columns=["id"]).num_rows != len(rows):
            raise AssertionError("the table lacks rows")
    return seconds


def _upserted_whole(table: rli.Table, rows: list[Row]) -> None:
    table.upsert(pa.Table.from_pylist(rows, schema=SCHEMA))


def _written(table: rli.Table, rows: list[Row]) -> None:
    with table.writer(schema=SCHEMA, transaction="benchmark") as writer:
        for offset, row in enumerate(rows):
            writer.write(row, metadata={"offset": str(offset)} if offset % 1_000 == 0 else None)


def _written_by_threads(table: rli.Table, rows: list[Row]) -> None:
    with table.writer(schema=SCHEMA, transaction="benchmark") as writer, ThreadPoolExecutor(_THREADS) as threads:

        def write(thread: int) -> None:
            for row in rows[thread::_THREADS]:
                writer.write(row)

        list(threads.map(write, range(_THREADS)))
