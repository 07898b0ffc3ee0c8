"""Tables to write with Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

import rli
from tests.support.folders import tmp_path, tmp_path_factory

__all__ = ["tmp_path", "tmp_path_factory"]


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
