"""Other ways of upserting by key in Spark, on the same rows and the same Spark as rli, in turns with it."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import happybase

from benchmarks.measuring import Outcome
from benchmarks.peers.competitor import OPERATIONS, TAG, UPSERT, Competitor
from benchmarks.peers.families import FAMILIES, HBASE, Family
from benchmarks.peers.hudi import Hudi
from benchmarks.peers.workload import Workload, make_stream, make_workload
from rli_hbase.hudi_rows import FAMILY
from tests.support.docker import free_ports
from tests.support.hbase_hudi import hbase_on_host, hbase_options, write_client_settings
from tests.support.orders import OrderedProcess, OrderError
from tests.support.spark import REPOSITORY

_OURS: Final = "rli"
_RIVAL: Final = ("Hudi 1.2.0", "RECORD_INDEX")
_GOALS: Final = {TAG: 3.0, UPSERT: 5.0}
"""Against the rival: how many times its speed."""

_HBASE_TABLE: Final = "peer"

_FEW: Final = {
    "rli": FAMILIES["rli"],
    "Hudi 1.2.0": replace(FAMILIES["Hudi 1.2.0"], engines={"RECORD_INDEX": Hudi}),
}
"""For the quick form: rli and its rival."""


def run(folder: Path, *, quick: bool) -> list[Outcome]:
    """Load, tag, upsert, delete and look up with every engine; each figure is an engine's time over that of rli."""
    rows, batches = (20_000, 1) if quick else (200_000, 5)
    warm_up, synthetic = make_workload(folder, "warm-up", rows // 10, 1), make_workload(folder, "rows", rows, batches)
    stream = make_stream(folder, *((2, 20_000) if quick else (3, None)))
    with _competitors(folder, _FEW if quick else FAMILIES) as competitors:
        ours, *others = competitors
        rival = next(other for other in others if (other.family, other.engine) == _RIVAL)
        _play(warm_up, _warming_up(competitors), 0, 1)
        # Of the engines without a goal one batch tells enough.
        _play(synthetic, competitors, 0, 1)
        _play(synthetic, [ours, rival], 1, batches)
        our_stream, rival_stream = (competitor.with_another_table("stream") for competitor in (ours, rival))
        _play(stream, [our_stream, rival_stream], 0, len(stream.batches))
        errors = {competitor.name: competitor.errors() for competitor in competitors}
        wrong = our_stream.errors() + rival_stream.errors()
    if errors[ours.name] or wrong:
        raise RuntimeError(f"the tables are wrong: rli={errors[ours.name]!r} after the real stream={wrong!r}")
    about = (
        f"{rows:,} rows in 20 partitions at first; each batch updates and inserts 10 %, moves 1 % and then deletes 1 %; "
        "rli's index in LMDB; local[2]"
    )
    about_stream = f"flight routes, {stream.rows:,} at first, batches of a month; rli's index in LMDB; local[2]"
    return [
        *(
            _outcome(f"{operation}: times as fast", operation, ours, other, f"{about}{errors[other.name]}")
            for operation in OPERATIONS
            for other in others
            if other.seconds[operation]
        ),
        *(
            _outcome(f"real stream, {operation}: times as fast", operation, our_stream, rival_stream, about_stream)
            for operation in OPERATIONS
            if rival_stream.seconds[operation]
        ),
    ]


def _warming_up(competitors: Sequence[Competitor]) -> list[Competitor]:
    """One engine of each Spark, with a table that does not count."""
    of_families = {competitor.family: competitor for competitor in reversed(competitors)}
    return [first.with_another_table("warm-up") for first in of_families.values()]


def _play(workload: Workload, competitors: Sequence[Competitor], start: int, end: int) -> None:
    """Have some batches played by all, in turns; the table is made before the first."""
    if not start:
        for competitor in competitors:
            with _noting_failure(competitor):
                competitor.load(workload)
    for number in range(start, end):
        for competitor in competitors:
            if not competitor.has_failed:
                with _noting_failure(competitor):
                    competitor.play(number, workload.batches[number])


@contextmanager
def _noting_failure(competitor: Competitor) -> Iterator[None]:
    """Go on without an engine that fails, unless it is ours."""
    try:
        yield
    except OrderError as error:
        if competitor.family == _OURS:
            raise
        competitor.has_failed = True
        sys.stderr.write(f"{competitor.name} failed, and is left out from here on: {error}\n")


@contextmanager
def _competitors(folder: Path, families: Mapping[str, Family]) -> Iterator[list[Competitor]]:
    """All engines, ours first, each family in a process of its own."""
    with ExitStack() as running:
        needs_hbase = any(HBASE in family.engines for family in families.values())
        zookeeper = _start_hbase(folder, running) if needs_hbase else None
        competitors: list[Competitor] = []
        for number, (name, family) in enumerate(families.items()):
            tables = folder / f"tables-{number}"
            tables.mkdir()
            arguments = [name, str(tables), str(folder)]
            process = running.enter_context(OrderedProcess("benchmarks.peers.worker", arguments, REPOSITORY))
            for engine in family.engines:
                options = hbase_options(zookeeper, _HBASE_TABLE) if engine == HBASE and zookeeper else {}
                competitors.append(Competitor(name, engine, process, options, engine.replace(" ", "-")))
        yield competitors


def _start_hbase(folder: Path, running: ExitStack) -> int:
    """Start a server with the table that Hudi wants; returns the port of its ZooKeeper."""
    zookeeper, thrift = free_ports(2)
    running.enter_context(hbase_on_host(thrift, zookeeper))
    with closing(happybase.Connection("127.0.0.1", thrift)) as connection:
        connection.create_table(_HBASE_TABLE, {FAMILY.decode(): {}})
    write_client_settings(folder)
    return zookeeper


def _outcome(name: str, operation: str, ours: Competitor, other: Competitor, about: str) -> Outcome:
    taken, baseline = other.seconds[operation], ours.seconds[operation]
    is_rival = (other.family, other.engine) == _RIVAL
    return Outcome(
        name,
        other.name,
        statistics.median(taken[number] / baseline[number] for number in taken),
        _GOALS.get(operation) if is_rival else None,
        "higher",
        f"median of {len(taken)}; {about}",
    )
