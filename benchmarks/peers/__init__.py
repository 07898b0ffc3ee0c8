"""Other ways of upserting by key in Spark, on the same rows and the same Spark as rli, in turns with it."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from benchmarks.measuring import Outcome
from benchmarks.peers.competitor import OPERATIONS, TAG, UPSERT, Competitor
from benchmarks.peers.families import FAMILIES, HBASE
from benchmarks.peers.hudi import hbase_options
from benchmarks.peers.workload import Workload, make_workload
from tests.support.docker import free_ports, running_service
from tests.support.hbase_hudi import write_client_settings
from tests.support.orders import OrderedProcess
from tests.support.spark import REPOSITORY

_OURS: Final = "rli"
_RIVAL: Final = ("Hudi 1.2.0", "RECORD_INDEX")
_GOALS: Final = {TAG: 3.0, UPSERT: 5.0}
"""Against the rival: how many times its speed."""


def run(folder: Path, *, quick: bool) -> list[Outcome]:
    """Load, tag, upsert, delete and look up with every engine; each figure is an engine's time over that of rli."""
    # The first batch warms up and does not count. Of the engines without a goal fewer batches tell enough.
    rows, batches, few = (20_000, 2, 2) if quick else (400_000, 6, 3)
    workload = make_workload(folder, rows, batches)
    with _competitors(folder) as competitors:
        for competitor in competitors:
            competitor.load(workload)
        for number, batch in enumerate(workload.batches):
            for competitor in competitors:
                if number < few or competitor.family == _OURS or (competitor.family, competitor.engine) == _RIVAL:
                    competitor.play(number, batch)
        errors = {competitor.name: competitor.errors() for competitor in competitors}
    ours, *others = competitors
    if errors[ours.name]:
        raise RuntimeError(f"rli is wrong: {errors[ours.name]}")
    return [
        _outcome(operation, ours, other, workload, errors[other.name])
        for operation in OPERATIONS
        for other in others
        if other.seconds[operation]
    ]


@contextmanager
def _competitors(folder: Path) -> Iterator[list[Competitor]]:
    """All engines, ours first, each family in a process of its own."""
    with ExitStack() as running:
        zookeeper, *_ = ports = free_ports(2)
        environment = {
            "THRIFT_ADDRESS": "127.0.0.1",
            "THRIFT_PORT": str(ports[1]),
            "ZOOKEEPER_PORT": str(zookeeper),
            "RANDOM_PORTS": "true",
        }
        running.enter_context(running_service("hbase", network="host", environment=environment))
        write_client_settings(folder)
        competitors: list[Competitor] = []
        for number, (name, family) in enumerate(FAMILIES.items()):
            tables = folder / f"tables-{number}"
            tables.mkdir()
            arguments = [name, str(tables), str(folder)]
            process = running.enter_context(OrderedProcess("benchmarks.peers.worker", arguments, REPOSITORY))
            for engine, kind in family.engines.items():
                options = hbase_options(zookeeper) if engine == HBASE else {}
                competitors.append(Competitor(name, engine, process, kind.tags, options))
        yield competitors


def _outcome(operation: str, ours: Competitor, other: Competitor, workload: Workload, errors: str) -> Outcome:
    taken, baseline = other.seconds[operation], ours.seconds[operation]
    counted = [number for number in taken if number or len(taken) == 1]
    ratio = statistics.median(taken[number] / baseline[number] for number in counted)
    wrong = f"; its table is wrong: {errors}" if errors else ""
    return Outcome(
        f"{operation}: times as fast",
        other.name,
        ratio,
        _GOALS.get(operation) if (other.family, other.engine) == _RIVAL else None,
        "higher",
        f"{workload.rows:,} rows in 20 partitions at first; each batch updates and inserts 10 %, moves 1 % and then deletes "
        f"1 %; median of {len(counted)}; rli's index in LMDB; local[2]{wrong}",
    )
