"""Engines in their processes, and the turns in which they are given the same work."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Final

import happybase

from benchmarks.peers.competitor import Competitor
from benchmarks.peers.engines import REDIS, SERVER
from benchmarks.peers.hudi import HBASE
from benchmarks.peers.products import Product
from benchmarks.peers.workload import Workload
from benchmarks.sessions import LOCAL
from rli_hbase.hudi_rows import FAMILY
from tests.support.docker import free_ports
from tests.support.hbase_hudi import hbase_on_host, hbase_options, write_client_settings
from tests.support.orders import OrderedProcess, OrderError
from tests.support.redis import running_redis
from tests.support.spark import REPOSITORY

OURS: Final = "rli"
"""The product that must not fail."""

_HBASE_TABLE: Final = "peer"


def warm_up(workload: Workload, competitors: Sequence[Competitor]) -> None:
    """Have each engine play a workload on a table that does not count."""
    play(workload, [competitor.with_another_table("warm-up") for competitor in competitors], 0, len(workload.batches))


def play(workload: Workload, competitors: Sequence[Competitor], start: int, end: int, loads: int = 1) -> None:
    """Have some batches played by all, in turns; the table is made before the first.

    Args:
        workload: what is loaded, and the batches.
        competitors: who plays.
        start: the number of the first batch.
        end: the number after that of the last batch.
        loads: how many times the table is made, in alternating order.
    """
    for number in range(0 if start else loads):
        for competitor in competitors[:: -1 if number % 2 else 1]:
            with noting_failure(competitor):
                competitor.load(workload, number)
    for number in range(start, end):
        for competitor in competitors:
            if not competitor.has_failed:
                with noting_failure(competitor):
                    competitor.play(number, workload.batches[number])


def upsert_in_groups(workload: Workload, groups: Sequence[Sequence[Competitor]]) -> None:
    """Have all batches upserted by the members of each group, one right after the other; the next round reverses their order."""
    for competitor in chain.from_iterable(groups):
        with noting_failure(competitor):
            competitor.load(workload)
    for number, batch in enumerate(workload.batches):
        for competitor in chain.from_iterable(group[:: (-1) ** number] for group in groups):
            if not competitor.has_failed:
                with noting_failure(competitor):
                    competitor.upsert(number, batch)


@contextmanager
def noting_failure(competitor: Competitor) -> Iterator[None]:
    """Go on without an engine that fails, unless it is ours."""
    try:
        yield
    except OrderError as error:
        if competitor.product == OURS:
            raise
        competitor.has_failed = True
        sys.stderr.write(f"{competitor.name} failed, and is left out from here on: {error}\n")


@contextmanager
def competing(
    folder: Path,
    products: Mapping[str, Product],
    heaps: Mapping[str, str] = MappingProxyType({}),
    master: str = LOCAL,
) -> Iterator[list[Competitor]]:
    """All engines, ours first, each product in a process of its own.

    Args:
        folder: for tables and settings.
        products: the engines, by the name of their product.
        heaps: memory of the Java process of a product; 2 GiB where it says nothing.
        master: where the tasks of all engines run.
    """
    with ExitStack() as running:
        options = {
            engine: start(folder, running)
            for engine, start in _SERVERS.items()
            if any(engine in product.engines for product in products.values())
        }
        competitors: list[Competitor] = []
        for number, (name, product) in enumerate(products.items()):
            tables = folder / f"tables-{number}"
            tables.mkdir()
            arguments = [name, str(tables), str(folder), heaps.get(name, "2g"), master]
            process = running.enter_context(OrderedProcess("benchmarks.peers.worker", arguments, REPOSITORY))
            for engine in product.engines:
                table = engine.replace(" ", "-")
                competitors.append(Competitor(name, engine, process, options.get(engine, {}), table))
        yield competitors


def _start_hbase(folder: Path, running: ExitStack) -> Mapping[str, str]:
    """Start a server with the table that Hudi wants."""
    zookeeper, thrift = free_ports(2)
    running.enter_context(hbase_on_host(thrift, zookeeper))
    with closing(happybase.Connection("127.0.0.1", thrift)) as connection:
        connection.create_table(_HBASE_TABLE, {FAMILY.decode(): {}})
    write_client_settings(folder)
    return hbase_options(zookeeper, _HBASE_TABLE)


def _start_redis(folder: Path, running: ExitStack) -> Mapping[str, str]:
    """Start a server that keeps a log on its disk, as docker/redis has it."""
    _ = folder
    return {SERVER: running.enter_context(running_redis())}


_SERVERS: Final = {HBASE: _start_hbase, REDIS: _start_redis}
"""By the engines that need them: what starts a server, and returns the options of the engine."""
