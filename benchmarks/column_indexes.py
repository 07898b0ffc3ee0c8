"""Indexes on columns in plain Python: look-ups of values beside full scans, what a commit pays for them, and how fast they are built."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import rli
from benchmarks.keys import uuid_keys
from benchmarks.measuring import Outcome, Unit, race

_PARTITIONS: Final = 50
_HOURS: Final = 24
_SECONDS: Final = 3_600
_VALUES: Final = 100
_BUILT_A_SECOND: Final = 1_000_000
_UPKEEP: Final = 1.15

_INDEXES: Final[dict[str, dict[str, Any]]] = {
    "secondary, in LMDB": {"on": "email"},
    "column_stats": {"on": "amount", "using": "column_stats"},
    "bloom_filters": {"on": "email", "using": "bloom_filters"},
    "hour(at)": {"on": "at", "expression": "hour(at)"},
}


def run(folder: Path, *, quick: bool) -> list[Outcome]:
    """Measure a table of two million records in 50 files; commits change a hundredth of it."""
    rows = 20_000 if quick else 2_000_000
    keys = uuid_keys(rows, seed=7)
    with ExitStack() as stack:
        plain = stack.enter_context(_table(folder / "plain", keys))
        indexed = stack.enter_context(_table(folder / "indexed", keys))
        built = _built(indexed, rows)
        looked_up = _look_ups(indexed, plain, rows)
        skipped = _skipped_hours(folder / "hours", rows)
        return [built, *looked_up, skipped, *_upkeep(folder, keys)]


def _built(table: rli.Table, rows: int) -> Outcome:
    began = time.process_time()
    table.create_index("by_email", on="email")
    taken = time.process_time() - began
    return Outcome(
        "records a second of processor time, build of a secondary index in LMDB",
        "1,000,000",
        rows / taken / _BUILT_A_SECOND,
        1.0,
        "higher",
        f"{rows:,} records in {taken:.1f} s",
    )


def _look_ups(indexed: rli.Table, plain: rli.Table, rows: int) -> list[Outcome]:
    chosen = np.random.default_rng(3).choice(rows, _VALUES, replace=False)
    values = [_email(number) for number in chosen.tolist()]
    found = partial(indexed.get, where={"email": values})
    scanned = partial(_scanned, plain, values)
    if found().num_rows != _VALUES or scanned().num_rows != _VALUES:
        raise AssertionError("the values were not found")
    pair = race(found, scanned, rounds=3)
    return [
        Outcome(
            f"records of {_VALUES} values, secondary index in LMDB",
            "full scan",
            1 / pair.time_ratio,
            100.0,
            "higher",
            f"{1_000 * min(pair.ours):.0f} ms against {1_000 * min(pair.baseline):.0f} ms",
        )
    ]


def _scanned(table: rli.Table, values: list[str]) -> pa.Table:
    """Reads all records, and tests them here: no footer is asked."""
    records = table.read()
    return records.filter(pc.is_in(records["email"], value_set=pa.array(values)))


def _skipped_hours(folder: Path, rows: int) -> Outcome:
    """Each file has records of one hour of many days, so the range of the column tells nothing."""
    hours = np.arange(rows) % _HOURS
    days = np.arange(rows) // _HOURS % 300
    given = {
        "id": uuid_keys(rows, seed=9),
        "hour_of_day": pa.array(hours).cast(pa.string()),
        "ts": _moments(days * _HOURS * _SECONDS + hours * _SECONDS),
    }
    with rli.create_table(folder, record_key="id", partition_by="hour_of_day", ordering="ts") as table:
        table.upsert(pa.table(given))
        table.create_index("by_hour", on="ts", expression="hour(ts)")
        files = table.scan(filters="hour(ts) = 7").explain().files
    left_out = files.pruned[rli.PruningStep.EXPRESSION_INDEX]
    return Outcome(
        "files that an index on hour(ts) skips, for one hour",
        "all files",
        left_out / files.total,
        0.9,
        "higher",
        f"{left_out} of {files.total}; the range of the column skips none",
        Unit.SHARE,
    )


def _upkeep(folder: Path, keys: pa.Array) -> list[Outcome]:
    """The processor time of a commit with one index and without, each in a table of its own.

    Of an index in the metadata table, both tables have the metadata table with its list of files.
    """
    outcomes = []
    for name, given in _INDEXES.items():
        place = folder / name.replace(" ", "-").replace("(", "-").replace(")", "").replace(",", "")
        metadata = ["files"] if "LMDB" not in name else "none"
        with _table(place / "with", keys, metadata) as indexed, _table(place / "without", keys, metadata) as plain:
            indexed.create_index("measured", **given)
            ratio, details = _commits(indexed, plain, keys)
        outcomes.append(
            Outcome(f"commit of 1 % of the records, {name}", "without the index", ratio, _UPKEEP, "lower", details)
        )
    return outcomes


def _commits(indexed: rli.Table, plain: rli.Table, keys: pa.Array, rounds: int = 4) -> tuple[float, str]:
    taken: dict[str, list[float]] = {"with": [], "without": []}
    for number in range(rounds):
        chosen = np.random.default_rng(number).choice(len(keys), len(keys) // 100, replace=False)
        batch = _rows(keys, chosen, number + 1)
        for name, table in (("with", indexed), ("without", plain)):
            taken[name].append(_processor_time(partial(table.upsert, batch)))
    first, second = (min(times[1:]) for times in taken.values())
    return first / second, f"{first:.2f} s against {second:.2f} s of processor time"


def _processor_time(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def _table(folder: Path, keys: pa.Array, metadata: Sequence[str] | str = "none") -> rli.Table:
    table = rli.create_table(
        folder,
        record_key="id",
        partition_by="part",
        ordering="ts",
        index=f"lmdb://{folder}-index",
        maintenance=False,
        metadata=metadata,
    )
    table.upsert(_rows(keys, np.arange(len(keys)), 0))
    return table


def _rows(keys: pa.Array, chosen: np.ndarray, ts: int) -> pa.Table:
    """Records of nine columns: half of the changed records get another address."""
    changed = np.where(chosen % 2 == 0, chosen, chosen + ts * len(keys))
    return pa.table(
        {
            "id": keys.take(pa.array(chosen)),
            "part": pa.array(chosen % _PARTITIONS).cast(pa.string()),
            "ts": pa.array(np.full(len(chosen), ts)),
            "at": _moments(chosen % (_HOURS * _SECONDS)),
            "email": pa.array([_email(number) for number in changed.tolist()]),
            "amount": pa.array(chosen * 0.25),
            "name": pa.array([f"name {number}" for number in (chosen % 9_973).tolist()]),
            "city": pa.array([f"city {number}" for number in (chosen % 101).tolist()]),
            "count": pa.array(chosen % 1_000),
        }
    )


def _moments(seconds: np.ndarray) -> pa.Array:
    return pa.array(seconds * 1_000_000).cast(pa.timestamp("us", "UTC"))


def _email(number: int) -> str:
    return f"user-{number}@example.org"
