"""One Spark session for all tests of this folder, and tables to write with it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import rli
from tests.support.spark import spark_session


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    return spark_session()


@pytest.fixture
def table(tmp_path: Path) -> rli.Table:
    return rli.create_table(
        tmp_path / "trips",
        record_key="id",
        partition_by="city",
        ordering="ts",
        index=f"lmdb://{tmp_path / 'index'}",
        target_file_size=64 * 1024,
    )
