"""Commits of several processes at once: into one table, and each into a table of its own, which is the machine's limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from threading import Barrier
from typing import Final

import rli
from benchmarks.growth.partitioned import new_table, records_of
from benchmarks.measuring import Cost, Outcome, cost_apart

_UPSERTED: Final = 2_000
_COMMITS: Final = 10
"""Of each writer."""


def more_writers(folder: Path, numbers: Sequence[int]) -> list[Outcome]:
    """Commits a second of several processes on one table, each with a partition of its own; and what one of them takes.

    Writers of tables of their own share nothing but the machine: what they reach, writers of one table cannot exceed.
    """
    about = f"processes that upsert {_UPSERTED:,} records a commit, each into its own partition"
    outcomes: list[Outcome] = []
    one, memory_of_one = _together([folder / "writers-1"])
    for number in numbers:
        rate, memory = _together([folder / f"writers-{number}"] * number)
        limit, _ = _together([folder / f"writers-{number}-{own}" for own in range(number)])
        baseline = f"one; here {number}"
        largest = f"{about}; the largest takes {memory >> 20} MiB"
        outcomes += (
            Outcome("commits a second, more writers", baseline, rate / one, None, "higher", about),
            Outcome("commits a second, writers of tables of their own", baseline, limit / one, None, "higher", about),
            Outcome("memory of a writer, more writers", baseline, memory / memory_of_one, None, "lower", largest),
        )
    return outcomes


def _together(paths: Sequence[Path]) -> tuple[float, int]:
    """Commits a second of as many processes as there are paths of tables; and the bytes that the largest process takes."""
    for path in {*paths}:
        new_table(path).close()
    with get_context("spawn").Manager() as manager, ThreadPoolExecutor(len(paths)) as threads:
        together = manager.Barrier(len(paths))
        writers = threads.map(partial(cost_apart, _commits), paths, repeat(together), range(len(paths)))
        costs: list[Cost] = list(writers)
    return len(paths) * _COMMITS / max(cost.seconds for cost in costs), max(cost.memory for cost in costs)


@contextmanager
def _commits(path: Path, together: Barrier, number: int) -> Iterator[Callable[[], object]]:
    batches = [records_of(f"p{number}", _UPSERTED, seed=100 * number + commit) for commit in range(_COMMITS)]
    with rli.open_table(path) as table:
        together.wait()
        yield lambda: [table.upsert(batch) for batch in batches]
