"""What tests of the HBase store need of HBase itself, beyond what its Thrift interface gives."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import happybase

from rli.store.contract import Store
from rli.testing.batches import key_batch
from tests.support.docker import Service
from tests.support.services import HBASE_PORT, SPARE_HBASE_PORT

_START = (
    "echo $$ >/tmp/spare.pid; exec hbase-java 96m org.apache.hadoop.hbase.thrift.ThriftServer start -b 0.0.0.0 -p {} {}"
)


def new_table() -> str:
    """A table's name that nobody else uses."""
    return f"t_{uuid4().hex}"


def hbase_url(service: Service, table: str, **options: object) -> str:
    """The URL of an index in the container."""
    return url_of(service.host, service.ports[HBASE_PORT], table, **options)


def url_of(host: str, port: int, table: str, **options: object) -> str:
    """The URL of an index behind any Thrift server."""
    return f"hbase://{host}:{port}/?table={table}" + "".join(f"&{name}={value}" for name, value in options.items())


@contextmanager
def happybase_connection(service: Service) -> Iterator[happybase.Connection]:
    """HBase without rli. Thrift servers close connections that lie idle for a minute."""
    connection = happybase.Connection(service.host, service.ports[HBASE_PORT], timeout=60_000)
    try:
        yield connection
    finally:
        connection.close()


@contextmanager
def spare_thrift_server(service: Service, *options: str) -> Iterator[tuple[str, int]]:
    """A second Thrift server of the same HBase, which may be killed; gives host and port."""
    start_spare(service, *options)
    try:
        yield service.host, service.ports[SPARE_HBASE_PORT]
    finally:
        kill_spare(service)


def start_spare(service: Service, *options: str) -> None:
    """Start the second Thrift server and wait until it answers; with options, that is left to who can talk to it."""
    service.start("sh", "-c", _START.format(SPARE_HBASE_PORT, " ".join(options)))
    if not options:
        service.run("sh", "-c", f"until is-ready {SPARE_HBASE_PORT} 2>/dev/null; do sleep 0.1; done")


def kill_spare(service: Service) -> None:
    """Kill the second Thrift server."""
    service.run("sh", "-c", "kill -KILL $(cat /tmp/spare.pid)")


def create_table(service: Service, table: str, *rows: bytes) -> None:
    """Create a table for an index as docs/stores/hbase.md advises, with a region from each of the rows."""
    _administer(service, "create", table, *(row.hex() for row in rows))


def split_region(service: Service, table: str, *rows: bytes) -> None:
    """Split the regions that hold the rows, at these rows."""
    _administer(service, "split", table, *(row.hex() for row in rows))


def move_regions(service: Service, table: str) -> None:
    """Close every region of a table and open it again."""
    _administer(service, "move", table)


def flush(service: Service, table: str) -> None:
    """Write a table's memory to files."""
    _administer(service, "flush", table)


def timed_get(store: Store, keys: list[bytes]) -> tuple[float, float]:
    """Read keys of shard 0; when that began and when it ended, in seconds since the epoch."""
    began = time.time()
    store.get(key_batch(keys))
    return began, time.time()


def _administer(service: Service, *command: str) -> None:
    service.run("hbase-java", "96m", "RegionAdmin", *command)
