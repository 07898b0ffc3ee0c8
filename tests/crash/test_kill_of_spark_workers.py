"""A standalone cluster of Spark loses one of its two workers during an upsert."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.spark_cluster import environment_of_children, standalone_cluster

pytestmark = [pytest.mark.crash, pytest.mark.spark, pytest.mark.one_spark]

APPLICATION = Path(__file__).with_name("standalone_application.py")


def test_upsert_survives_killed_worker(tmp_path: Path) -> None:
    with standalone_cluster(tmp_path, memory="768m") as cluster:
        killed, _ = cluster.workers
        command = [sys.executable, str(APPLICATION), cluster.master, str(tmp_path), str(killed.pid)]
        done = subprocess.run(command, env=environment_of_children(), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert killed.wait() < 0
