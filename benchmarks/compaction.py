"""A compaction by rli beside one by Apache Hudi: both carry out the same plan, each on copies of one table.

``python -m benchmarks.compaction FOLDER [RECORDS]`` measures another size.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from statistics import median
from typing import Final

import rli
from benchmarks.keys import uuid_keys
from benchmarks.measuring import Outcome, processor_seconds
from benchmarks.table_types import batch_of, empty_table, first_records
from rli import Maintenance, TableType
from tests.support.hudi import HudiEngine
from tests.support.tables import turn_into_version_9

_BATCHES: Final = 10


def run(folder: Path, *, quick: bool) -> list[Outcome]:
    """Compactions behind ten upserts of 1 % random keys, by a process of rli and a warm JVM."""
    return measure(folder, 20_000 if quick else 1_000_000, 1 if quick else 3)


def measure(folder: Path, records: int, rounds: int) -> list[Outcome]:
    """The same in a table of so many records.

    Args:
        folder: of the tables.
        records: of each.
        rounds: that count; one more warms both engines up.
    """
    keys = uuid_keys(records, seed=0)
    table = empty_table(folder / "made", TableType.MERGE_ON_READ, Maintenance.off(), index="global-simple:")
    turn_into_version_9(table)
    table.insert(first_records(keys))
    for number in range(_BATCHES):
        table.upsert(batch_of(keys, records // 100, number))
    instant = table.schedule_compaction().instant
    table.close()
    copies = _copies(Path(table.location), folder)
    ours, theirs = list[tuple[float, float]](), list[tuple[float, float]]()
    with HudiEngine("1.2.0") as engine:

        def by_hudi(copy: Path) -> None:
            engine.sql(f"call run_compaction(op => 'run', path => '{copy}', timestamp => {instant})")

        for _ in range(rounds + 1):
            ours.append(_took(lambda copy: rli.open_table(copy).compact(), next(copies), time.process_time))
            theirs.append(_took(by_hudi, next(copies), lambda: processor_seconds(engine.process)))
    about = (
        f"{records:,} records of ten columns in 8 file groups with {_BATCHES} log files each, table version 9, the same plan; "
        f"medians of {rounds} rounds in turn, a warm JVM"
    )
    pairs = {
        "compaction": [(mine[0], other[0]) for mine, other in zip(ours, theirs, strict=True)][1:],
        "compaction, processor time": [(mine[1], other[1]) for mine, other in zip(ours, theirs, strict=True)][1:],
    }
    return [
        Outcome(
            name,
            "Hudi 1.2.0",
            median(other / mine for mine, other in taken),
            5.0,
            "higher",
            f"{about}; {median(mine for mine, _ in taken):.2f} s against {median(other for _, other in taken):.2f} s",
        )
        for name, taken in pairs.items()
    ]


def _copies(made: Path, folder: Path) -> Iterator[Path]:
    for number in count():
        copy = folder / f"copy-{number}"
        shutil.copytree(made, copy)
        yield copy
        shutil.rmtree(copy)


def _took(compact: Callable[[Path], object], copy: Path, processor: Callable[[], float]) -> tuple[float, float]:
    """Seconds, and seconds of processor time, of a compaction that leaves no log file behind."""
    began, before = time.perf_counter(), processor()
    compact(copy)
    taken = time.perf_counter() - began, processor() - before
    with rli.open_table(copy) as table:
        if (
            table.read(["id"]).num_rows != table.read(["id"], query="read_optimized").num_rows
            or table.compact(dry_run=True).file_groups
        ):
            raise RuntimeError(f"the compaction has left log files: {copy}")
    return taken


if __name__ == "__main__":
    for outcome in measure(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000, 3):
        sys.stdout.write(f"{outcome.name} against {outcome.baseline}: {outcome.figure} ({outcome.details})\n")
