"""Processes that open a table keep Arrow's arrays in memory of the C library, unless their user has chosen."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rli import create_table

_OPEN = """
import sys
import pyarrow as pa
import rli
rli.open_table(sys.argv[1])
print(pa.default_memory_pool().backend_name)
"""


@pytest.mark.parametrize(("chosen", "expected"), [(None, "system"), ("mimalloc", "mimalloc")])
def test_opened_tables_choose_the_memory(tmp_path: Path, chosen: str | None, expected: str) -> None:
    create_table(tmp_path / "t", record_key="id", ordering="ts", index=f"lmdb://{tmp_path}/i")
    environment = {**os.environ, **({} if chosen is None else {"ARROW_DEFAULT_MEMORY_POOL": chosen})}
    ran = subprocess.run(
        [sys.executable, "-c", _OPEN, tmp_path / "t"], env=environment, capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == expected
