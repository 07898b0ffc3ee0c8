"""Spark's Python workers: those that cannot do the work are refused at once, in one line."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import rli
import rli_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_workers_with_another_python_are_refused_before_anything_is_written(
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


def test_another_name_of_a_python_that_can_do_the_work_is_none_of_rlis_business(
    spark: SparkSession, table: rli.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrapped = tmp_path / "python-with-a-name"
    wrapped.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    wrapped.chmod(0o755)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(wrapped))
    df = spark.createDataFrame([("a", "Rome", 1)], "id string, city string, ts long")
    assert rli_spark.upsert(df, table).inserted == 1
