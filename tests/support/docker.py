"""Real servers for tests, each in a container whose image is built from docker/<name>.

A fixture of session scope keeps one server for all tests that use it::

    @pytest.fixture(scope="session")
    def hbase() -> Iterator[Service]:
        with running_service("hbase", ports=[9090]) as service:
            yield service

Without Docker such a fixture skips its tests, with the reason; RLI_REQUIRE_ALL=1 makes that a failure.
"""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Final

import pytest
from docker.errors import APIError, DockerException
from testcontainers.core.config import ConnectionMode, testcontainers_config
from testcontainers.core.container import DockerContainer
from testcontainers.core.docker_client import DockerClient
from testcontainers.core.image import DockerImage
from testcontainers.core.wait_strategies import ExecWaitStrategy

DOCKERFILES: Final = Path(__file__).resolve().parents[2] / "docker"
_STARTUP_SECONDS: Final = 180

# Containers carry the process that started them: what a killed test run has left is removed by the next one.
_OWNER: Final = "rli.tests.owner"

# testcontainers would start a helper, from an image of its own, that does the same.
testcontainers_config.ryuk_disabled = True
# Ports are published on this host also where the tests themselves run in a container.
if testcontainers_config.connection_mode_override is None:
    testcontainers_config.connection_mode_override = ConnectionMode.docker_host


@dataclass(frozen=True, slots=True)
class Service:
    """A server in a running container.

    Attributes:
        container: the container, for faults that only Docker can bring about.
        host: where its ports are reached.
        ports: the port on ``host`` for each port in the container.
    """

    container: DockerContainer
    host: str
    ports: Mapping[int, int]

    def address(self, port: int) -> str:
        """Where a port of the container is reached, as host:port."""
        return f"{self.host}:{self.ports[port]}"

    def run(self, *command: str) -> str:
        """Run a command in the container; its output. Fails the test if the command fails."""
        code, output = self.container.exec(list(command))
        text: str = output.decode(errors="replace")
        assert code == 0, f"command failed in the container: command={command} status={code} output={text}"
        return text

    def start(self, *command: str) -> None:
        """Start a command in the container and let it run."""
        self.container.get_wrapped_container().exec_run(list(command), detach=True)


@contextmanager
def running_service(
    name: str,
    *,
    ports: Sequence[int] = (),
    same_ports: Sequence[int] = (),
    environment: Mapping[str, str] | None = None,
    folders: Mapping[str, str] | None = None,
    network: str | None = None,
) -> Iterator[Service]:
    """The server of docker/<name> in a container that lives as long as the context.

    Args:
        name: folder below docker/; its image has a command ``is-ready`` that succeeds when the server is.
        ports: ports in the container to publish.
        same_ports: ports to publish under the same number; they must be free on this host.
        environment: variables for the container.
        folders: folders of this host that the container sees, and where it sees them.
        network: "host" for a server whose clients must reach every port that it opens; ``ports`` and
            ``same_ports`` publish nothing then.
    """
    _require_docker()
    _remove_leftovers()
    container = DockerContainer(image_of(name)).with_exposed_ports(*ports).with_envs(**(environment or {}))
    for port in same_ports:
        container.with_bind_ports(port, port)
    for folder, inside in (folders or {}).items():
        container.with_volume_mapping(folder, inside, "rw")
    # Asked once, below: the image's own health check would start a process every few seconds, in each container.
    container.with_kwargs(
        labels={_OWNER: _owner(os.getpid())},
        healthcheck={"test": ["NONE"]},
        **({} if network is None else {"network_mode": network}),
    )
    container.waiting_for(ExecWaitStrategy(["is-ready"]).with_startup_timeout(_STARTUP_SECONDS).with_poll_interval(0.2))
    with container:
        host = container.get_container_host_ip()
        published = {port: int(container.get_exposed_port(port)) for port in ports}
        yield Service(container, host, published | {port: port for port in same_ports})


@cache
def image_of(name: str) -> str:
    """The id of the image of docker/<name>, which is built where it is not yet."""
    image = DockerImage(DOCKERFILES / name, tag=f"rli-tests/{name}", clean_up=False).build()
    # Not its tag: that is anybody's who builds from another checkout at the same time.
    return str(image.get_wrapped_image().id)


def free_ports(count: int) -> list[int]:
    """Ports of this host that nobody listens on, low enough that a Redis Cluster's bus fits above them."""
    found: list[int] = []
    for port in random.sample(range(20_000, 32_000), 200):
        if len(found) == count:
            break
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.append(port)
    return found


def _require_docker() -> None:
    try:
        DockerClient().client.ping()
    except DockerException as error:
        pytest.skip(f"needs Docker, and no daemon answers ({error}): run .ci/docker, or install and start it")


def _remove_leftovers() -> None:
    containers = DockerClient().client.containers
    for container in containers.list(all=True, filters={"label": _OWNER}, ignore_removed=True):
        host, _, process = container.labels[_OWNER].rpartition("/")
        if host == socket.gethostname() and not Path(f"/proc/{process}").exists():
            try:
                container.remove(force=True, v=True)
            except APIError as error:
                # Another process that finds it, or the daemon itself, is removing it or has just done so.
                if error.status_code not in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
                    raise


def _owner(process: int) -> str:
    return f"{socket.gethostname()}/{process}"
