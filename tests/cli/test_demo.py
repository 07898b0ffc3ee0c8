from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import rli as library
from rli.cli.command_line import command_line
from tests.cli.conftest import Rli


def require_end(out: str, folder: str) -> None:
    """The demo went through to its end, and its table is as it says."""
    assert "✓ the table holds 14,785 domains" in out
    assert "✓ index and table agree on all 14,782 records" in out
    assert f" lookup {folder} " in out
    table = library.open_table(folder)
    assert table.read(columns=["domain_name"]).num_rows == 14_782
    assert table.verify_index().agrees


def test_plain_demo_may_be_repeated(rli: Rli) -> None:
    first = rli("demo", "--engine", "local", "--dir", "d").out
    require_end(first, "d")
    made = Path("d/.hoodie/hoodie.properties").stat().st_ino
    (Path("d") / "left-behind").touch()
    require_end(rli("demo", "--engine", "local", "--dir", "d").out, "d")
    assert Path("d/.hoodie/hoodie.properties").stat().st_ino != made or not (Path("d") / "left-behind").exists()


def test_printed_demo_commands_work(tmp_path: Path) -> None:
    # Nor is there a Java: the demo goes on without Spark.
    environment = {**os.environ, "PATH": "/nowhere", "JAVA_HOME": "/nowhere"}
    command = [sys.executable, "-m", "rli", "demo", "--dir", "a demo"]
    demo = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert "engine: local" in demo.stdout
    assert "Spark needs Java, and there is none: the demo writes in this process" in demo.stderr
    commands = demo.stdout.partition("Go on with:\n")[2].splitlines()
    assert len(commands) == 7
    for line in commands:
        # rli doctor finds that nothing maintains the demo's table.
        allowed = {0, 1} if " doctor " in line else {0}
        shell = ["/bin/sh", "-c", line]
        ended = subprocess.run(shell, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert ended.returncode in allowed, (line, ended.stderr)
    # Nothing is left beside the demo's folder.
    assert os.listdir(tmp_path) == ["a demo"]


def test_command_is_bare_name_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.path.dirname(sys.executable))
    assert command_line() == "rli"
    monkeypatch.setenv("PATH", "/usr/bin")
    assert command_line() != "rli"


def test_the_demo_leaves_other_folders_alone(rli: Rli, trips: str) -> None:
    refused = rli("demo", "--dir", trips, status=2).err
    assert "--dir" in refused
    assert len(rli("read", trips, "--json").json) == 3


@pytest.mark.one_spark
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
