"""What an entry costs in the embedded store, free space in its file included."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.keys import uuid_keys
from benchmarks.measuring import Outcome, Unit
from rli.codec import entries as codec
from tests.support.stored_indexes import create_index

_COMMITS = 20


def run(folder: Path, *, quick: bool) -> list[Outcome]:
    """Measure bytes an entry with UUID keys: loaded at once, and grown by many commits."""
    count = 200_000 if quick else 1_000_000
    return [
        _outcome("loaded at once", _size(f"lmdb://{folder / 'loaded'}", count, commits=1), count, 1),
        _outcome("grown by commits", _size(f"lmdb://{folder / 'grown'}", count, _COMMITS), count, _COMMITS),
    ]


def _size(url: str, count: int, commits: int) -> float:
    keys = uuid_keys(count, seed=3)
    part = count // commits
    with create_index(url) as index:
        for number in range(commits):
            entries = codec.pack(number + 1, np.arange(part, dtype=np.uint64) % 100)
            index.put(keys.slice(number * part, part), entries)
        size = index.stats().bytes_per_entry
    if size is None:
        raise RuntimeError("the embedded store did not tell its size")
    return size


def _outcome(name: str, size: float, count: int, commits: int) -> Outcome:
    details = f"{count:,} UUID keys in {commits} commit(s); all bytes of the data file in use or free"
    return Outcome(f"LMDB bytes an entry, {name}", "1 entry", size, 40, "lower", details, Unit.BYTES)
