"""A standalone cluster of Spark loses one of its two workers during an upsert."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pyspark
import pytest

from tests.support.java import SHORT_LIVED_SPARK
from tests.support.spark import REPOSITORY
from tests.support.waiting import eventually

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.one_spark]

APPLICATION = Path(__file__).with_name("standalone_application.py")
MASTER_URL = re.compile(r"spark://127\.0\.0\.1:\d+")


@contextmanager
def daemon(name: str, log: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
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


def environment_of_children() -> dict[str, str]:
    """Of processes that import this checkout."""
    paths = [REPOSITORY, REPOSITORY / "backends", REPOSITORY / "spark"]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), "PYSPARK_PYTHON": sys.executable}


def is_registered(worker_log: Path) -> bool:
    """Whether the master knows a worker, as that one's log says."""
    return "Successfully registered" in worker_log.read_text()


def test_upsert_survives_killed_worker(tmp_path: Path) -> None:
    with ExitStack() as cluster:
        log = tmp_path / "master.log"
        cluster.enter_context(daemon("master.Master", log, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"))
        eventually(lambda: MASTER_URL.search(log.read_text()), "the master's address in its log")
        found = MASTER_URL.search(log.read_text())
        assert found is not None
        options = ("--cores", "1", "--memory", "768m", "--webui-port", "0", "--work-dir", str(tmp_path / "work"))
        workers = []
        for host in ("127.0.0.2", "127.0.0.3"):
            worker_log = tmp_path / f"worker-{host}.log"
            worker = daemon("worker.Worker", worker_log, found[0], "--host", host, *options)
            workers.append(cluster.enter_context(worker))
            eventually(partial(is_registered, worker_log), "a worker's registration")
        command = [sys.executable, str(APPLICATION), found[0], str(tmp_path), str(workers[0].pid)]
        done = subprocess.run(command, env=environment_of_children(), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert workers[0].wait() < 0
