"""Upserts and look-ups in tables of more and more partitions, or file groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from pyarrow import feather

import rli
from benchmarks.keys import uuid_keys
from benchmarks.measuring import Outcome, cost_apart, race

_UPSERTED: Final = 2_000
_RECORDS: Final = 100_000
"""Of the table whose file groups become more."""

_NEVER_FULL: Final = 1 << 40
"""Bytes of a base file."""


def more_partitions(folder: Path, numbers: Sequence[int]) -> list[Outcome]:
    """The same upsert, of keys of one partition, into tables of few and of many partitions."""
    changed = _rows(_UPSERTED, "p0", seed=40)
    about = f"a base file of 10 records in each other partition, {_UPSERTED:,} records in the one that changes"
    return [*_growth(folder, "partitions", numbers, _partitioned, changed=changed, about=about)]


def more_file_groups(folder: Path, numbers: Sequence[int]) -> list[Outcome]:
    """The same upsert, of keys of all file groups, into a table of few large and of many small ones."""
    records = _rows(_RECORDS, "p0", seed=41)
    changed = records.take(pa.array(np.random.default_rng(42).permutation(_RECORDS)[:_UPSERTED]))
    with _created(folder / "whole") as whole:
        whole.upsert(records)
    (base_file,) = _base_files(folder / "whole")
    size = base_file.stat().st_size

    def made(path: Path, number: int) -> rli.Table:
        table = _created(path) if number == 1 else _created(path, size // number)
        table.upsert(records)
        return table

    about = f"{_RECORDS:,} records in one partition, {_UPSERTED:,} of them upserted, from all over it"
    return [*_growth(folder, "file groups", numbers, made, changed=changed, about=about)]


def _growth(
    folder: Path,
    of: str,
    numbers: Sequence[int],
    made: Callable[[Path, int], rli.Table],
    *,
    changed: pa.Table,
    about: str,
) -> Iterator[Outcome]:
    """Time of upserts and look-ups, and memory of upserts, against the table with the fewest."""
    keys = changed["id"].combine_chunks()
    batch = folder / "changed.arrow"
    feather.write_feather(changed, batch, compression="uncompressed")
    with ExitStack() as opened:
        paths = [folder / f"{of.replace(' ', '-')}-{number}" for number in numbers]
        tables = [opened.enter_context(made(path, number)) for path, number in zip(paths, numbers, strict=True)]
        smallest, *larger = tables
        counted = [_count(path, of) for path in paths]
        memory = [cost_apart(_upsert, path, batch).memory for path in paths]
        upserts = [race(lambda: table.upsert(changed), lambda: smallest.upsert(changed)) for table in larger]  # noqa: B023
        look_ups = [race(lambda: table.lookup(keys), lambda: smallest.lookup(keys)) for table in larger]  # noqa: B023
    figures = {
        "time of an upsert": [pair.time_ratio for pair in upserts],
        "memory of an upsert": [most / memory[0] for most in memory[1:]],
        "time of a look-up": [pair.time_ratio for pair in look_ups],
    }
    for name, ratios in figures.items():
        for number, most, ratio in zip(counted[1:], memory[1:], ratios, strict=True):
            baseline = f"{counted[0]:,}; here {number:,}"
            details = f"{about}; {most >> 20} MiB" if name.startswith("memory") else about
            yield Outcome(f"{name}, more {of}", baseline, ratio, None, "lower", details)


@contextmanager
def _upsert(path: Path, batch: Path) -> Iterator[Callable[[], object]]:
    rows = feather.read_table(batch)
    with rli.open_table(path) as table:
        yield lambda: table.upsert(rows)


def _count(path: Path, of: str) -> int:
    """How many there are in a table of one commit."""
    files = _base_files(path)
    return len({file.parent for file in files} if of == "partitions" else files)


def _base_files(path: Path) -> list[Path]:
    return [file for file in path.rglob("*.parquet") if file.relative_to(path).parts[0] != ".hoodie"]


def _partitioned(path: Path, partitions: int) -> rli.Table:
    table = _created(path)
    others = [_rows(10, f"p{number}", seed=1_000 + number) for number in range(1, partitions)]
    table.upsert(pa.concat_tables([_rows(_UPSERTED, "p0", seed=40), *others]))
    return table


def _created(path: Path, target_file_size: int = _NEVER_FULL) -> rli.Table:
    return rli.create_table(
        path, record_key="id", partition_by="part", index=f"lmdb://{path}-index", target_file_size=target_file_size
    )


def _rows(count: int, part: str, seed: int) -> pa.Table:
    keys = uuid_keys(count, seed)
    return pa.table({"id": keys, "part": pa.array([part] * count), "note": keys})
