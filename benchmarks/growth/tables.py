"""Upserts and look-ups in tables of more and more partitions, or file groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

import rli
from benchmarks.changing import turns_of, with_turn
from benchmarks.growth.partitioned import new_table, records_of
from benchmarks.measuring import Outcome, cost_apart, race
from rli.table.table import opened_table

_UPSERTED: Final = 2_000
_RECORDS: Final = 100_000
"""Of the table whose file groups become more."""


def more_partitions(folder: Path, numbers: Sequence[int]) -> list[Outcome]:
    """The same upsert, of keys of one partition, into tables of few and of many partitions."""
    changed = records_of("p0", _UPSERTED, seed=40)
    about = f"a base file of 10 records in each other partition, {_UPSERTED:,} records in the one that changes"
    return _growth(folder, "partitions", numbers, _partitioned, changed=changed, about=about)


def more_file_groups(folder: Path, numbers: Sequence[int]) -> list[Outcome]:
    """The same upsert, of keys of all file groups, into a table of few large and of many small ones."""
    records = records_of("p0", _RECORDS, seed=41)
    changed = records.take(pa.array(np.random.default_rng(42).permutation(_RECORDS)[:_UPSERTED]))
    with new_table(folder / "whole") as whole:
        whole.upsert(with_turn(records))
        (base_file,) = opened_table(whole).snapshot().slices.values()

    def made(path: Path, number: int) -> rli.Table:
        table = new_table(path) if number == 1 else new_table(path, base_file.size // number)
        table.upsert(with_turn(records))
        return table

    about = f"{_RECORDS:,} records in one partition, {_UPSERTED:,} of them upserted, from all over it"
    return _growth(folder, "file groups", numbers, made, changed=changed, about=about)


def _growth(
    folder: Path,
    of: str,
    numbers: Sequence[int],
    made: Callable[[Path, int], rli.Table],
    *,
    changed: pa.Table,
    about: str,
) -> list[Outcome]:
    """Time of upserts and look-ups, and memory of upserts, against the table with the fewest."""
    keys = changed["id"].combine_chunks()
    with ExitStack() as opened:
        paths = [folder / f"{of.replace(' ', '-')}-{number}" for number in numbers]
        tables = [opened.enter_context(made(path, number)) for path, number in zip(paths, numbers, strict=True)]
        smallest, *larger = tables
        counted = [_count(table, of) for table in tables]
        memory = [cost_apart(_upsert, path, changed).memory for path in paths]
        turns = turns_of(changed)
        upserts = [
            race(lambda: table.upsert(next(turns)), lambda: smallest.upsert(next(turns)))  # noqa: B023
            for table in larger
        ]
        look_ups = [race(lambda: table.lookup(keys), lambda: smallest.lookup(keys)) for table in larger]  # noqa: B023
    figures = {
        "time of an upsert": [(pair.time_ratio, about) for pair in upserts],
        "memory of an upsert": [(most / memory[0], f"{about}; {most >> 20} MiB") for most in memory[1:]],
        "time of a look-up": [(pair.time_ratio, about) for pair in look_ups],
    }
    return [
        Outcome(f"{name}, more {of}", f"{counted[0]:,}; here {number:,}", ratio, None, "lower", details)
        for name, found in figures.items()
        for number, (ratio, details) in zip(counted[1:], found, strict=True)
    ]


@contextmanager
def _upsert(path: Path, changed: pa.Table) -> Iterator[Callable[[], object]]:
    with rli.open_table(path) as table:
        yield lambda: table.upsert(with_turn(changed, -1))


def _count(table: rli.Table, of: str) -> int:
    groups = opened_table(table).snapshot().slices.keys()
    return len({group.partition_path for group in groups} if of == "partitions" else groups)


def _partitioned(path: Path, partitions: int) -> rli.Table:
    table = new_table(path)
    others = [records_of(f"p{number}", 10, seed=1_000 + number) for number in range(1, partitions)]
    table.upsert(with_turn(pa.concat_tables([records_of("p0", _UPSERTED, seed=40), *others])))
    return table
