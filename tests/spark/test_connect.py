"""Spark Connect: everything works without a context, RDDs or a JVM in the client's process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from tests.support.spark import REPOSITORY

CLIENT = Path(__file__).with_name("connect_client.py")


@pytest.mark.spark
@pytest.mark.skip_allowed("PySpark 3.5 does not bring the server's jar")
@pytest.mark.skipif(pyspark.__version__.startswith("3."), reason="PySpark 3.5 does not bring the server's jar")
def test_connect_client_can_do_everything(tmp_path: Path) -> None:
    paths = [REPOSITORY, REPOSITORY / "backends", REPOSITORY / "spark"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
    done = subprocess.run(
        [sys.executable, str(CLIENT), str(tmp_path)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
