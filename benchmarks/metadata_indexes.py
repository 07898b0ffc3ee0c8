"""Look-ups by the indexes in Hudi's metadata table, in plain Python: its record index beside stores, its statistics beside footers."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

import rli
from benchmarks.keys import uuid_keys
from benchmarks.measuring import Outcome, race
from tests.support.redis import running_redis

_PARTITIONS: Final = 100
_COMMITS: Final = 5
"""Behind the load, of a thousandth of its records: their entries are in log files of the metadata table."""

_RECORD_INDEX: Final = "record-index:"
_BLOOM: Final = "global-bloom:"
_STATISTICS: Final = ("files", "column_stats", "bloom_filters")


def run(folder: Path, *, quick: bool) -> list[Outcome]:
    """Measure look-ups of 1, 1,000 and 100,000 keys, known and new ones."""
    keys = uuid_keys(50_000 if quick else 1_000_000, seed=7)
    with ExitStack() as stack:
        address = stack.enter_context(running_redis())
        tables = {
            name: stack.enter_context(_table(folder / name, url, metadata, keys))
            for name, url, metadata in (
                ("record-index", _RECORD_INDEX, ()),
                ("LMDB", f"lmdb://{folder}/index", ()),
                ("Redis", f"redis://{address}/0?name=benchmark", ()),
                ("bloom by the metadata table", _BLOOM, _STATISTICS),
                ("bloom by footers", _BLOOM, ()),
            )
        }
        return [*_record_indexes(tables, keys), *_blooms(folder, keys)]


def _record_indexes(tables: Mapping[str, rli.Table], keys: pa.Array) -> list[Outcome]:
    """Look-ups of handles that are open; each of them loads the timeline, as stores' look-ups do."""
    chances = np.random.default_rng(3)
    outcomes = []
    for count in (1, 1_000, 100_000):
        chosen = keys.take(pa.array(chances.choice(len(keys), min(count, len(keys) // 2), replace=False)))
        for store in ("LMDB", "Redis"):
            pair = race(partial(tables["record-index"].lookup, chosen), partial(tables[store].lookup, chosen))
            outcomes.append(
                Outcome(
                    f"look-up of {count:,} keys, {_RECORD_INDEX}",
                    f"record index in {store}",
                    pair.time_ratio,
                    None,
                    "lower",
                    f"{1_000 * min(pair.ours):.1f} ms against {1_000 * min(pair.baseline):.1f} ms, of {len(keys):,} keys",
                )
            )
    return outcomes


def _blooms(folder: Path, keys: pa.Array) -> list[Outcome]:
    """The first look-up of a handle, which knows no file yet."""
    some = {"known": keys.slice(0, 1_000), "new": uuid_keys(1_000, seed=8)}
    outcomes = []
    for name, sought in some.items():

        def looked_up(table: str, sought: pa.Array = sought) -> None:
            with rli.open_table(folder / table) as opened:
                opened.lookup(sought)

        pair = race(partial(looked_up, "bloom by the metadata table"), partial(looked_up, "bloom by footers"))
        outcomes.append(
            Outcome(
                f"first look-up of 1,000 {name} keys, {_BLOOM} by the metadata table",
                "by footers",
                pair.time_ratio,
                None,
                "lower",
                f"{1_000 * min(pair.ours):.0f} ms against {1_000 * min(pair.baseline):.0f} ms, {_PARTITIONS} files on a local disk",
            )
        )
    return outcomes


def _table(folder: Path, url: str, metadata: tuple[str, ...], keys: pa.Array) -> rli.Table:
    """A table with all keys, loaded by one commit and changed by some."""
    table = rli.create_table(
        folder, record_key="id", partition_by="part", ordering="ts", index=url, metadata=metadata or "none"
    )
    table.upsert(_rows(keys, 0))
    for number in range(_COMMITS):
        table.upsert(_rows(uuid_keys(len(keys) // 1_000, seed=100 + number), number + 1))
    return table


def _rows(keys: pa.Array, ts: int) -> pa.Table:
    parts = np.arange(len(keys)) % _PARTITIONS
    return pa.table({"id": keys, "part": pa.array(parts).cast(pa.string()), "ts": pa.array(np.full(len(keys), ts))})
