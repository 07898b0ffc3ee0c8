"""The embedded store against LMDB's own batched get and put of the same keys."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import lmdb
import numpy as np
import pyarrow as pa

import rli
from benchmarks.keys import half_known, uuid_keys
from benchmarks.measuring import Outcome, Unit, race
from rli.codec import entries as codec
from rli.codec.record_keys import encode

_BATCH = 65_536


def run(folder: Path, *, quick: bool) -> list[Outcome]:
    """Measure look-ups of sorted batches, half of them hits, and a bulk load."""
    entries, looked_up = (200_000, _BATCH) if quick else (2_000_000, 4 * _BATCH)
    keys = uuid_keys(entries, seed=1)
    values = codec.pack(1, np.zeros(entries, dtype=np.uint64))
    return [_look_ups(folder, keys, values, looked_up), _bulk_load(folder, keys, values)]


def _look_ups(folder: Path, keys: pa.Array, values: codec.Entries, looked_up: int) -> Outcome:
    with rli.create_index(f"lmdb://{folder / 'ours'}") as index, _raw(folder / "raw") as raw:
        index.put(keys, values)
        _fill_raw(raw, keys, values)
        wanted = half_known(keys, looked_up, seed=2)
        batches = [wanted.slice(start, _BATCH) for start in range(0, looked_up, _BATCH)]
        raw_batches = [_encoded(batch) for batch in batches]
        pair = race(lambda: [index.get(batch) for batch in batches], lambda: [_raw_get(raw, b) for b in raw_batches])
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
        with rli.create_index(f"lmdb://{folder / f'ours-{next(numbers)}'}") as index:
            index.put(keys, values)

    def baseline() -> None:
        with _raw(folder / f"raw-{next(numbers)}") as raw:
            _fill_raw(raw, keys, values)

    return Outcome(
        "LMDB bulk load",
        "raw cursor.putmulti of the same sorted 16-byte keys",
        race(ours, baseline, rounds=3).speed_ratio,
        None,
        "higher",
        f"{len(keys):,} UUID keys into an empty index; both include encoding and sorting",
        Unit.SHARE,
    )


def _raw(folder: Path) -> lmdb.Environment:
    return lmdb.open(str(folder), map_size=1 << 32)


def _fill_raw(raw: lmdb.Environment, keys: pa.Array, values: codec.Entries) -> None:
    big_endian = values.astype(">u8").view("V8").tolist()
    items = zip(_encoded(keys), big_endian, strict=True)
    with raw.begin(write=True) as transaction, transaction.cursor() as cursor:
        cursor.putmulti(sorted(items), append=True)


def _encoded(keys: pa.Array) -> list[bytes]:
    """The keys as the codec writes them: what a raw LMDB user would write by hand."""
    ((_, encoded),) = encode(keys)
    items: list[bytes] = encoded.tolist()
    return items


def _raw_get(raw: lmdb.Environment, batch: list[bytes]) -> list[tuple[bytes, bytes]]:
    with raw.begin() as transaction, transaction.cursor() as cursor:
        found: list[tuple[bytes, bytes]] = cursor.getmulti(sorted(batch))
    return found
