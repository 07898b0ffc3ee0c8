"""Fixtures of the servers and of Spark, which tests share: each starts once in a session, for the first test that asks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.docker import Service, free_ports, running_service
from tests.support.java import SHORT_LIVED
from tests.support.object_store import ObjectStore, running_object_store
from tests.support.redis_cluster import Cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HBASE_PORT = 9090

SPARE_HBASE_PORT = 9091
"""For a second Thrift server, which a test may start and kill."""

REDIS_PORT = 6379
REDIS_TLS_PORT = 6380
SPARE_REDIS_PORTS = (6390, 6391)
"""For servers with settings of their own, which a test may start and kill."""

REDIS_SOCKET = "/sockets/redis.sock"
"""In the container; the folder is one of this host."""

_NODES = 6


@pytest.fixture(scope="session")
def redis_socket(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where ``redis_server`` also listens."""
    folder = tmp_path_factory.mktemp("sockets")
    folder.chmod(0o777)
    return folder / Path(REDIS_SOCKET).name


@pytest.fixture(scope="session")
def redis_server(redis_socket: Path) -> Iterator[Service]:
    """A Redis server, with TLS and a socket too."""
    environment = {"TLS_PORT": str(REDIS_TLS_PORT), "SOCKET": REDIS_SOCKET}
    folders = {str(redis_socket.parent): str(Path(REDIS_SOCKET).parent)}
    with running_service(
        "redis", ports=[REDIS_PORT, REDIS_TLS_PORT, *SPARE_REDIS_PORTS], environment=environment, folders=folders
    ) as service:
        yield service


@pytest.fixture(scope="session")
def second_redis_server() -> Iterator[Service]:
    """Another Redis server, that knows nothing of the first."""
    with running_service("redis", ports=[REDIS_PORT]) as service:
        yield service


@pytest.fixture(scope="session")
def redis_cluster() -> Iterator[Service]:
    """A Redis Cluster of three masters with a replica each."""
    ports = free_ports(_NODES)
    environment = {"CLUSTER_PORTS": " ".join(map(str, ports))}
    with running_service("redis", same_ports=ports, environment=environment) as service:
        Cluster(service).mend()
        yield service


@pytest.fixture(scope="session")
def hbase() -> Iterator[Service]:
    """A standalone HBase with its Thrift server."""
    environment = {"JAVA_TOOL_OPTIONS": SHORT_LIVED}
    with running_service("hbase", ports=[HBASE_PORT, SPARE_HBASE_PORT], environment=environment) as service:
        yield service


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    """The Spark session of this process, without Hudi."""
    from tests.support.spark import spark_session  # noqa: PLC0415  (PySpark is not in every environment)

    return spark_session()


@pytest.fixture(scope="session")
def object_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    """An S3 server."""
    with running_object_store(tmp_path_factory.mktemp("s3")) as server:
        yield server
