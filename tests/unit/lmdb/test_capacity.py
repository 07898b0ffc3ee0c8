"""``rli capacity`` says what index files take that were really built."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from rli.store import EncodedKeys, pack
from rli_lmdb import open_lmdb_store
from rli_lmdb.capacity import SHARDS, bytes_per_entry, estimate

ENTRIES = 200_000


def random_keys(count: int, width: int, seed: int) -> EncodedKeys:
    generator = np.random.default_rng(seed)
    keys = np.frombuffer(generator.bytes(count * width), dtype=f"V{width}")
    return EncodedKeys(keys, generator.integers(0, SHARDS, count).astype(np.uint16))


def small_batches(width: int) -> Iterator[EncodedKeys]:
    for seed in range(1, 26):
        yield random_keys(1000, width, seed)


def sizes(folder: Path, batches: Iterator[EncodedKeys]) -> Iterator[tuple[int, float]]:
    """Entries, and bytes of the file for each of them, after each batch."""
    with open_lmdb_store(f"lmdb://{folder}", create=True) as store:
        count = 0
        for sequence, keys in enumerate(batches, 1):
            store.put(keys, pack(sequence, np.arange(len(keys)) % 1000))
            count += len(keys)
            yield count, os.stat(folder / "data.mdb").st_size / count


@pytest.mark.parametrize("width", [5, 16, 37])
def test_bulk_load_matches_its_estimate(tmp_path: Path, width: int) -> None:
    (count, size), *_ = sizes(tmp_path / "index", iter([random_keys(ENTRIES, width, 0)]))
    assert bytes_per_entry(count, width, 1) == pytest.approx(size, rel=0.12)


@pytest.mark.parametrize("width", [5, 16, 37])
def test_index_stays_within_estimate(tmp_path: Path, width: int) -> None:
    """Small batches of random keys behind a bulk load cut full pages in halves, and each replaces many pages."""
    loaded = random_keys(ENTRIES, width, 0)
    found = list(sizes(tmp_path / "index", iter([loaded, *small_batches(width)])))
    shares = [size / estimate(count, width).bytes_per_entry for count, size in found]
    assert 0.75 < max(shares) < 1.03


def test_growing_index_stays_within_estimate(tmp_path: Path) -> None:
    *_, (count, size) = sizes(tmp_path / "index", (random_keys(1000, 16, seed) for seed in range(50)))
    assert 0.7 < size / estimate(count, 16).bytes_per_entry < 1.03


@pytest.mark.parametrize("width", [1, 16, 503, 504, 5000, 65_536])
@pytest.mark.parametrize("entries", [1, 100, 10**6, 10**10])
def test_every_size_has_an_estimate(entries: int, width: int) -> None:
    assert estimate(entries, width).bytes_per_entry > width + 8
