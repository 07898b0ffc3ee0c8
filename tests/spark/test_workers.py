"""Spark's Python workers: those that cannot do the work are refused at once, in one line."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyspark
import pytest

import rli
import rli_spark
from tests.support.spark import REPOSITORY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def parent_of_task(_: int) -> int:
    return os.getppid()


def visited_and_left_out(_: int) -> tuple[int, int]:
    return len(gc.get_objects()), gc.get_freeze_count()


def test_workers_with_other_python_are_refused(
    spark: SparkSession, table: rli.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = tmp_path / "python3"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "$@"\n')
    bare.chmod(0o755)
    df = spark.createDataFrame([("a", "Rome", 1)], "id string, city string, ts long")
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(bare))
    for work in (
        lambda: rli_spark.upsert(df, table),
        lambda: rli_spark.tag(df, table),
        lambda: rli_spark.delete(df.select("id"), table),
    ):
        with pytest.raises(rli.SettingsError, match=r"no module rli.*set PYSPARK_PYTHON=") as caught:
            work()
        assert "\n" not in str(caught.value)
    assert table.timeline() == ()


@pytest.mark.one_spark
def test_renamed_capable_python_is_accepted(
    spark: SparkSession, table: rli.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrapped = tmp_path / "python-with-a-name"
    wrapped.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    wrapped.chmod(0o755)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(wrapped))
    df = spark.createDataFrame([("a", "Rome", 1)], "id string, city string, ts long")
    assert rli_spark.upsert(df, table).inserted == 1


def test_tasks_share_the_workers_of_frames(spark: SparkSession) -> None:
    def parent(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from (pa.RecordBatch.from_pydict({"pid": [os.getppid()]}) for _ in batches)

    rows = spark.range(0, 2, 1, 2).mapInArrow(parent, "pid long").collect()
    assert set(rli_spark.SparkTasks(spark).run(parent_of_task, range(2))) == {row.pid for row in rows}
    assert "SPARK_SIMPLIFIED_TRACEBACK" not in spark.sparkContext.environment


def test_collections_skip_loaded_modules(spark: SparkSession) -> None:
    for visited, left_out in rli_spark.SparkTasks(spark).run(visited_and_left_out, range(2)):
        assert visited < left_out / 2


@pytest.mark.one_spark
def test_executors_without_rli_are_refused(tmp_path: Path) -> None:
    bare = tmp_path / "python3"
    # Without its site packages; Spark itself brings what its workers need to start.
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    bare.chmod(0o755)
    spark_home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "SPARK_HOME": str(spark_home),
        "PYSPARK_PYTHON": str(bare),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    environment.pop("PYTHONPATH", None)
    program = Path(__file__).with_name("cluster_without_rli.py")
    sources = f"import sys; sys.path[:0] = {[str(REPOSITORY / name) for name in ('.', 'backends', 'spark')]!r}"
    command = f"{sources}; import runpy; sys.argv = [sys.argv[0], {str(tmp_path)!r}]; runpy.run_path({str(program)!r}, run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", command], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    [line] = done.stdout.splitlines()
    assert re.match(r"executors lack what the work needs: [^;]+: no module rli, .*spark\.archives", line)
