"""Executors die, are decommissioned or given back in the middle of writes, and frames do not recompute to the same rows.

All cases share one cluster, in a process of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.spark.executor_losses import IN_FILES, KNOWN, LOAD, ROWS, UPSERTS
from tests.support.spark import REPOSITORY

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("losses")
    paths = os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": paths, "PYSPARK_PYTHON": sys.executable}
    script = Path(__file__).with_name("executor_losses.py")
    command = [sys.executable, str(script), str(folder)]
    done = subprocess.run(command, check=False, env=environment, cwd=folder, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stderr[-5_000:]
    found: dict[str, Any] = json.loads((folder / "results.json").read_text())
    return found


@pytest.mark.invariant("P19")
@pytest.mark.parametrize("case", [*UPSERTS, IN_FILES])
def test_upsert_writes_once_despite_lost_executors(results: dict[str, Any], case: str) -> None:
    assert results[case] == {"counts": [ROWS - KNOWN, 0, KNOWN, 0], "missing": 0, "repeated": 0, "strays": 0}


@pytest.mark.invariant("P19")
def test_load_survives_lost_executors(results: dict[str, Any]) -> None:
    assert results[LOAD] == {"counts": [ROWS, 0, 0, 0], "missing": 0, "repeated": 0, "strays": 0}


def test_delete_survives_lost_executors(results: dict[str, Any]) -> None:
    assert results["delete"] == {"requested": ROWS, "agrees": True}


def test_clustering_survives_lost_executors(results: dict[str, Any]) -> None:
    assert results["cluster"] == {"replaced": True, "same": True}
