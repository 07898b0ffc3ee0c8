"""A merge-on-read table beside a copy-on-write table of the same records: small batches, bytes written, reads, compaction.

``python -m benchmarks.table_types FOLDER [RECORDS]`` measures larger tables, of 20 million records by default.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

import rli
from benchmarks.keys import uuid_keys
from benchmarks.measuring import Outcome, Unit, race, seconds
from rli import CommitResult, Maintenance, TableType

_PARTITIONS: Final = 8
_COLUMNS: Final = 6
"""Beside key, partition, ordering column and a string."""

_ROUNDS: Final = 10
_TEXT: Final = "a string of some length, number "


def run(folder: Path, *, quick: bool) -> list[Outcome]:
    """Measure tables of two million records."""
    return measure(folder, 20_000 if quick else 2_000_000)


def measure(folder: Path, records: int) -> list[Outcome]:
    """Upserts and deletes of 1 % random keys, reads after ten of them, and the compaction.

    Args:
        folder: of the tables.
        records: of each table.
    """
    keys = uuid_keys(records, seed=0)
    rewriting, appending, compacted = (
        filled(folder / name, keys, table_type, Maintenance.off())
        for name, table_type in (
            ("rewriting", TableType.COPY_ON_WRITE),
            ("appending", TableType.MERGE_ON_READ),
            ("compacted", TableType.MERGE_ON_READ),
        )
    )
    batches = [batch_of(keys, records // 100, number) for number in range(_ROUNDS + 1)]
    about = f"{records:,} records of {4 + _COLUMNS} columns, batches of {records // 100:,} random keys, {_ROUNDS} rounds in turn"
    outcomes = _raced("upsert", appending, rewriting, [*map(_upsert, batches)], about)
    for batch in batches:
        compacted.upsert(batch)
    compaction = seconds(compacted.compact)
    outcomes += _reads(appending, compacted, keys, about)
    outcomes.append(
        Outcome(
            "compaction of ten such batches",
            "ten upserts of the copy-on-write table",
            compaction / sum(_took(rewriting)[-_ROUNDS:]),
            None,
            "lower",
            f"{about}; {compaction:.2f} s",
        )
    )
    gone = [batch_of(keys, records // 100, 100 + number).column("id") for number in range(_ROUNDS + 1)]
    return outcomes + _raced("delete", appending, rewriting, [*map(_delete, gone)], about)


Write = Callable[[rli.Table], CommitResult]


def _upsert(batch: pa.Table) -> Write:
    return lambda table: table.upsert(batch)


def _delete(keys: pa.ChunkedArray) -> Write:
    return lambda table: table.delete(keys)


def _raced(verb: str, appending: rli.Table, rewriting: rli.Table, writes: Sequence[Write], about: str) -> list[Outcome]:
    """The times of the same writes of both tables, and the bytes that they wrote."""
    ours, theirs = iter(writes), iter(writes)
    written = {appending: 0, rewriting: 0}

    def write(table: rli.Table, one: Write) -> None:
        written[table] += one(table).written_bytes

    pair = race(lambda: write(appending, next(ours)), lambda: write(rewriting, next(theirs)), rounds=len(writes) - 1)
    medians = [float(np.median(taken)) for taken in (pair.ours, pair.baseline)]
    return [
        Outcome(
            f"{verb} of 1 % random keys",
            "the same of a copy-on-write table",
            pair.speed_ratio,
            5.0,
            "higher",
            f"{about}; {medians[0]:.2f} s against {medians[1]:.2f} s",
        ),
        Outcome(
            f"bytes written by the {verb}",
            "the same of a copy-on-write table",
            written[appending] / written[rewriting],
            None,
            "lower",
            f"{about}; {written[appending] / len(writes):,.0f} against {written[rewriting] / len(writes):,.0f} bytes a batch",
            Unit.SHARE,
        ),
    ]


def _took(table: rli.Table) -> list[float]:
    """Seconds of each write of a table, the oldest first."""
    return [entry.seconds or 0.0 for entry in reversed(table.history())]


def _reads(deep: rli.Table, compacted: rli.Table, keys: pa.Array, about: str) -> list[Outcome]:
    """A scan and point reads of a table with log files, beside the same table without."""
    if deep.read(["id"]).num_rows != compacted.read(["id"]).num_rows:
        raise RuntimeError("the tables hold other records")
    asked = [keys.take(pa.array(np.random.default_rng(number).choice(len(keys), 10))) for number in range(12)]
    ours, theirs = iter(asked), iter(asked)
    scan = race(deep.read, compacted.read, rounds=5)
    point = race(lambda: deep.get(next(ours)), lambda: compacted.get(next(theirs)), rounds=len(asked) - 1)
    return [
        Outcome("scan after ten batches", "a compacted table", scan.time_ratio, 1.3, "lower", about),
        Outcome(
            "point reads after ten batches", "a compacted table", point.time_ratio, 2.0, "lower", f"{about}; 10 keys"
        ),
    ]


def filled(folder: Path, keys: pa.Array, table_type: TableType, maintenance: Maintenance) -> rli.Table:
    """A table with a record for each key, and an index in LMDB.

    Args:
        folder: for both.
        keys: of the records.
        table_type: of the table.
        maintenance: of the table.
    """
    table = empty_table(folder, table_type, maintenance, index=f"lmdb://{folder}/index")
    table.insert(first_records(keys))
    return table


def empty_table(folder: Path, table_type: TableType, maintenance: Maintenance, *, index: str) -> rli.Table:
    """A table for records of ten columns, without records yet.

    Args:
        folder: of the table.
        table_type: of the table.
        maintenance: of the table.
        index: of the table.
    """
    return rli.create_table(
        folder / "table",
        record_key="id",
        partition_by="part",
        ordering="ts",
        index=index,
        table_type=table_type,
        maintenance=maintenance,
    )


def first_records(keys: pa.Array) -> pa.Table:
    """A record of ten columns for each key."""
    return _records(keys, np.arange(len(keys)), 0)


def batch_of(keys: pa.Array, count: int, number: int) -> pa.Table:
    """New versions of some random records.

    Args:
        keys: of the table's records.
        count: of the versions.
        number: of the batch, which a greater one follows.
    """
    rows = np.random.default_rng(number + 1).choice(len(keys), count, replace=False)
    return _records(keys.take(pa.array(rows)), rows, number + 1)


def _records(keys: pa.Array, rows: np.ndarray, version: int) -> pa.Table:
    """Records that stay in their partitions, of ten columns."""
    columns = {f"c{number}": rows * (number + 3) + version for number in range(_COLUMNS)}
    texts = pa.array([f"{_TEXT}{row}" for row in rows])
    parts = pa.array(rows % _PARTITIONS).cast(pa.string())
    return pa.table({"id": keys, "part": parts, "ts": np.full(len(rows), version), "text": texts, **columns})


if __name__ == "__main__":
    for outcome in measure(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 20_000_000):
        print(f"{outcome.name}: {outcome.figure} ({outcome.details})", flush=True)
