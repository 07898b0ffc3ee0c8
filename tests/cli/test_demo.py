from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import rli as library
from tests.cli.conftest import Rli


def require_end(out: str, folder: str) -> None:
    """The demo went through to its end, and its table is as it says."""
    assert "✓ the table holds 14,785 domains" in out
    assert "✓ index and table agree on all 14,782 records" in out
    assert f"rli lookup {folder} " in out
    table = library.open_table(folder)
    assert table.read(columns=["domain_name"]).num_rows == 14_782
    assert table.verify_index().agrees


def test_the_demo_in_plain_python_may_be_repeated(rli: Rli) -> None:
    first = rli("demo", "--engine", "local", "--dir", "d").out
    require_end(first, "d")
    made = Path("d/.hoodie/hoodie.properties").stat().st_ino
    (Path("d") / "left-behind").touch()
    require_end(rli("demo", "--engine", "local", "--dir", "d").out, "d")
    assert Path("d/.hoodie/hoodie.properties").stat().st_ino != made or not (Path("d") / "left-behind").exists()


def test_the_demo_leaves_other_folders_alone(rli: Rli, trips: str) -> None:
    refused = rli("demo", "--dir", trips, status=2).err
    assert "--dir" in refused
    assert len(rli("read", trips, "--json").json) == 3


@pytest.mark.spark
@pytest.mark.slow
def test_the_demo_with_spark(tmp_path: Path) -> None:
    outcome = subprocess.run(
        [sys.executable, "-m", "rli", "demo", "--dir", "d", "--engine", "spark"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stderr
    assert "2024-04 upsert spark" in outcome.stdout
    require_end(outcome.stdout.replace(" d ", f" {tmp_path}/d "), f"{tmp_path}/d")
