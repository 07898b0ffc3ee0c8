"""A standalone cluster of Spark: a master and two workers, each a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import pyspark

from tests.support.java import SHORT_LIVED_SPARK
from tests.support.spark import REPOSITORY
from tests.support.waiting import eventually

_MASTER_URL: Final = re.compile(r"spark://127\.0\.0\.1:\d+")
_HOSTS: Final = ("127.0.0.2", "127.0.0.3")
"""Of the workers."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster that runs.

    Attributes:
        master: its address, as sessions take it.
        workers: processes.
    """

    master: str
    workers: tuple[subprocess.Popen[bytes], ...]


@contextmanager
def standalone_cluster(folder: Path, memory: str, cores: int = 1) -> Iterator[Cluster]:
    """Start a cluster.

    Args:
        folder: for logs, and for the files of executors.
        memory: of a worker, for its executors.
        cores: of a worker; an application takes all that are free, unless it is told otherwise.
    """
    with ExitStack() as running:
        log = folder / "master.log"
        running.enter_context(_daemon("master.Master", log, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"))
        eventually(lambda: _MASTER_URL.search(log.read_text()), "the master's address in its log")
        found = _MASTER_URL.search(log.read_text())
        assert found is not None
        options = ("--cores", str(cores), "--memory", memory, "--webui-port", "0", "--work-dir", str(folder / "work"))
        workers = []
        for host in _HOSTS:
            worker_log = folder / f"worker-{host}.log"
            worker = _daemon("worker.Worker", worker_log, found[0], "--host", host, *options)
            workers.append(running.enter_context(worker))
            eventually(partial(_is_registered, worker_log), "a worker's registration")
        yield Cluster(found[0], tuple(workers))


def environment_of_children() -> dict[str, str]:
    """Of processes that import this checkout."""
    paths = [REPOSITORY, REPOSITORY / "backends", REPOSITORY / "spark"]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), "PYSPARK_PYTHON": sys.executable}


@contextmanager
def _daemon(name: str, log: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process of Spark's own, a master or a worker."""
    home = Path(pyspark.__file__).parent
    environment = {**environment_of_children(), "SPARK_HOME": str(home), "SPARK_DAEMON_JAVA_OPTS": SHORT_LIVED_SPARK}
    command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _is_registered(worker_log: Path) -> bool:
    """Whether the master knows a worker, as that one's log says."""
    return "Successfully registered" in worker_log.read_text()
