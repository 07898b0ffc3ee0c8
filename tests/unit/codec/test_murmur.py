"""The hashes of whole arrays are those of each item."""

from __future__ import annotations

import mmh3
import numpy as np
import pytest

from rli.codec.murmur import murmur3


@pytest.mark.parametrize("width", [1, 2, 3, 4, 5, 16, 17, 23, 64, 65])
def test_hashes_are_those_of_each_item(width: int) -> None:
    content = np.random.default_rng(width).bytes(width * 3_000)
    items = np.frombuffer(content, f"V{width}")
    for seed in (0, 0x7461736B, 0xFFFFFFFF):
        expected = [mmh3.hash(item, seed, signed=False) for item in items.tolist()]
        assert murmur3(items, seed).tolist() == expected
        assert murmur3(items[:3], seed).tolist() == expected[:3]
