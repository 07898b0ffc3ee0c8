"""Record keys for benchmarks: the same ones in every run."""

from __future__ import annotations

from binascii import hexlify

import numpy as np
import pyarrow as pa

_GROUPS = ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32))
"""Of a UUID's hexadecimal digits; a hyphen is between two."""


def uuid_keys(count: int, seed: int) -> pa.StringArray:
    """Random canonical UUIDs, shape (count,)."""
    digits = np.frombuffer(hexlify(np.random.default_rng(seed).bytes(16 * count)), dtype=np.uint8).reshape(count, 32)
    text = np.full((count, 36), ord("-"), dtype=np.uint8)
    for hyphens, (start, end) in enumerate(_GROUPS):
        text[:, start + hyphens : end + hyphens] = digits[:, start:end]
    offsets = np.arange(0, (count + 1) * 36, 36, dtype=np.int32)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(text))


def half_known(known: pa.Array, count: int, seed: int) -> pa.Array:
    """Keys of which every other is known, in random order, shape (count,)."""
    rng = np.random.default_rng(seed)
    chosen = known.take(pa.array(rng.choice(len(known), count // 2, replace=False)))
    both = pa.concat_arrays([chosen, uuid_keys(count - count // 2, seed + 1)])
    return both.take(pa.array(rng.permutation(count)))


def sequential_keys(count: int) -> pa.StringArray:
    """The integers from 0 as text, shape (count,)."""
    return pa.array(np.arange(count)).cast(pa.string())


def skewed(known: pa.Array, count: int, seed: int) -> pa.Array:
    """Known keys as a stream of events asks for them: few of them very often (Zipf's law), shape (count,)."""
    ranks = np.random.default_rng(seed).zipf(1.3, count) % len(known)
    return known.take(pa.array(ranks))
