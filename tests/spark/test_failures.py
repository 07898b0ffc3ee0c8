"""Tasks that are repeated, raced, abandoned or computed again write and index nothing twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

import rli
from tests.support.spark import REPOSITORY
from tests.support.tables import check_stored, stray_files

pytestmark = [pytest.mark.spark, pytest.mark.one_spark, pytest.mark.slow]

_ROWS = 4_000

Scenarios = tuple[str, ...]

APPLICATIONS: Final[tuple[Scenarios, ...]] = (
    ("task-fails", "straggler", "driver-dies"),
    ("executors-die-at-work",),
    ("speculation",),
)
"""Scenarios by the Spark application that runs them; one that kills the driver is the last of its application."""


@dataclass(frozen=True)
class Job:
    """An application that has ended; each scenario has a folder."""

    folder: Path
    status: int

    def table(self, scenario: str) -> rli.Table:
        return rli.open_table(self.folder / scenario / "trips")


@pytest.fixture(scope="module")
def job_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Scenarios], Job]:
    """Runs some scenarios in a process, and so in a Spark application, of its own; once for all tests of them."""

    @cache
    def run(scenarios: Scenarios) -> Job:
        folder = tmp_path_factory.mktemp("job")
        script = Path(__file__).with_name("upsert_under_failure.py")
        paths = os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH")]))
        environment = {**os.environ, "PYTHONPATH": paths, "PYSPARK_PYTHON": sys.executable}
        ended = subprocess.run([sys.executable, str(script), str(folder), *scenarios], check=False, env=environment)
        assert ended.returncode in {0, -signal.SIGKILL}
        return Job(folder, ended.returncode)

    return run


@pytest.mark.parametrize(
    ("scenarios", "scenario"),
    # In CI, test_executor_losses has dead executors.
    [
        pytest.param(scenarios, scenario, marks=[pytest.mark.soak] if scenario == "executors-die-at-work" else [])
        for scenarios in APPLICATIONS
        for scenario in scenarios
        if scenario != "driver-dies"
    ],
)
def test_nothing_is_written_or_indexed_twice(
    job_of: Callable[[Scenarios], Job], scenarios: Scenarios, scenario: str
) -> None:
    table = job_of(scenarios).table(scenario)
    rows = table.read(columns=["id", "fare"])
    assert rows.num_rows == _ROWS + _ROWS // 2
    assert len(set(rows.column("id").to_pylist())) == rows.num_rows
    assert sum(rows.column("fare").to_pylist()) == 2_000 * 1.0 + 4_000 * 1.5
    assert stray_files(table, table.timeline()[-1].time) == set()
    check_stored(table)
    # Another writer goes on.
    more = pa.table({"id": ["k0", "more"], "city": ["0", "1"], "fare": [2.0, 2.0]})
    assert table.upsert(more).inserted == 1
    assert table.read().num_rows == rows.num_rows + 1
    check_stored(table)


def test_dead_driver_leaves_nothing_behind(job_of: Callable[[Scenarios], Job]) -> None:
    job = job_of(APPLICATIONS[0])
    assert job.status == -signal.SIGKILL
    table = job.table("driver-dies")
    assert table.read().num_rows == _ROWS
    table.delete(["k0"])
    assert table.read().num_rows == _ROWS - 1
    assert table.verify_index().agrees
    assert all(instant.is_completed for instant in table.timeline())
