"""Tasks that are repeated, raced, abandoned or computed anew write and index nothing twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import rli
from tests.support.spark import REPOSITORY
from tests.support.tables import check_stored

pytestmark = [pytest.mark.spark, pytest.mark.slow]

_ROWS = 4_000


def run_job(tmp_path: Path, scenario: str) -> rli.Table:
    """Run ``upsert_under_failure.py`` in a process, and so in a Spark application, of its own."""
    script = Path(__file__).with_name("upsert_under_failure.py")
    paths = os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH")]))
    subprocess.run(
        [sys.executable, str(script), scenario, str(tmp_path)],
        check=True,
        env={**os.environ, "PYTHONPATH": paths, "PYSPARK_PYTHON": sys.executable},
    )
    return rli.open_table(tmp_path / "trips")


@pytest.mark.parametrize(
    "scenario", ["task-fails", "straggler", "executor-dies", "executors-die-at-work", "speculation"]
)
def test_nothing_is_written_or_indexed_twice(tmp_path: Path, scenario: str) -> None:
    table = run_job(tmp_path, scenario)
    rows = table.read(columns=["id", "fare"])
    assert rows.num_rows == _ROWS + _ROWS // 2
    assert len(set(rows.column("id").to_pylist())) == rows.num_rows
    assert sum(rows.column("fare").to_pylist()) == 2_000 * 1.0 + 4_000 * 1.5
    base_files = {file_slice.path for file_slice in table.snapshot().slices.values()}
    latest = table.timeline()[-1].time
    on_disk = {str(file.relative_to(tmp_path / "trips")) for file in (tmp_path / "trips").rglob(f"*_{latest}.parquet")}
    assert on_disk == {path for path in base_files if path.endswith(f"_{latest}.parquet")}
    check_stored(table)
    # Another writer goes on.
    more = pa.table({"id": ["k0", "more"], "city": ["0", "1"], "fare": [2.0, 2.0]})
    assert table.upsert(more).inserted == 1
    assert table.read().num_rows == rows.num_rows + 1
    check_stored(table)


def test_a_driver_that_dies_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError) as failure:
        run_job(tmp_path, "driver-dies")
    assert failure.value.returncode == -signal.SIGKILL
    table = rli.open_table(tmp_path / "trips")
    assert table.read().num_rows == _ROWS
    table.delete(["k0"])
    assert table.read().num_rows == _ROWS - 1
    assert table.verify_index().agrees
    assert all(instant.is_completed for instant in table.timeline())
