"""How cost grows: with index and batch, kind of key, partitions, file groups and writers; memory beside time."""

from __future__ import annotations

from pathlib import Path

from benchmarks.growth.indexes import batches_and_kinds_of_keys, larger_indexes
from benchmarks.growth.tables import more_file_groups, more_partitions
from benchmarks.growth.writers import more_writers
from benchmarks.measuring import Outcome

_MILLION = 1_000_000


def run(folder: Path, *, quick: bool) -> list[Outcome]:
    """Measure each cost at several sizes, against the smallest."""
    return [
        *larger_indexes(folder, (300_000, 3_000_000) if quick else (_MILLION, 10 * _MILLION, 50 * _MILLION)),
        *batches_and_kinds_of_keys(folder, 300_000 if quick else _MILLION),
        *more_partitions(folder, (1, 500) if quick else (1, 100, 10_000)),
        *more_file_groups(folder, (1, 20) if quick else (1, 10, 100, 1_000)),
        *more_writers(folder, (2,) if quick else (2, 4, 8)),
    ]
