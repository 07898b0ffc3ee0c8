"""The Redis store keeps the contract, on every kind of servers and on every version that is promised."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar
from uuid import uuid4

import pytest
import redis

from rli.testing import StoreConformance
from tests.support.docker import Service, running_service
from tests.support.redis import as_user, client_of, give_rights, rights_of
from tests.support.services import REDIS_PORT

pytestmark = pytest.mark.docker


class RedisConformance(StoreConformance):
    """The suite on servers that a fixture of the class finds out, by a user who has the least rights that suffice."""

    base_url: ClassVar[str]
    options: ClassVar[str] = ""
    servers: ClassVar[list[redis.Redis]]

    def make_url(self, tmp_path: Path) -> str:
        _ = tmp_path
        name = uuid4().hex
        give_rights("conformance", rights_of(name), *self.servers)
        return f"{as_user(self.base_url, 'conformance')}?name={name}{self.options}"


class TestOneServer(RedisConformance):
    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _servers(cls, redis_server: Service) -> None:
        cls.base_url = f"redis://{redis_server.address(REDIS_PORT)}/0"
        cls.servers = [client_of(redis_server)]


class TestStoreOfColumn(TestOneServer):
    """Its keys are found by how they begin."""

    options = "&prefix=8"


class TestIndependentServers(RedisConformance):
    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _servers(cls, redis_server: Service, second_redis_server: Service) -> None:
        addresses = [redis_server.address(REDIS_PORT), second_redis_server.address(REDIS_PORT)]
        cls.base_url = f"redis+shards://{','.join(addresses)}/3"
        cls.servers = [client_of(redis_server), client_of(second_redis_server)]


class TestCluster(RedisConformance):
    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _servers(cls, redis_cluster: Service) -> None:
        first = next(iter(redis_cluster.ports))
        cls.base_url = f"redis+cluster://{redis_cluster.address(first)}"
        cls.servers = [client_of(redis_cluster, port) for port in redis_cluster.ports]


class OtherVersion(RedisConformance):
    """A server that Debian does not have."""

    server: ClassVar[str]

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _servers(cls) -> Iterator[None]:
        with running_service("redis", ports=[REDIS_PORT], environment={"SERVER": cls.server}) as service:
            cls.base_url = f"redis://{service.address(REDIS_PORT)}/0"
            cls.servers = [client_of(service)]
            yield


class TestRedis62(OtherVersion):
    server = "redis-6.2"


class TestValkey(OtherVersion):
    server = "valkey-9.1"
