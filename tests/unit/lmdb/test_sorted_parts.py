"""LMDB gets the entries of a large batch sorted, each of them once, whatever shards they are in."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from rli.store import EncodedKeys
from rli_lmdb.sorted_parts import sorted_parts

KEYS = 600_000


@pytest.mark.parametrize(
    "shards",
    [
        pytest.param(lambda random: random.integers(0, 64, KEYS), id="spread"),
        pytest.param(lambda random: random.integers(0, 2, KEYS) * 65_535, id="the first and the last"),
        pytest.param(lambda random: np.where(random.random(KEYS) < 0.9, 7, random.integers(0, 64, KEYS)), id="skewed"),
        pytest.param(lambda _: np.full(KEYS, 5), id="one"),
        pytest.param(lambda _: np.arange(1), id="one key"),
        pytest.param(lambda _: np.arange(0), id="none"),
    ],
)
def test_parts_join_to_sorted_batch(shards: Callable[[np.random.Generator], NDArray[np.int64]]) -> None:
    random = np.random.default_rng(3)
    of_keys = shards(random).astype(np.uint16)
    keys = EncodedKeys(np.frombuffer(random.bytes(len(of_keys) * 8), dtype="V8"), of_keys)
    entries = np.arange(1, len(keys) + 1, dtype=np.uint64)
    parts = list(sorted_parts(keys, entries))
    order = keys.sort_order()
    assert b"".join(part.keys.tobytes() for part, _ in parts) == keys.keys[order].tobytes()
    assert np.array_equal(np.concatenate([part.shards for part, _ in parts] or [of_keys]), of_keys[order])
    assert np.array_equal(np.concatenate([newest for _, newest in parts] or [entries]), entries[order])


def test_shards_are_never_divided_between_parts() -> None:
    random = np.random.default_rng(4)
    keys = EncodedKeys(
        np.frombuffer(random.bytes(KEYS * 8), dtype="V8"), random.integers(0, 64, KEYS).astype(np.uint16)
    )
    of_parts = [set(part.shards.tolist()) for part, _ in sorted_parts(keys, np.ones(KEYS, dtype=np.uint64))]
    assert len(of_parts) > 1
    assert sum(map(len, of_parts)) == len(set.union(*of_parts))
