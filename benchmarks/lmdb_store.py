"""The embedded store against LMDB's own batched get and put of the same keys."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.keys import half_known, uuid_keys
from benchmarks.measuring import Outcome, Unit, race
from benchmarks.raw_lmdb import RawLmdb, encoded
from rli.codec import entries as codec
from tests.support.stored_indexes import create_index

_BATCH = 65_536


def run(folder: Path, *, quick: bool) -> list[Outcome]:
    """Measure look-ups of sorted batches, half of them hits, and a bulk load."""
    entries, looked_up = (200_000, _BATCH) if quick else (2_000_000, 4 * _BATCH)
    keys = uuid_keys(entries, seed=1)
    values = codec.pack(1, np.zeros(entries, dtype=np.uint64))
    return [_look_ups(folder, keys, values, looked_up), _bulk_load(folder, keys, values)]


def _look_ups(folder: Path, keys: pa.Array, values: codec.Entries, looked_up: int) -> Outcome:
    with create_index(f"lmdb://{folder / 'ours'}") as index, RawLmdb(folder / "raw") as raw:
        index.put(keys, values)
        raw.load(encoded(keys), values)
        wanted = half_known(keys, looked_up, seed=2)
        batches = [wanted.slice(start, _BATCH) for start in range(0, looked_up, _BATCH)]
        raw_batches: list[list[bytes]] = [encoded(batch).tolist() for batch in batches]
        pair = race(lambda: [index.get(batch) for batch in batches], lambda: [raw.get(batch) for batch in raw_batches])
    return Outcome(
        "LMDB look-ups, keys to entries",
        "raw cursor.getmulti of the same 16-byte keys",
        pair.speed_ratio,
        0.60,
        "higher",
        f"{len(keys):,} entries, batches of {_BATCH:,} UUID keys, half of them hits; ours includes encoding, "
        "sharding, sorting and decoding, the baseline sorting",
        Unit.SHARE,
    )


def _bulk_load(folder: Path, keys: pa.Array, values: codec.Entries) -> Outcome:
    """Both load into an index of their own in each round."""
    numbers = count()

    def ours() -> None:
        with create_index(f"lmdb://{folder / f'ours-{next(numbers)}'}") as index:
            index.put(keys, values)

    def baseline() -> None:
        with RawLmdb(folder / f"raw-{next(numbers)}") as raw:
            raw.load(encoded(keys), values)

    return Outcome(
        "LMDB bulk load",
        "raw cursor.putmulti of the same sorted 16-byte keys",
        race(ours, baseline, rounds=3).speed_ratio,
        None,
        "higher",
        f"{len(keys):,} UUID keys into an empty index; both include encoding and sorting",
        Unit.SHARE,
    )
