"""Commits of several processes at once, into one table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
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
    """Commits a second of several processes on one table, each with a partition of its own; and what one of them takes."""
    rates: list[float] = []
    memory: list[int] = []
    for number in numbers:
        path = folder / f"writers-{number}"
        new_table(path).close()
        with get_context("spawn").Manager() as manager, ThreadPoolExecutor(number) as threads:
            together = manager.Barrier(number)
            costs: list[Cost] = list(threads.map(partial(cost_apart, _commits, path, together), range(number)))
        rates.append(number * _COMMITS / max(cost.seconds for cost in costs))
        memory.append(max(cost.memory for cost in costs))
    about = f"processes that upsert {_UPSERTED:,} records a commit, each into its own partition"
    return [
        *(
            Outcome("commits a second, more writers", f"one; here {number}", rate / rates[0], None, "higher", about)
            for number, rate in zip(numbers[1:], rates[1:], strict=True)
        ),
        *(
            Outcome(
                "memory of a writer, more writers",
                f"one; here {number}",
                most / memory[0],
                None,
                "lower",
                f"{about}; the largest takes {most >> 20} MiB",
            )
            for number, most in zip(numbers[1:], memory[1:], strict=True)
        ),
    ]


@contextmanager
def _commits(path: Path, together: Barrier, number: int) -> Iterator[Callable[[], object]]:
    batches = [records_of(f"p{number}", _UPSERTED, seed=100 * number + commit) for commit in range(_COMMITS)]
    with rli.open_table(path) as table:
        together.wait()
        yield lambda: [table.upsert(batch) for batch in batches]
