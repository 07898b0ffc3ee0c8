"""``rli bench``: figures, files and errors."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.spark import REPOSITORY

_RLI = "from rli.cli.app import app; app()"


def test_benchmark_writes_figures_and_charts(tmp_path: Path) -> None:
    run = _rli("bench", "index_size", "--quick", "--json", "--output", str(tmp_path / "results"))

    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) == json.loads((tmp_path / "results" / "results.json").read_text())
    assert [outcome["baseline"] for outcome in json.loads(run.stdout)["index_size"]] == ["1 entry", "1 entry"]
    assert (tmp_path / "results" / "index_size.svg").read_text().startswith("<svg")


def test_an_unknown_benchmark_is_named(tmp_path: Path) -> None:
    run = _rli("bench", "lmdb_stroe", "--output", str(tmp_path))

    assert run.returncode == 2
    assert "no such benchmark: lmdb_stroe" in run.stderr


def test_installed_package_locates_benchmarks(tmp_path: Path) -> None:
    shutil.copytree(REPOSITORY / "rli", tmp_path / "rli")

    run = _rli("bench", PYTHONPATH=str(tmp_path))

    assert run.returncode == 2
    assert "clone the repository and run: make bench" in run.stderr


def _rli(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-c", _RLI, *arguments],
        cwd=REPOSITORY.parent,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
