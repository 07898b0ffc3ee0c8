"""A ZooKeeper server of this machine, from the jars of PySpark."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyspark

from tests.support.docker import free_ports
from tests.support.java import SHORT_LIVED
from tests.support.waiting import eventually

_TICK_MILLISECONDS: Final = 1000
"""A session lasts two ticks to twenty."""

_SETTINGS: Final = (
    "-Dzookeeper.admin.enableServer=false",
    "-Dzookeeper.forceSync=no",
    "-Dorg.apache.logging.log4j.level=WARN",
)


@contextmanager
def running_zookeeper(folder: Path) -> Iterator[str]:
    """A server that keeps its data and its log in a folder; gives its host and port."""
    [port] = free_ports(1)
    jars, data = Path(pyspark.__file__).parent / "jars", folder / "zookeeper"
    main = ["-cp", f"{jars}/*", "org.apache.zookeeper.server.ZooKeeperServerMain"]
    command = [
        "java",
        "-Xmx64m",
        *SHORT_LIVED.split(),
        *_SETTINGS,
        *main,
        str(port),
        str(data),
        str(_TICK_MILLISECONDS),
    ]
    with (folder / "zookeeper.log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            eventually(lambda: process.poll() is not None or _is_up(port), "ZooKeeper is up")
            assert process.poll() is None, (folder / "zookeeper.log").read_text()
            yield f"127.0.0.1:{port}"
        finally:
            process.kill()


def _is_up(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False
