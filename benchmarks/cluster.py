"""rli on a standalone cluster of Spark, beside itself with a local master and beside Delta Lake on the same cluster."""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

from benchmarks.measuring import Outcome
from benchmarks.peers.competitor import DELETE, LOAD, UPSERT, Competitor
from benchmarks.peers.engines import REDIS
from benchmarks.peers.products import PRODUCTS, Product
from benchmarks.peers.rounds import OURS, competing, play, warm_up
from benchmarks.peers.workload import make_workload
from tests.support.spark_cluster import environment_of_children, standalone_cluster

_DELTA: Final = "Delta Lake 3.3.2"
_BATCHES: Final = 3
_LOADS: Final = 9
"""The first ones are slower: the executors still compile."""

_MEMORY_OF_WORKER: Final = "4g"
_APPLICATIONS: Final = 2
"""That have executors at the same time; one of them works."""

_GOAL_OF_LOCAL: Final = {UPSERT: 1.2, LOAD: None, DELETE: None}
_GOAL_OF_DELTA: Final = {UPSERT: 2.0, LOAD: 1.0, DELETE: None}


def run(folder: Path, *, quick: bool) -> list[Outcome]:
    """Load, upsert and delete, with the index in Redis; two workers with a core each, and two threads of the local master."""
    rows = 20_000 if quick else 1_000_000
    first, workload = make_workload(folder, "first", rows // 10, 1), make_workload(folder, "rows", rows, _BATCHES)
    # The processes of the engines start the drivers, whose executors import this checkout.
    os.environ.update(environment_of_children())
    with ExitStack() as running:
        cluster = running.enter_context(standalone_cluster(_made(folder / "spark"), _MEMORY_OF_WORKER, _APPLICATIONS))
        ours, delta = running.enter_context(
            competing(_made(folder / "cluster"), _only({OURS: REDIS, _DELTA: "MERGE"}), master=cluster.master)
        )
        local, *_ = running.enter_context(competing(_made(folder / "local"), _only({OURS: REDIS})))
        competitors = [ours, local, delta]
        warm_up(first, competitors)
        play(workload, competitors, 0, _BATCHES, _LOADS)
        wrong = {one.name: errors for one in competitors if (errors := one.errors())}
    if wrong:
        raise RuntimeError(f"tables are wrong: {wrong}")
    about = (
        f"{rows:,} rows in 20 partitions; each batch updates and inserts 10 %, moves 1 % and deletes 1 %; medians of {_BATCHES}; index "
        "in Redis; standalone cluster, an executor of one core on each of two workers"
    )
    return [*_outcomes(ours, local, delta, about)]


def _outcomes(ours: Competitor, local: Competitor, delta: Competitor, about: str) -> Iterator[Outcome]:
    for operation in (LOAD, UPSERT, DELETE):
        taken, by_local, by_delta = (_median(one, operation) for one in (ours, local, delta))
        yield Outcome(
            f"{operation} on a cluster",
            "the same with a local master",
            1 / ours.times_as_fast_as(local, operation),
            _GOAL_OF_LOCAL[operation],
            "lower",
            f"{about}; {taken:.1f} s against {by_local:.1f} s",
        )
        yield Outcome(
            f"{operation} on a cluster: times as fast",
            delta.name,
            ours.times_as_fast_as(delta, operation),
            _GOAL_OF_DELTA[operation],
            "higher",
            f"{about}; {taken:.1f} s against {by_delta:.1f} s",
        )


def _median(competitor: Competitor, operation: str) -> float:
    return statistics.median(competitor.seconds[operation].values())


def _only(engines: Mapping[str, str]) -> dict[str, Product]:
    """One engine of each product."""
    return {
        name: replace(PRODUCTS[name], engines={engine: PRODUCTS[name].engines[engine]})
        for name, engine in engines.items()
    }


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
