"""A table whose index is on a server that fails while records are written: no record lost, none twice, no wrong tag."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event

import pytest

import rli
from tests.support.checked_writer import KEYS, CheckedWriter
from tests.support.docker import Service
from tests.support.hbase import (
    hbase_url,
    kill_spare,
    move_regions,
    new_table,
    spare_thrift_server,
    split_region,
    start_spare,
)
from tests.support.hbase import url_of as hbase_url_of
from tests.support.redis import SpareServer, cluster_url, spare_server
from tests.support.redis import url_of as redis_url_of
from tests.support.redis_cluster import Cluster
from tests.support.tcp_proxy import TcpProxy, tcp_proxy
from tests.support.waiting import eventually

pytestmark = [pytest.mark.docker, pytest.mark.slow]

DURABLE = ("--appendonly", "yes", "--appendfsync", "always")


@contextmanager
def work_going_on(folder: Path, url: str) -> Iterator[Callable[[], None]]:
    """A writer at work; gives a function that waits until it has got further. All is checked in the end."""
    writer = CheckedWriter(folder, url)
    writer.write()
    is_over = Event()

    def work() -> None:
        while not is_over.is_set():
            writer.write()

    with ThreadPoolExecutor(1) as threads:
        working = threads.submit(work)

        def until_more_is_done() -> None:
            already = writer.rounds

            def is_further() -> bool:
                if working.done():
                    working.result()
                return writer.rounds > already + 1

            eventually(is_further, "the writer goes on")

        try:
            until_more_is_done()
            yield until_more_is_done
        finally:
            is_over.set()
        working.result()
    writer.require_all()
    writer.table.drop_index()


@pytest.fixture
def spare(redis_server: Service) -> Iterator[SpareServer]:
    with spare_server(redis_server, *DURABLE) as server:
        yield server


@pytest.fixture
def proxy(spare: SpareServer) -> Iterator[TcpProxy]:
    with tcp_proxy(spare.target) as proxy:
        yield proxy


def test_redis_server_is_killed_and_started(spare: SpareServer, tmp_path: Path) -> None:
    with work_going_on(tmp_path, spare.url()) as until_more_is_done:
        for _ in range(3):
            spare.kill()
            spare.start(*DURABLE)
            until_more_is_done()


def test_connections_to_redis_are_cut(proxy: TcpProxy, tmp_path: Path) -> None:
    with work_going_on(tmp_path, redis_url_of(proxy.host, proxy.port)) as until_more_is_done:
        for _ in range(3):
            proxy.cut_all()
            until_more_is_done()


def test_redis_answers_late(proxy: TcpProxy, tmp_path: Path) -> None:
    writer = CheckedWriter(tmp_path, redis_url_of(proxy.host, proxy.port))
    writer.write()
    proxy.delay_seconds = 0.05
    writer.write()
    proxy.delay_seconds = 0
    writer.require_all()


def test_restored_redis_server_is_healed(spare: SpareServer, tmp_path: Path) -> None:
    """What it acknowledged since is lost with it, and found again on the table's timeline by the next write."""
    with spare.client() as raw:
        writer = CheckedWriter(tmp_path, spare.url())
        for _ in range(2):
            writer.write()
        raw.config_set("appendonly", "no")
        raw.save()
        for _ in range(4):
            writer.write()
        spare.kill()
        spare.start()
        with pytest.raises(rli.IndexNotReadyError, match="older than the table"):
            writer.table.lookup(KEYS, timeout=0)
        writer.write()
        writer.require_all()


def test_redis_cluster_masters_change(cluster: Cluster, tmp_path: Path) -> None:
    with work_going_on(tmp_path, cluster_url(cluster.service)) as until_more_is_done:
        for _ in range(2):
            cluster.fail_over_to(min(node.port for node in cluster.nodes() if node.is_replica))
            cluster.await_order()
            until_more_is_done()


def test_slots_of_a_redis_cluster_move(cluster: Cluster, tmp_path: Path) -> None:
    with work_going_on(tmp_path, cluster_url(cluster.service)) as until_more_is_done:
        one, other = sorted(cluster.masters().items())[:2]
        for source, target in ((one, other), (other, one)):
            cluster.service.run(
                *("redis-cli", "--cluster", "reshard", f"127.0.0.1:{source[0]}", "--cluster-yes"),
                *("--cluster-from", source[1], "--cluster-to", target[1], "--cluster-slots", "1500"),
            )
            until_more_is_done()
            cluster.await_order()


def test_hbase_thrift_server_restarts(hbase: Service, tmp_path: Path) -> None:
    with ExitStack() as stack:
        host, port = stack.enter_context(spare_thrift_server(hbase))
        until_more_is_done = stack.enter_context(
            work_going_on(tmp_path, hbase_url_of(host, port, new_table(), timeout=120))
        )
        kill_spare(hbase)
        start_spare(hbase)
        until_more_is_done()


def test_regions_of_hbase_split_and_move(hbase: Service, tmp_path: Path) -> None:
    table = new_table()
    with work_going_on(tmp_path, hbase_url(hbase, table, batch=50)) as until_more_is_done:
        split_region(hbase, table, b"\0\5")
        until_more_is_done()
        move_regions(hbase, table)
        until_more_is_done()
