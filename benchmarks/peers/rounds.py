"""Engines in their processes, and the turns in which they are given the same work."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from itertools import chain
from pathlib import Path
from typing import Final

import happybase

from benchmarks.peers.competitor import Competitor
from benchmarks.peers.families import HBASE, Family
from benchmarks.peers.workload import Workload
from rli_hbase.hudi_rows import FAMILY
from tests.support.docker import free_ports
from tests.support.hbase_hudi import hbase_on_host, hbase_options, write_client_settings
from tests.support.orders import OrderedProcess, OrderError
from tests.support.spark import REPOSITORY

OURS: Final = "rli"
"""The family that must not fail."""

_HBASE_TABLE: Final = "peer"


def warming_up(competitors: Sequence[Competitor]) -> list[Competitor]:
    """One engine of each Spark, with a table that does not count."""
    of_families = {competitor.family: competitor for competitor in reversed(competitors)}
    return [first.with_another_table("warm-up") for first in of_families.values()]


def play(workload: Workload, competitors: Sequence[Competitor], start: int, end: int) -> None:
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


def upsert_in_pairs(workload: Workload, pairs: Sequence[tuple[Competitor, Competitor]]) -> None:
    """Have all batches upserted by the two of each pair, one right after the other; the first is the second in the next round."""
    for competitor in chain.from_iterable(pairs):
        with _noting_failure(competitor):
            competitor.load(workload)
    for number, batch in enumerate(workload.batches):
        for competitor in chain.from_iterable(pair[:: (-1) ** number] for pair in pairs):
            if not competitor.has_failed:
                with _noting_failure(competitor):
                    competitor.upsert(number, batch)


@contextmanager
def _noting_failure(competitor: Competitor) -> Iterator[None]:
    """Go on without an engine that fails, unless it is ours."""
    try:
        yield
    except OrderError as error:
        if competitor.family == OURS:
            raise
        competitor.has_failed = True
        sys.stderr.write(f"{competitor.name} failed, and is left out from here on: {error}\n")


@contextmanager
def competing(folder: Path, families: Mapping[str, Family]) -> Iterator[list[Competitor]]:
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
