"""What tests of the index share."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from tests.support.docker import Service
from tests.support.hbase import hbase_url, new_table
from tests.support.redis import redis_url


@pytest.fixture(params=["memory", "lmdb"])
def index_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A URL where no index is yet, of each store that needs no server."""
    return f"memory:{uuid4().hex}" if request.param == "memory" else f"lmdb://{tmp_path}/index"


@pytest.fixture(
    params=["lmdb", pytest.param("redis", marks=pytest.mark.docker), pytest.param("hbase", marks=pytest.mark.docker)]
)
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A URL where no index is yet, of each store that keeps what it holds."""
    if request.param == "lmdb":
        return f"lmdb://{tmp_path}/index"
    service: Service = request.getfixturevalue("redis_server" if request.param == "redis" else "hbase")
    return redis_url(service) if request.param == "redis" else hbase_url(service, new_table())
