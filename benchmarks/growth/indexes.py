"""Look-ups in indexes that grow, in batches of several sizes, of keys of several kinds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from benchmarks.keys import half_known, sequential_keys, skewed, uuid_keys
from benchmarks.measuring import Outcome, Unit, cost_apart, race
from benchmarks.raw_lmdb import RawLmdb, encoded
from rli.codec import entries as codec
from rli.index.record.stored_index import StoredIndex
from tests.support.stored_indexes import create_index, open_index

_LOOKED_UP: Final = 262_144
_BATCHES: Final = (1_000, 10_000, 100_000)
_PUT: Final = 5_000_000
_SCANNED: Final = 65_536
"""Entries at once."""

_ABOUT: Final = f"LMDB; {_LOOKED_UP:,} UUID keys at once, half of them hits"

_GOAL: Final = 1.5
"""Of the time in the largest index over that in the smallest."""

_NEAR_RAW: Final = 0.6
"""Of the speed of raw LMDB with as many entries."""


def larger_indexes(folder: Path, sizes: Sequence[int]) -> list[Outcome]:
    """Time and memory of the same look-up, in an index that grows, against an index that stays small.

    Raw LMDB with the same entries grows slower too; the largest index is measured against it.
    """
    times: list[Outcome] = []
    memories: list[Outcome] = []
    large_url = f"lmdb://{folder / 'large'}"
    small_url = f"lmdb://{folder / 'small'}"
    smallest, *larger = sizes
    with create_index(small_url) as small, create_index(large_url) as large:
        sought = sought_in_small = half_known(_fill(small, 0, smallest), _LOOKED_UP, seed=11)
        memory_of_smallest = _memory(small_url, sought_in_small)
        known = _fill(large, 0, smallest)
        for before, size in zip(sizes, larger, strict=False):
            # So many of the former and the new keys as there are of each in the index.
            kept = known.take(
                pa.array(np.random.default_rng(size).permutation(len(known))[: len(known) * before // size])
            )
            known = pa.concat_arrays([kept, _fill(large, before, size)])
            sought = half_known(known, _LOOKED_UP, seed=11)
            time_ratio = race(lambda: large.get(sought), lambda: small.get(sought_in_small)).time_ratio  # noqa: B023
            memory = _memory(large_url, sought)
            baseline = f"{smallest:,} entries; here {size:,}"
            goal = _GOAL if size == sizes[-1] else None
            times.append(Outcome("time of a look-up, larger index", baseline, time_ratio, goal, "lower", _ABOUT))
            memories.append(
                Outcome(
                    "memory of a look-up, larger index",
                    baseline,
                    memory / memory_of_smallest,
                    None,
                    "lower",
                    f"{_ABOUT}; {memory >> 20} MiB",
                )
            )
        limits = _beside_raw_lmdb(folder, (smallest, small, sought_in_small), (sizes[-1], large, sought))
    return [*times, *limits, *memories]


def _beside_raw_lmdb(
    folder: Path, smallest: tuple[int, StoredIndex, pa.Array], largest: tuple[int, StoredIndex, pa.Array]
) -> list[Outcome]:
    """How raw LMDB grows from one index to another, each given with its size and what to look up in it."""
    few, small, sought_in_small = smallest
    many, large, sought = largest
    raw_sought_in_small, raw_sought = encoded(sought_in_small).tolist(), encoded(sought).tolist()
    with RawLmdb(folder / "raw-small") as raw_small, RawLmdb(folder / "raw-large") as raw_large:
        _copy(small, raw_small)
        _copy(large, raw_large)
        growth = race(lambda: raw_large.get(raw_sought), lambda: raw_small.get(raw_sought_in_small))
        nearness = race(lambda: large.get(sought), lambda: raw_large.get(raw_sought))
    return [
        Outcome(
            "time of a look-up, larger raw LMDB",
            f"{few:,} entries; here {many:,}",
            growth.time_ratio,
            None,
            "lower",
            f"cursor.getmulti in {_ABOUT}",
        ),
        Outcome(
            "look-ups, largest index",
            f"raw cursor.getmulti of the same {many:,} keys",
            nearness.speed_ratio,
            _NEAR_RAW,
            "higher",
            _ABOUT,
            Unit.SHARE,
        ),
    ]


def _copy(index: StoredIndex, raw: RawLmdb) -> None:
    """Fill raw LMDB with the entries of an index."""
    pages = [page for shard in range(index.settings.shard_count) for page in index.store.scan(shard, _SCANNED)]
    raw.load(np.concatenate([page.keys for page, _ in pages]), np.concatenate([entries for _, entries in pages]))


def _fill(index: StoredIndex, before: int, after: int) -> pa.Array:
    """Make an index of one size one of another; returns a sample of the new keys, spread over all."""
    part = min(after - before, _PUT)
    sample: list[pa.Array] = []
    for start in range(before, after, part):
        keys = uuid_keys(min(part, after - start), seed=20 + start)
        index.put(keys, codec.pack(1, np.arange(len(keys), dtype=np.uint64) % 1_000))
        sample.append(keys.slice(0, max(_LOOKED_UP * len(keys) // after, 1)))
    return pa.concat_arrays(sample)


def _memory(url: str, keys: pa.Array) -> int:
    """The bytes that a look-up takes in a process of its own."""
    return cost_apart(_look_up, url, keys).memory


@contextmanager
def _look_up(url: str, keys: pa.Array) -> Iterator[Callable[[], object]]:
    with open_index(url) as index:
        index.get(keys.slice(0, 1))
        yield lambda: index.get(keys)


def batches_and_kinds_of_keys(folder: Path, entries: int) -> list[Outcome]:
    """Look-ups in smaller batches; sequential keys, and keys of which few are sought often, beside random ones."""
    random, sequential = uuid_keys(entries, seed=30), sequential_keys(entries)
    with (
        create_index(f"lmdb://{folder / 'random'}") as random_index,
        create_index(f"lmdb://{folder / 'sequential'}") as sequential_index,
    ):
        entry = codec.pack(1, np.arange(entries, dtype=np.uint64) % 1_000)
        random_index.put(random, entry)
        sequential_index.put(sequential, entry)
        return [
            *_smaller_batches(random_index, half_known(random, _LOOKED_UP, seed=11), entries),
            *_kinds_of_keys(random_index, random, sequential_index, sequential),
        ]


def _smaller_batches(index: StoredIndex, sought: pa.Array, entries: int) -> list[Outcome]:
    outcomes: list[Outcome] = []
    for size in _BATCHES:
        batches = [sought.slice(start, size) for start in range(0, len(sought), size)]
        pair = race(lambda: [index.get(batch) for batch in batches], lambda: index.get(sought), rounds=3)  # noqa: B023
        baseline = f"{len(sought):,} keys at once; here {size:,}"
        about = f"LMDB, {entries:,} entries"
        outcomes.append(Outcome("time of a look-up, smaller batches", baseline, pair.time_ratio, None, "lower", about))
    return outcomes


def _kinds_of_keys(
    random_index: StoredIndex, random: pa.Array, sequential_index: StoredIndex, sequential: pa.Array
) -> list[Outcome]:
    entries = len(random)
    uniform = random.take(pa.array(np.random.default_rng(31).permutation(entries)[:_LOOKED_UP]))
    in_order = sequential.slice(entries // 2, _LOOKED_UP)
    often = skewed(random, _LOOKED_UP, seed=32)
    by_order = race(lambda: sequential_index.get(in_order), lambda: random_index.get(uniform))
    by_frequency = race(lambda: random_index.get(often), lambda: random_index.get(uniform))
    about = f"LMDB, {entries:,} entries, {_LOOKED_UP:,} keys at once"
    return [
        Outcome(
            "time of a look-up, kind of keys",
            f"UUID keys, each once; here {kind}",
            pair.time_ratio,
            None,
            "lower",
            about,
        )
        for kind, pair in (("integers", by_order), ("skewed", by_frequency))
    ]
