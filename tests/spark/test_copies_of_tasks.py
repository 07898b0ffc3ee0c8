"""Spark runs copies of rli's own tasks, and computes again what a shuffle has lost: the table is exact (P19).

Spark's event log tells that both happened, and in which jobs.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import rli
from tests.spark.task_copies import BLOCKS, EVENTS, expected
from tests.support.spark import prepare_workers
from tests.support.spark_cluster import environment_of_children, standalone_cluster
from tests.support.tables import check_stored, stray_files

pytestmark = [pytest.mark.spark, pytest.mark.one_spark, pytest.mark.slow, pytest.mark.invariant("P19")]

APPLICATION = Path(__file__).with_name("task_copies.py")


@dataclass(frozen=True)
class Told:
    """What an event log tells of the tasks of each job, by the job's description.

    Attributes:
        copies: that were started.
        failed_fetches: tasks that did not find what others had shuffled.
        killed: attempts that lost a race.
    """

    copies: Counter[str]
    failed_fetches: Counter[str]
    killed: Counter[str]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the application, which has ended."""
    prepare_workers()
    folder = tmp_path_factory.mktemp("copies")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("SPARK_LOCAL_DIRS", str(folder / BLOCKS))
        with standalone_cluster(folder, memory="768m") as cluster:
            workers = [str(worker.pid) for worker in cluster.workers]
            command = [sys.executable, str(APPLICATION), cluster.master, str(folder), *workers]
            done = subprocess.run(command, env=environment_of_children(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def told(folder: Path) -> Told:
    told, descriptions = Told(Counter(), Counter(), Counter()), dict[int, str]()
    for event in events_of(folder):
        if event["Event"] == "SparkListenerJobStart":
            description = event["Properties"].get("spark.job.description", "")
            descriptions.update(dict.fromkeys(event["Stage IDs"], description))
        elif event["Event"] == "SparkListenerTaskStart" and event["Task Info"]["Speculative"]:
            told.copies[descriptions[event["Stage ID"]]] += 1
        elif event["Event"] == "SparkListenerTaskEnd":
            reason = event["Task End Reason"]["Reason"]
            told.failed_fetches[descriptions[event["Stage ID"]]] += reason == "FetchFailed"
            told.killed[descriptions[event["Stage ID"]]] += reason == "TaskKilled"
    return told


def events_of(folder: Path) -> Iterator[dict[str, Any]]:
    """The events that Spark has logged."""
    for path in (folder / EVENTS).rglob("*"):
        if path.is_file() and path.stat().st_size:
            yield from map(json.loads, path.read_text().splitlines())


@pytest.mark.parametrize("job", ["tag", "write", "write group", "apply journals"])
def test_tasks_of_job_were_copied(told: Told, job: str) -> None:
    assert told.copies[f"rli: {job}"] > 0
    assert told.killed[f"rli: {job}"] > 0


def test_shuffled_rows_of_writes_were_lost(told: Told) -> None:
    assert told.failed_fetches["rli: write"] > 0


def test_table_is_exact_despite_both(folder: Path) -> None:
    table = rli.open_table(folder / "table")
    rows = table.read(columns=["id", "city", "ts"])
    assert rows.num_rows == len(expected())
    assert {*zip(*(column.to_pylist() for column in rows.columns), strict=True)} == expected()
    assert table.verify_index().agrees
    assert stray_files(table, table.timeline()[-1].time) == set()
    # The next write removes what late copies have left in the folder of a write that had ended.
    assert table.delete(["k0"]).deleted == 1
    check_stored(table)
