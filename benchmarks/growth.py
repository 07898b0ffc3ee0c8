"""What a key costs by size of index and batch, by kind, and by number of partitions and writers; memory beside time."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

import rli
from benchmarks.keys import half_known, sequential_keys, skewed, uuid_keys
from benchmarks.measuring import Outcome, peak_memory, race
from rli.codec import entries as codec

_MILLION: Final = 1_000_000
_LOOKED_UP: Final = 262_144
_BATCHES: Final = (1_000, 10_000, 100_000)
_UPSERTED: Final = 2_000
_COMMITS_PER_WRITER: Final = 10


def run(folder: Path, *, quick: bool) -> list[Outcome]:
    """Measure look-ups against the size of index and batch, upserts against the number of partitions and of writers."""
    return [
        *_index_and_batch(folder, *((300_000, 3_000_000) if quick else (_MILLION, 50 * _MILLION))),
        *_kinds_of_keys(folder, 300_000 if quick else _MILLION),
        *_partitions(folder, *((1, 500) if quick else (1, 10_000))),
        *_writers(folder, (1, 2) if quick else (1, 2, 4, 8)),
    ]


def _index_and_batch(folder: Path, small: int, large: int) -> list[Outcome]:
    """The large index is the small one, grown; its keys are sought from all of it."""
    with (
        rli.create_index(f"lmdb://{folder / 'small'}") as small_index,
        rli.create_index(f"lmdb://{folder / 'large'}") as large_index,
    ):
        known = [_fill(small_index, small), _fill(large_index, large)]
        wanted = [half_known(keys, _LOOKED_UP, seed=11) for keys in known]
        growth = race(lambda: large_index.get(wanted[1]), lambda: small_index.get(wanted[0]))
        about = f"LMDB, {large:,} entries against {small:,}; {_LOOKED_UP:,} UUID keys at once, half of them hits"
        outcomes = [
            Outcome("time of a look-up, larger index", f"{small:,} entries", growth.time_ratio, 1.5, "lower", about)
        ]
        for size in _BATCHES:
            batches = [wanted[0].slice(start, size) for start in range(0, _LOOKED_UP, size)]
            smaller = race(
                lambda batches=batches: [small_index.get(batch) for batch in batches],  # type: ignore[misc]
                lambda: small_index.get(wanted[0]),
                rounds=3,
            )
            outcomes.append(
                Outcome(
                    "time of a look-up, smaller batches",
                    f"{_LOOKED_UP:,} keys at once; here {size:,}",
                    smaller.time_ratio,
                    None,
                    "lower",
                    f"LMDB, {small:,} entries",
                )
            )
        return outcomes


def _fill(index: rli.RecordIndex, entries: int) -> pa.Array:
    """Put so many keys; returns a sample of them, spread over all."""
    part = min(entries, _MILLION)
    sample: list[pa.Array] = []
    for number in range(entries // part):
        keys = uuid_keys(part, seed=20 + number)
        index.put(keys, codec.pack(1, np.arange(part, dtype=np.uint64) % 1_000))
        sample.append(keys.slice(0, max(_LOOKED_UP * part // entries, 1)))
    return pa.concat_arrays(sample)


def _kinds_of_keys(folder: Path, entries: int) -> list[Outcome]:
    """Sequential keys, and keys of which few are sought often, beside random ones."""
    random, sequential = uuid_keys(entries, seed=30), sequential_keys(entries)
    with (
        rli.create_index(f"lmdb://{folder / 'random'}") as random_index,
        rli.create_index(f"lmdb://{folder / 'sequential'}") as sequential_index,
    ):
        entry = codec.pack(1, np.arange(entries, dtype=np.uint64) % 1_000)
        random_index.put(random, entry)
        sequential_index.put(sequential, entry)
        uniform = random.take(pa.array(np.random.default_rng(31).permutation(entries)[:_LOOKED_UP]))
        in_order = sequential.slice(entries // 2, _LOOKED_UP)
        often = skewed(random, _LOOKED_UP, seed=32)
        by_order = race(lambda: sequential_index.get(in_order), lambda: random_index.get(uniform))
        by_frequency = race(lambda: random_index.get(often), lambda: random_index.get(uniform))
    baseline = "UUID keys, each once"
    about = f"LMDB, {entries:,} entries, {_LOOKED_UP:,} keys at once"
    return [
        Outcome(
            "time of a look-up, kind of keys", f"{baseline}; here integers", by_order.time_ratio, None, "lower", about
        ),
        Outcome(
            "time of a look-up, kind of keys", f"{baseline}; here skewed", by_frequency.time_ratio, None, "lower", about
        ),
    ]


def _partitions(folder: Path, few: int, many: int) -> list[Outcome]:
    """The same upsert, of keys of one partition, into a table of few and one of many partitions of equal size."""
    tables = [_partitioned(folder / f"partitions-{number}", number) for number in (few, many)]
    changed = _rows(_UPSERTED, "p0", seed=40)
    pair = race(lambda: tables[1].upsert(changed), lambda: tables[0].upsert(changed))
    looked_up = changed["id"].combine_chunks()
    look_up = race(lambda: tables[1].lookup(looked_up), lambda: tables[0].lookup(looked_up))
    for table in tables:
        table.close()
    about = f"a base file of 10 records in each of {many:,} partitions, {_UPSERTED:,} records in the one that changes"
    return [
        Outcome("time of an upsert, more partitions", f"{few:,} partition(s)", pair.time_ratio, None, "lower", about),
        Outcome(
            "time of a look-up, more partitions", f"{few:,} partition(s)", look_up.time_ratio, None, "lower", about
        ),
    ]


def _partitioned(path: Path, partitions: int) -> rli.Table:
    table = rli.create_table(path, record_key="id", partition_by="part", index=f"lmdb://{path}-index")
    others = [_rows(10, f"p{number}", seed=1_000 + number) for number in range(1, partitions)]
    table.upsert(pa.concat_tables([_rows(_UPSERTED, "p0", seed=40), *others]))
    return table


def _rows(count: int, part: str, seed: int) -> pa.Table:
    keys = uuid_keys(count, seed)
    return pa.table({"id": keys, "part": pa.array([part] * count), "note": keys})


def _writers(folder: Path, numbers: tuple[int, ...]) -> list[Outcome]:
    """Commits a second of several processes on one table, each with a partition of its own."""
    rates: dict[int, float] = {}
    memory: dict[int, int] = {}
    for number in numbers:
        path = folder / f"writers-{number}"
        rli.create_table(path, record_key="id", partition_by="part", index=f"lmdb://{path}-index").close()
        with ThreadPoolExecutor(number) as threads:
            seconds, peaks = zip(*threads.map(_writer_of(path), range(number)), strict=True)
        rates[number], memory[number] = number * _COMMITS_PER_WRITER / max(seconds), max(peaks)
    return [
        Outcome(
            "commits a second, more writers",
            f"one writer; here {number}",
            rates[number] / rates[numbers[0]],
            None,
            "higher",
            f"processes that upsert {_UPSERTED:,} records a commit, each into its own partition; "
            f"the largest takes {memory[number] >> 20} MiB",
        )
        for number in numbers[1:]
    ]


def _writer_of(path: Path) -> Callable[[int], tuple[float, int]]:
    def write(number: int) -> tuple[float, int]:
        command = [sys.executable, "-m", "benchmarks.growth", str(path), str(number)]
        seconds, peak = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)  # noqa: S603
        return float(seconds), int(peak)

    return write


def _write(path: Path, number: int) -> tuple[float, int]:
    """Commit some batches; seconds, and peak bytes of memory."""
    batches = [_rows(_UPSERTED, f"p{number}", seed=100 * number + commit) for commit in range(_COMMITS_PER_WRITER)]
    started = time.perf_counter()
    with rli.open_table(path) as table:
        peak = peak_memory(lambda: [table.upsert(batch) for batch in batches])
    return time.perf_counter() - started, peak


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_write(Path(sys.argv[1]), int(sys.argv[2]))))
