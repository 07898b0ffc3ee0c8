"""The rows that every engine is given, and what each must hold after them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.keys import uuid_keys
from benchmarks.routes import route_commits

PARTITIONS: Final = 20
"""A number that suits every engine: each partition is one base file at first."""

UPDATED: Final = 0.10
"""Of the rows loaded at first, in each batch; as many are inserted."""

MOVED: Final = 0.01
"""The same, of records whose partition changes."""

DELETED: Final = 0.01
"""The same, of records that a delete removes after the upsert."""

_DAYS = 30
"""In a batch of the real stream."""

_CHUNK: Final = 1_000_000
"""Rows that are Python's objects at a time."""

_LOOKED_UP = 10
"""Known keys; as many unknown ones are sought with them."""


@dataclass(frozen=True, slots=True)
class State:
    """What a table holds if it is right.

    Attributes:
        rows: their number, which is that of the distinct keys too.
        checksum: the sum over all rows of the CRC-32 of ``id|part|version``.
    """

    rows: int
    checksum: int


@dataclass(frozen=True, slots=True)
class Batch:
    """One change of the table.

    Attributes:
        upserts: a Parquet file of rows; shares of the table updated, inserted and moved.
        deletes: a Parquet file of rows of a hundredth of the keys, whole, because some engines need more than the key.
        looked_up: some keys.
        known: how many of those are in the table afterwards.
        after: what the table holds afterwards.
    """

    upserts: Path
    deletes: Path
    looked_up: tuple[str, ...]
    known: int
    after: State


@dataclass(frozen=True, slots=True)
class Workload:
    """A load and the batches that follow it.

    Attributes:
        rows: how many are loaded.
        load: a Parquet file.
        batches: in order.
    """

    rows: int
    load: Path
    batches: tuple[Batch, ...]


def make_workload(
    folder: Path,
    name: str,
    rows: int,
    batches: int,
    *,
    updated_shares: Sequence[float] = (UPDATED,),
    moved_share: float = MOVED,
    deleted_share: float = DELETED,
    inserts: bool = True,
) -> Workload:
    """Write the files of a workload; the same in every run.

    Args:
        folder: for the files.
        name: of the workload, with which the files' names begin.
        rows: of the load.
        batches: how many.
        updated_shares: of the rows, in the first batch, in the second one, and so on, again and again.
        moved_share: of the rows, in each batch; 0 for engines whose keys are unique in a partition only.
        deleted_share: the same; 0 if nothing but upserts is to be played.
        inserts: whether as many are inserted as updated.
    """
    random = np.random.default_rng(1)
    keys = uuid_keys(rows, seed=1)
    parts = np.arange(rows) % PARTITIONS
    versions = np.zeros(rows, dtype=np.int64)
    load = folder / f"{name}-load.parquet"
    _write(load, keys, parts, version=0, seed=2)
    made: list[Batch] = []
    for number, share in zip(range(1, batches + 1), cycle(updated_shares), strict=False):
        updated, moved, deleted = np.split(
            random.permutation(len(keys))[: int(rows * (share + moved_share + deleted_share))],
            [int(rows * share), int(rows * (share + moved_share))],
        )
        parts[moved] = (parts[moved] + 1) % PARTITIONS
        changed = np.concatenate([updated, moved])
        inserted = int(rows * share) if inserts else 0
        new_keys = uuid_keys(inserted, seed=100 + number)
        new_parts = np.arange(inserted) % PARTITIONS
        upserts, deletes = (folder / f"{name}-{kind}-{number}.parquet" for kind in ("upserts", "deletes"))
        shuffled = random.permutation(len(changed) + inserted)
        _write(
            upserts,
            pa.concat_arrays([keys.take(pa.array(changed)), new_keys]).take(pa.array(shuffled)),
            np.concatenate([parts[changed], new_parts])[shuffled],
            version=number,
            seed=200 + number,
        )
        _write(deletes, keys.take(pa.array(deleted)), parts[deleted], version=number, seed=300 + number)
        versions[changed] = number
        kept = np.delete(np.arange(len(keys)), deleted)
        keys = pa.concat_arrays([keys.take(pa.array(kept)), new_keys])
        parts = np.concatenate([parts[kept], new_parts])
        versions = np.concatenate([versions[kept], np.full(inserted, number)])
        known = keys.take(pa.array(random.choice(len(keys), _LOOKED_UP, replace=False))).to_pylist()
        looked_up = (*known, *uuid_keys(_LOOKED_UP, seed=400 + number).to_pylist())
        made.append(
            Batch(
                upserts,
                deletes,
                looked_up,
                _LOOKED_UP,
                _state_of(keys, parts, versions),
            )
        )
    return Workload(rows, load, tuple(made))


def make_stream(folder: Path, batches: int, most: int | None = None) -> Workload:
    """Write the files of the real change stream's first months; each of them inserts, updates, moves and deletes.

    Args:
        folder: for the files.
        batches: how many months.
        most: rows of the load, and of each month; all by default.
    """
    first, *months = islice(route_commits(_DAYS), batches + 1)
    load = folder / "stream-load.parquet"
    live = _write_routes(load, first.routes.slice(0, most))
    made: list[Batch] = []
    for number, month in enumerate(months, start=1):
        upserts, deletes = folder / f"stream-upserts-{number}.parquet", folder / f"stream-deletes-{number}.parquet"
        live |= _write_routes(upserts, month.routes.slice(0, most))
        # Some came and went within the month.
        gone = [live.pop(key) for key in month.gone.to_pylist() if key in live]
        pq.write_table(pa.Table.from_pylist(gone, schema=pq.read_schema(upserts)), deletes)
        known = month.routes["callsign"].slice(0, _LOOKED_UP).to_pylist()
        looked_up = (*known, *(row["id"] for row in gone[:_LOOKED_UP]))
        after = _state(live, (row["part"] for row in live.values()), (row["version"] for row in live.values()))
        made.append(Batch(upserts, deletes, looked_up, len(known), after))
    return Workload(min(len(first.routes), most or len(first.routes)), load, tuple(made))


def _write_routes(path: Path, routes: pa.Table) -> dict[str, dict[str, Any]]:
    """Write routes with the columns of a workload; the rows by key."""
    days = routes["batch"].cast(pa.int64())
    rows = pa.table(
        {
            "id": routes["callsign"],
            "part": routes["region"],
            "ts": days,
            "version": days,
            "airports": routes["airports"],
        }
    )
    pq.write_table(rows, path)
    return {row["id"]: row for row in rows.to_pylist()}


def _write(path: Path, keys: pa.Array, parts: np.ndarray, *, version: int, seed: int) -> None:
    count = len(keys)
    random = np.random.default_rng(seed)
    pq.write_table(
        pa.table(
            {
                "id": keys,
                "part": _names(parts),
                "ts": pa.array(np.full(count, version, dtype=np.int64)),
                "version": pa.array(np.full(count, version, dtype=np.int64)),
                "amount": pa.array(random.random(count)),
                "quantity": pa.array(random.integers(0, 1_000, count)),
                "note": uuid_keys(count, seed + 1_000),
            }
        ),
        path,
    )


def _names(parts: np.ndarray) -> pa.Array:
    """Partitions by number."""
    return pa.array([f"p{part:02}" for part in range(PARTITIONS)]).take(pa.array(parts))


def _state_of(keys: pa.Array, parts: np.ndarray, versions: np.ndarray) -> State:
    """The state of rows in columns."""
    slices = (slice(start, start + _CHUNK) for start in range(0, len(keys), _CHUNK))
    states = [
        _state(keys[some].to_pylist(), _names(parts[some]).to_pylist(), versions[some].tolist()) for some in slices
    ]
    return State(sum(state.rows for state in states), sum(state.checksum for state in states))


def _state(keys: Collection[str], parts: Iterable[str], versions: Iterable[int]) -> State:
    checksums = (
        crc32(f"{key}|{part}|{version}".encode()) for key, part, version in zip(keys, parts, versions, strict=True)
    )
    return State(len(keys), sum(checksums))
