"""The changes of one commit, against reading the table, and against the same after few commits."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

import rli
from benchmarks.measuring import Outcome, race

_PARTITIONS: Final = 20
_CHANGED: Final = 500
"""Records of each commit, all of one partition."""

_ROUNDS: Final = 9


def run(folder: Path, *, quick: bool) -> list[Outcome]:
    """Measure the changes of the last commit of a table; the quick form has fewer records and commits."""
    records, commits = (100_000, 40) if quick else (2_000_000, 1_000)
    few, many = (_table(folder / f"{count}", records, count) for count in (2, commits))
    about = f"{_CHANGED:,} of {records:,} records updated, in one of {_PARTITIONS} partitions"
    with few, many:
        of_many, of_few = _Changes(many), _Changes(few)
        beside_read = race(of_many, many.read, _ROUNDS)
        beside_few = race(of_many, of_few, _ROUNDS)
    milliseconds = 1_000 * float(np.median(beside_read.ours))
    return [
        Outcome(
            "changes of one commit: times as fast",
            "table.read",
            beside_read.speed_ratio,
            None,
            "higher",
            f"{about}; {milliseconds:,.1f} ms against {1_000 * float(np.median(beside_read.baseline)):,.1f} ms",
        ),
        Outcome(
            f"changes of one commit after {commits:,}: times the time",
            "after 2 commits",
            1 / beside_few.speed_ratio,
            None,
            "lower",
            f"{about}; nothing was cleaned or archived",
        ),
    ]


class _Changes:
    """Reads the changes of the last commit of a table."""

    def __init__(self, table: rli.Table) -> None:
        self._table = table
        self._since = table.history()[-2].time

    def __call__(self) -> pa.Table:
        found = self._table.changes(since=self._since).read_all()
        if found.num_rows != _CHANGED:
            raise RuntimeError(f"the changes are not those of the commit: rows={found.num_rows}")
        return found


def _table(path: Path, records: int, commits: int) -> rli.Table:
    table = rli.create_table(
        path,
        record_key="id",
        partition_by="part",
        ordering="ts",
        index=f"lmdb://{path}-index",
        durability="os",
        maintenance=False,
    )
    numbers = np.arange(records)
    rows = pa.table(
        {
            "id": numbers,
            "part": pa.array([f"p{number}" for number in range(_PARTITIONS)]).take(pa.array(numbers % _PARTITIONS)),
            "ts": np.zeros(records, np.int64),
            "fare": np.random.default_rng(1).random(records),
        }
    )
    table.upsert(rows)
    for commit in range(1, commits):
        chosen = numbers[commit % _PARTITIONS :: _PARTITIONS][:_CHANGED]
        some = rows.take(pa.array(chosen))
        table.upsert(some.set_column(2, "ts", pa.array(np.full(len(some), commit))))
    return table
